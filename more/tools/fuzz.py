"""Damaged files of every kind: read, or refused by an error that is meant for a person.

    python -m more.tools.fuzz [READER ...] [--count 1000] [--seed 0]

Hypothesis draws the damage and reduces a failure to a small one. A failure is any other error, 10 s
for one case, 4 GB of memory, or a file that is opened outside the case's folder.
"""

import argparse
import faulthandler
import io
import json
import os
import resource
import sys
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import soundfile
import torch
import trimesh
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import train_fit
from more.tests.kinds.test_volume_files import made, write_nifti, write_series
from nerf_posenc.fits import load_fit
from nerf_posenc.training.checkpoints import CheckpointError
from nerf_posenc_app.commands.comparison import write_comparison
from nerf_posenc_app.data import SceneError, open_image, open_scene
from nerf_posenc_app.data.reading.hdr import SUFFIXES, write_hdr
from nerf_posenc_app.data.reading.worker import read_file
from nerf_posenc_app.options import UsageError
from nerf_posenc_kinds.data.clips import open_clip
from nerf_posenc_kinds.data.meshes import open_shape
from nerf_posenc_kinds.data.sounds import open_sound
from nerf_posenc_kinds.scan import ScanKind, ScanOptions
from tests.corpora import image_corpus, scene_corpus

_SECONDS, _BYTES = 10.0, 4 << 30
_REFUSALS = (SceneError, UsageError, CheckpointError, ValueError)
_ALLOWED = (
    tempfile.gettempdir(),
    sys.prefix,
    sys.base_prefix,
    str(Path(__file__).parents[1]),
    "/usr",
    "/lib",
    "/etc/ld",
)
_DEVICES = ("/proc", "/sys", "/dev/null", "/dev/urandom", str(Path.home() / ".cache"))

# Where formats have their edges: the ends of 8, 16, 24 and 32 bits.
_EDGES = st.sampled_from([0, 1, 127, 128, 255, 256, 32767, 65535, 2**24, 2**31 - 1, 2**32 - 1])
_TEXTS = st.sampled_from(["", "..", "/etc/passwd", "a\0b", "\x1b[31m", "caf\udce9", "x" * 5000])
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS | st.text(max_size=9)
_JSON = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@st.composite
def _damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes that are replaced, removed, repeated or cut off, most often near the beginning."""
    for _ in range(draw(st.integers(1, 2))):
        near = min(len(data), draw(st.sampled_from([1 << 30, 1 << 30, 256, 64])))
        at, length = draw(st.integers(0, max(0, near - 1))), draw(st.integers(1, 32))
        edge = draw(_EDGES).to_bytes(4, draw(st.sampled_from(["little", "big"])))
        part = draw(st.sampled_from([edge, edge[:2], b"", data[at : at + length] * 2]))
        end = len(data) if draw(st.integers(0, 9)) == 0 else at + max(len(part), length % 5)
        data = data[:at] + (part or draw(st.binary(max_size=length))) + data[end:]
    return _with_png_checksums(data) if data[:4] == b"\x89PNG" else data


def _with_png_checksums(data: bytes) -> bytes:
    """Correct the checksums of a PNG's chunks, so that a decoder looks at what is in them."""
    result, at = bytearray(data), 8
    while at + 12 <= len(result) and (end := at + 8 + int.from_bytes(result[at : at + 4])) < len(
        result
    ):
        result[end : end + 4] = zlib.crc32(result[at + 4 : end]).to_bytes(4)
        at = end + 4
    return bytes(result)


@st.composite
def _damaged_json(draw: st.DrawFn, value: Any) -> Any:
    """One node of nested lists and mappings, replaced or removed."""
    if isinstance(value, list | dict) and value and draw(st.integers(0, 4)):
        keys: list[Any] = sorted(value) if isinstance(value, dict) else list(range(len(value)))
        key = draw(st.sampled_from(keys))
        kept = [(k, value[k]) for k in keys if k != key or draw(st.booleans())]
        changed = [(k, draw(_damaged_json(v)) if k == key else v) for k, v in kept]
        return dict(changed) if isinstance(value, dict) else [v for _, v in changed]
    return draw(_JSON)


def _sounds() -> dict[str, bytes]:
    tone = 0.5 * np.sin(np.linspace(0, 60, 800)).reshape(400, 2)
    found = {}
    for kind, subtype in (("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "FLOAT"), ("FLAC", None)):
        file = io.BytesIO()
        soundfile.write(file, tone, 8000, format=kind, subtype=subtype)
        found[f"{subtype}.{kind.lower()}"] = file.getvalue()
    return found


def _clips() -> dict[str, bytes]:
    frames = np.random.default_rng(0).integers(0, 256, (3, 16, 32, 3), np.uint8)
    plugins = {".gif": "pillow", ".webp": "pillow", ".png": "pillow", ".mp4": "FFMPEG"}
    return {
        f"clip{suffix}": iio.imwrite("<bytes>", frames, extension=suffix, plugin=plugin) or b""
        for suffix, plugin in plugins.items()
    }


def _meshes() -> dict[str, bytes]:
    found = {}
    for suffix in ("obj", "ply", "stl", "off", "glb"):
        data = trimesh.exchange.export.export_mesh(
            trimesh.creation.icosphere(1), None, file_type=suffix
        )
        found[f"mesh.{suffix}"] = data.encode() if isinstance(data, str) else data
    return found


def _slices() -> dict[str, bytes]:
    found = {}
    for dtype in ("float64", "float32", "uint8"):
        file = io.BytesIO()
        np.save(file, np.linspace(0, 1, 480).reshape(20, 24).astype(dtype))
        found[f"{dtype}.npy"] = file.getvalue()
    return found


def _linear() -> dict[str, bytes]:
    """Images of linear light."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in SUFFIXES:
            values = np.random.default_rng(0).uniform(0, 40, (12, 17, 3)).astype(np.float32)
            write_hdr(Path(folder, f"light{suffix}"), suffix, values)
        return _folder(Path(folder))


def _volumes() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("volume.nii", "volume.nii.gz"):
            write_nifti(Path(folder, name), made())
        return _folder(Path(folder))


def _series() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        write_series(Path(folder), made())
        return _folder(Path(folder))


def _folder(path: Path) -> dict[str, bytes]:
    """Files below a folder."""
    files = (file for file in sorted(path.rglob("*")) if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def _run() -> dict[str, bytes]:
    """A run folder of an image."""
    small = "--image cat --size 12 --steps 20 --width 8 --depth 1 --batch-size 50 --video 0 --quiet"
    with tempfile.TemporaryDirectory() as folder:
        assert train_fit.main([*small.split(), "--out", f"{folder}/run"]) == 0
        return _folder(Path(folder, "run"))


def _is_finite(tensor: torch.Tensor) -> None:
    assert not tensor.is_floating_point() or bool(torch.isfinite(tensor).all()), "it is not finite"


def _open_scene(path: Path) -> None:
    scene = open_scene(str(path))
    _is_finite(torch.cat([scene.train.world_from_camera, scene.test.world_from_camera]))
    _is_finite(scene.train.over(0, 1.0))


def _open_scan(path: Path) -> None:
    _is_finite(ScanKind(ScanOptions(scan=str(path), size=16, projections=2)).integrals)


def _open_volume(path: Path) -> None:
    _is_finite(
        torch.from_numpy(
            read_file("nerf_posenc_kinds.data.volume_reader:read_volume", path, 1 << 20)[0]
        )
    )


# What makes the valid files of a reader, whether they are read as one folder, and the reader.
READERS: Mapping[str, tuple[Callable[[], dict[str, bytes]], bool, Callable[[Path], Any]]] = {
    "images": (image_corpus, False, lambda path: _is_finite(open_image(str(path)).pixels)),
    "linear": (_linear, False, lambda path: _is_finite(open_image(str(path)).pixels)),
    "sounds": (_sounds, False, lambda path: _is_finite(open_sound(str(path)).samples)),
    "clips": (_clips, False, lambda path: open_clip(str(path), num_frames=4, size=16)),
    "meshes": (_meshes, False, lambda path: open_shape(str(path)).distance(torch.rand(50, 3))),
    "slices": (_slices, False, _open_scan),
    "volumes": (_volumes, False, _open_volume),
    "series": (_series, True, _open_volume),
    **{
        kind: (lambda kind=kind: _folder(scene_corpus()[kind]), True, _open_scene)  # type: ignore[misc]
        for kind in ("transforms", "synthetic", "llff", "colmap")
    },
    "compare": (_run, True, lambda path: write_comparison(path.with_name("page.html"), [path])),
    "fits": (_run, True, lambda path: [load_fit(file) for file in sorted(path.glob("fits/*"))]),
}

_opened_outside: list[str] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if not path.startswith((*_ALLOWED, *_DEVICES)):
            _opened_outside.append(path)


def fuzz(reader: str, count: int, number: int) -> None:
    """Open damaged files of one reader; raise what it should not have raised."""
    make, is_folder, read = READERS[reader]
    corpus, outcomes = make(), {"read": 0, "refused": 0}

    # The cases are independent of those of earlier runs: nothing is kept on disk.
    @seed(number)
    @settings(
        max_examples=count,
        deadline=1e3 * _SECONDS,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.data())
    def open_damaged(data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(corpus)))
        content = corpus[name]
        if name.endswith(".json") and data.draw(st.booleans()):
            content = json.dumps(data.draw(_damaged_json(json.loads(content)))).encode()
        else:
            content = data.draw(_damaged(content))
        with tempfile.TemporaryDirectory() as folder:
            for file, whole in (corpus if is_folder else {name: b""}).items():
                Path(folder, "case", file).parent.mkdir(parents=True, exist_ok=True)
                Path(folder, "case", file).write_bytes(content if file == name else whole)
            _opened_outside.clear()
            # A reader that hangs ends the process, with a traceback.
            faulthandler.dump_traceback_later(3 * _SECONDS, exit=True)
            try:
                read(Path(folder, "case") if is_folder else Path(folder, "case", name))
                outcomes["read"] += 1
            except _REFUSALS:
                outcomes["refused"] += 1
            faulthandler.cancel_dump_traceback_later()
            assert not _opened_outside, f"opened {_opened_outside}"

    open_damaged()
    print(f"{reader:10} {outcomes['read']:6} read, {outcomes['refused']:6} refused", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("readers", nargs="*", help=f"of {', '.join(READERS)}; all by default")
    parser.add_argument("--count", type=int, default=1000, help="cases of each reader")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_DATA, (_BYTES, _BYTES))
    sys.addaudithook(_audit)
    for each in options.readers or READERS:
        fuzz(each, options.count, options.seed)
