"""What is fuzzed: for each loader a corpus, its mutants, and the errors that it may raise."""

import io
import json
import random
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import soundfile
import torch
import trimesh
from scipy.io import wavfile

import train_fit
from app.kinds.audio import AudioKind, AudioOptions
from app.kinds.scan import ScanKind, ScanOptions
from app.options import PROGRAM, UsageError
from app.report.comparison import write_comparison
from app.report.metrics import METRICS
from nerf_posenc.fits import load_fit
from nerf_posenc.training.checkpoints import CheckpointError, load_checkpoint, save_checkpoint
from scenes import SceneError, open_image, open_scene
from scenes.clips import open_clip
from scenes.meshes import open_shape
from tools.corpora import image_corpus, run_corpus, scene_corpus
from tools.mutate import HOSTILE_TEXTS, HOSTILE_VALUES, mutated, mutated_json, with_png_checksums


@dataclass(frozen=True)
class Loader:
    """One thing to fuzz.

    Attributes:
        count: cases of a full run.
        make: writes a case to an empty folder.
        run: opens it; returns what came of it in a word.
        refusals: errors that are meant for the user.
    """

    count: int
    make: Callable[[Path, random.Random], Any]
    run: Callable[[Path, Any], str]
    refusals: tuple[type[Exception], ...]


def make_image(folder: Path, rng: random.Random) -> str:
    corpus = image_corpus()
    name = rng.choice(sorted(corpus))
    data = mutated(corpus[name], rng, list(corpus.values()))
    if data[:4] == b"\x89PNG" and rng.random() < 0.7:
        data = with_png_checksums(data)
    (folder / name).write_bytes(data)
    return name


def open_an_image(folder: Path, name: str) -> str:
    pixels = open_image(str(folder / name)).pixels
    # A large image keeps its 8 or 16 bits.
    if pixels.is_floating_point():
        assert torch.isfinite(pixels).all(), "it is not finite"
        assert ((pixels >= 0) & (pixels <= 1)).all(), "it is not in [0, 1]"
    return "read"


def make_slice(folder: Path, rng: random.Random) -> str:
    values = np.linspace(0, 1, 480).reshape(20, 24)
    kinds = (
        values,
        values.astype(np.float32),
        values > 0.5,
        np.asfortranarray(values),
        values.reshape(2, 10, 24),
        values[None, None],
    )
    file = io.BytesIO()
    np.save(file, rng.choice(kinds))
    (folder / "slice.npy").write_bytes(mutated(file.getvalue(), rng))
    return "slice.npy"


def open_a_slice(folder: Path, name: str) -> str:
    kind = ScanKind(ScanOptions(scan=str(folder / name), size=16, projections=2))
    assert torch.isfinite(kind.integrals).all(), "it is not finite"
    return "read"


def make_sound(folder: Path, rng: random.Random) -> str:
    tone = 0.5 * np.sin(np.linspace(0, 60, 400))
    stereo = np.stack([tone, -tone], axis=-1)
    kinds = (
        (tone * 32767).astype(np.int16),
        (stereo * 32767).astype(np.int16),
        (tone * 127 + 128).astype(np.uint8),
        (tone * (1 << 30)).astype(np.int32),
        stereo.astype(np.float32),
        tone,
    )
    file = io.BytesIO()
    if rng.random() < 0.25:
        soundfile.write(file, stereo, 8000, format=rng.choice(["FLAC", "OGG"]))
    else:
        wavfile.write(file, 8000, rng.choice(kinds))
    (folder / "sound").write_bytes(mutated(file.getvalue(), rng))
    return "sound"


def open_a_sound(folder: Path, name: str) -> str:
    kind = AudioKind(AudioOptions(audio=str(folder / name)))
    assert torch.isfinite(kind.sound.samples).all(), "it is not finite"
    return "read"


def make_clip(folder: Path, rng: random.Random) -> str:
    frames = np.random.default_rng(rng.randrange(100)).integers(0, 256, (3, 16, 32, 3), np.uint8)
    plugin, suffix = rng.choice(
        [("pillow", ".gif"), ("pillow", ".webp"), ("pillow", ".png"), ("FFMPEG", ".mp4")]
    )
    data = iio.imwrite("<bytes>", frames, extension=suffix, plugin=plugin)
    assert data is not None
    data = mutated(data, rng)
    if suffix == ".png" and rng.random() < 0.7:
        data = with_png_checksums(data)
    (folder / "clip").write_bytes(data)
    return "clip"


def open_a_clip(folder: Path, name: str) -> str:
    frames = open_clip(str(folder / name), num_frames=4, size=16).frames
    assert 2 <= len(frames) <= 4, f"it has {len(frames)} frames"
    assert max(frames.shape[1:3]) <= 16, "it is too large"
    return "read"


def make_mesh(folder: Path, rng: random.Random) -> str:
    suffix = rng.choice(["obj", "ply", "stl", "off", "glb"])
    mesh = trimesh.creation.icosphere(1)
    mesh.faces = mesh.faces[rng.randint(0, 3) :]
    data = trimesh.exchange.export.export_mesh(mesh, None, file_type=suffix)
    data = data.encode() if isinstance(data, str) else data
    (folder / f"mesh.{suffix}").write_bytes(mutated(data, rng))
    return f"mesh.{suffix}"


def open_a_mesh(folder: Path, name: str) -> str:
    shape = open_shape(str(folder / name))
    distances, _ = shape.distance(torch.rand(50, 3))
    assert torch.isfinite(distances).all(), "it is not finite"
    return "read"


def make_scene(kind: str) -> Callable[[Path, random.Random], str]:
    def make(folder: Path, rng: random.Random) -> str:
        shutil.copytree(scene_corpus()[kind], folder / "scene")
        files = [f for f in sorted((folder / "scene").rglob("*")) if f.is_file()]
        tables = [f for f in files if f.suffix != ".png"]
        file = rng.choice(tables if rng.random() < 0.85 else files)
        if rng.random() < 0.04:
            file.unlink()
        elif rng.random() < 0.04:
            file.unlink()
            file.symlink_to(rng.choice(["/etc/passwd", "/dev/zero", "nowhere"]))
        elif file.suffix == ".json" and rng.random() < 0.8:
            value = json.loads(file.read_text())
            for _ in range(rng.choice((1, 1, 2))):
                value = mutated_json(value, rng)
            file.write_text(json.dumps(value))
        else:
            file.write_bytes(mutated(file.read_bytes(), rng))
        return "scene"

    return make


def open_a_scene(folder: Path, name: str) -> str:
    scene = open_scene(str(folder / name))
    for views in (scene.train, scene.test):
        images = (views.over(i, 1.0) for i in range(len(views)))
        for tensor in (*images, views.world_from_camera):
            assert torch.isfinite(tensor).all(), "it is not finite"
    return "read"


def make_run(folder: Path, rng: random.Random) -> str:
    shutil.copytree(run_corpus()[rng.choice(("image", "scene"))], folder / "run")
    file = folder / "run" / METRICS
    if rng.random() < 0.75:
        if rng.random() < 0.85:
            value = json.loads(file.read_text())
            for _ in range(rng.choice((1, 1, 2, 3))):
                value = mutated_json(value, rng)
            file.write_text(json.dumps(value))
        else:
            file.write_bytes(mutated(file.read_bytes(), rng))
        return "run"
    image = rng.choice(sorted((folder / "run").rglob("*.png")))
    if rng.random() < 0.2:
        image.unlink()
        if rng.random() < 0.5:
            image.symlink_to(rng.choice(["/etc/passwd", "/dev/zero", "metrics.json"]))
    else:
        image.write_bytes(with_png_checksums(mutated(image.read_bytes(), rng)))
    return "run"


def compare_a_run(folder: Path, name: str) -> str:
    write_comparison(folder / "page.html", [folder / name])
    return "read"


def make_checkpoint(folder: Path, rng: random.Random) -> str:
    files = [f for run in run_corpus().values() for f in sorted((run / "fits").iterdir())]
    source, target = rng.choice(files), folder / "fit.safetensors"
    if rng.random() < 0.5:
        target.write_bytes(mutated(source.read_bytes(), rng))
        return target.name
    values = load_checkpoint(source)
    names = ["fit", "ema", "snapshots", "model", "halved_batch_size"]
    name = rng.choice(names + ["model"] * 6)
    values[name] = mutated_json(values[name], rng)
    try:
        save_checkpoint(target, values)
    except (ValueError, TypeError):
        target.write_bytes(b"")
    return target.name


def load_a_checkpoint(folder: Path, name: str) -> str:
    load_fit(folder / name)
    return "read"


_OPTIONS = {
    "--image": ["cat", "cat.png", "nothing.png", "/", "."],
    "--images": ["cat", "rocket", "nothing.png"],
    "--scene": ["spheres", "nothing", "."],
    "--resume": ["run", ".", "nothing"],
    "--bands": ["0", "3", "100", "101", "-1"],
    "--encodings": ["none", "fourier", "gaussian", "hash", "magic"],
    "--sigma": ["0", "1", "auto", "1e300", "nan"],
    "--size": ["6", "0"],
    "--steps": ["1", "2", "0"],
    "--batch-size": ["1", "30", "0"],
    "--network": ["relu", "siren", "wire", "mfn", "magic"],
    "--field": ["mlp", "small", "nerf", "mip"],
    "--width": ["1", "8", "0"],
    "--depth": ["1", "2", "0"],
    "--optimizer": ["adam", "muon"],
    "--lr": ["1e-3", "1e30", "0", "nan"],
    "--video": ["0", "2", "1"],
    "--turntable": ["0", "1"],
    "--device": ["cpu", "cuda:99", "meta", "cpu:3"],
    "--seed": ["0", "-1", str(2**63)],
    "--out": ["run", "deep/run", "/proc/run", "file"],
    "--save-every": ["0", "0.01", "inf"],
    "--max-pixels": ["1", "0", "1000"],
}
_FLAGS = ["--held-out", "--figures", "--overwrite", "--quiet", "--wrong", "-x", ""]


def make_command(folder: Path, rng: random.Random) -> list[str]:
    (folder / "file").write_text("text")
    arguments: list[str] = []
    if rng.random() < 0.25:
        arguments.append(rng.choice(["compare", "render", "export", "other"]))
        arguments += rng.sample(["run", "nothing", ".", "file", "--onnx", "--size=3"], 2)
    for name in rng.sample(sorted(_OPTIONS), rng.randint(0, 5)):
        values = [*_OPTIONS[name], rng.choice(HOSTILE_TEXTS), str(rng.choice(HOSTILE_VALUES))]
        arguments += [name, rng.choice(values)]
    arguments += rng.sample(_FLAGS, rng.choice((0, 0, 1, 2)))
    given = {argument.split("=")[0] for argument in arguments}
    small = {"--size": "6", "--steps": "2", "--batch-size": "30", "--width": "8", "--depth": "1"}
    small |= {"--video": "0", "--turntable": "0", "--test-views": "1"}
    if "--resume" not in given and not given & {"compare", "render", "export"}:
        arguments += [part for name, value in small.items() if name not in given
                      for part in (name, value)]  # fmt: skip
    return arguments


def run_a_command(folder: Path, arguments: list[str]) -> str:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = train_fit.main(arguments)
    printed = err.getvalue()
    assert status in (0, 1, 2), f"exit status {status}"
    assert "Traceback" not in printed, printed[-500:]
    if status == 2:
        # One line, or what tyro says of a value that it cannot read, with the option's help.
        errors = [line for line in printed.splitlines() if line.startswith(f"{PROGRAM}: error: ")]
        is_one = len(errors) == 1 or (not errors and "full helptext" in printed)
        assert is_one, f"status 2 with {len(errors)} errors: {printed[-500:]}"
    return f"status {status}"


LOADERS: dict[str, Loader] = {
    "images": Loader(10_000, make_image, open_an_image, (SceneError,)),
    **{
        kind: Loader(3_000, make_scene(kind), open_a_scene, (SceneError,))
        for kind in ("transforms", "synthetic", "llff", "colmap")
    },
    "sounds": Loader(1_000, make_sound, open_a_sound, (SceneError,)),
    "clips": Loader(1_000, make_clip, open_a_clip, (SceneError,)),
    "meshes": Loader(1_000, make_mesh, open_a_mesh, (SceneError,)),
    "slices": Loader(1_000, make_slice, open_a_slice, (UsageError,)),
    "compare": Loader(3_000, make_run, compare_a_run, (ValueError,)),
    "checkpoints": Loader(1_000, make_checkpoint, load_a_checkpoint, (CheckpointError,)),
    "commands": Loader(500, make_command, run_a_command, ()),
}
