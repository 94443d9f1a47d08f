"""Print what becomes of files that failed in public bug reports: one line each.

    python -m tools.reports ../shared/data/reports

Every input is opened by the reader that the program would use. What is printed is what a user sees:
sizes, cameras and notes, or the one line of the refusal. The folders' READMEs say what is expected.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from nerf_posenc.radiance.views import Scene
from nerf_posenc_app.data import SceneError, open_image, open_scene
from nerf_posenc_app.options import UsageError
from nerf_posenc_kinds.data.captures import photo_files
from nerf_posenc_kinds.data.clips import open_clip
from nerf_posenc_kinds.data.meshes import open_shape
from nerf_posenc_kinds.data.sounds import open_sound
from nerf_posenc_kinds.scan import ScanKind, ScanOptions

_MESHES = (".obj", ".ply", ".off", ".glb")
_CLIPS = (".avi", ".mp4", ".gif", ".webp")
_OF_SCANS = (".npz", ".gz")
_IS_SCENE = ("transforms.json", "poses_bounds.npy", "sparse")


def main(folder: Path) -> None:
    """Print a line for each input."""
    for home in sorted(folder.iterdir()):
        print(f"\n{home.name}")
        for path in _inputs(home):
            try:
                said = _opened(path, home.name)
            except (SceneError, UsageError) as error:
                said = f"refused: {error}"
            print(f"  {path.relative_to(home)}: {said.replace(str(home) + '/', '')}")


def _inputs(home: Path) -> list[Path]:
    folders = [f for f in sorted(home.iterdir()) if any((f / n).exists() for n in _IS_SCENE)]
    files = [f for f in sorted(home.iterdir()) if f.is_file() and f.name != "README"]
    return folders + files


def _opened(path: Path, kind: str) -> str:
    if path.is_dir():
        return _about(open_scene(str(path)))
    if path.name == "cameras.txt":
        return _with_cameras(path)
    suffix = path.suffix.lower()
    if suffix in _MESHES:
        shape = open_shape(str(path))
        extents = np.ptp(shape.vertices.numpy() * shape.scale, axis=0)
        corners = shape.vertices[shape.faces] * shape.scale
        a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
        area = float(a.cross(b, dim=-1).norm(dim=-1).sum() / 2)
        return f"extents {extents.round(4)}, area {area:.4f}; {'; '.join(shape.notes)}"
    if suffix == ".wav":
        sound = open_sound(str(path))
        return f"{len(sound.samples)} samples, peak {float(sound.samples.abs().max()):.3g}"
    if suffix in _CLIPS or "animation" in kind:
        frames = open_clip(str(path), num_frames=32, size=64).frames
        return f"frames {tuple(frames.shape)}, corner {frames[0, 0, 0].tolist()}"
    if suffix in _OF_SCANS or "scan" in kind:
        scan = ScanKind(ScanOptions(scan=str(path)))
        return f"{scan.size}, density from {float(scan.slices.min())} to {float(scan.slices.max())}"
    image = open_image(str(path))
    return f"image {image.size}, mean {float(image.rgb.mean()):.4f}"


def _about(scene: Scene) -> str:
    camera = scene.train.cameras[0]
    intrinsics = f"f ({camera.fx:.2f}, {camera.fy:.2f}), c ({camera.cx:.2f}, {camera.cy:.2f})"
    views = f"{len(scene.train)} + {len(scene.test)} views of {scene.train.size}"
    box = f"box of {scene.scale:.3g} at {np.round(scene.center, 3).tolist()}"
    return f"{views}, {intrinsics}, {box}; {'; '.join(scene.notes)}"


def _with_cameras(cameras: Path) -> str:
    """A COLMAP model of another folder with these cameras."""
    source = next(cameras.parent.parent.glob("05_*/c_sub3"))
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "sparse/0")
        model.mkdir(parents=True)
        for file in (source / "sparse/1").glob("*.txt"):
            (model / file.name).write_bytes(file.read_bytes())
        (model / "cameras.txt").write_bytes(cameras.read_bytes())
        shutil.copytree(source / "images", Path(folder, "images"))
        return _about(open_scene(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
    hidden: Any = next(Path(sys.argv[1]).resolve().glob("24_*"))
    folder = next(path for path in hidden.iterdir() if path.is_dir()) / "images"
    print(f"--photos: {len(photo_files(folder))} photographs")
