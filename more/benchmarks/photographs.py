"""What COLMAP makes of photographs of a room, and whether spoilt ones are named rightly.

Sixty photographs of the built-in room are rendered, from a walk around what stands in it, from
before it, or from over it; twelve are spoilt in four ways, three each: out of focus, black, of
something else, and with a finger over the lens.
Printed: the photographs that got a camera, the errors of rotations between two of them and of
ratios of distances, seconds and memory, and the reason given for each spoilt one; with
``--seconds`` also what a field reaches in that time on the poses found and on the true ones.

``--photos FOLDER --scene SCENE`` takes the photographs of a folder, and compares with the poses of
a scene that has them as images of the same names.
"""

import argparse
import math
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import torch
from skimage.filters import gaussian

from benchmarks.radiance import RECIPES, InterleavedFit
from benchmarks.timing import machine
from nerf_posenc.radiance.poses import look_at
from nerf_posenc.radiance.views import Views
from nerf_posenc_app.data import open_scene
from nerf_posenc_kinds.data.captures import reconstruct
from nerf_posenc_kinds.data.room import room_camera, room_poses, take_photographs

WAYS = {
    "out of focus": "blurred",
    "black": "it is black",
    "something else": "too little in common",
    "a finger": "nothing to see",
}


UP = torch.tensor([0.0, 0.0, 1.0])


def before(count: int) -> torch.Tensor:
    """Forward-facing poses: from a disk before the balls, all toward the wall behind them."""
    poses = []
    for i in range(count):
        radius, angle = 0.35 * math.sqrt((i + 0.5) / count), 2.399963 * i
        position = (radius * math.cos(angle), -0.8, radius * math.sin(angle))
        poses.append(look_at(torch.tensor(position), torch.tensor([0.0, 0.6, -0.2]), UP))
    return torch.stack(poses)


def over(count: int) -> torch.Tensor:
    """Poses on a spiral over the balls: a turn and a half, up to the ceiling."""
    poses = []
    for i in range(count):
        share = i / max(count - 1, 1)
        angle, radius = 3 * math.pi * share, 0.8 - 0.4 * share
        position = (radius * math.cos(angle), radius * math.sin(angle), -0.2 + 0.9 * share)
        poses.append(look_at(torch.tensor(position), torch.tensor([0.0, 0.1, -0.3]), UP))
    return torch.stack(poses)


WALKS = {"around": room_poses, "before": before, "over": over}


def spoil(file: Path, way: str, seed: int) -> None:
    """Replace a photograph by one that COLMAP cannot use, or not with the others."""
    rgb = iio.imread(file).astype(np.float32) / 255
    height, width = rgb.shape[:2]
    if way == "out of focus":
        rgb = gaussian(rgb, sigma=width / 60, channel_axis=-1)
    elif way == "black":
        rgb = 0.02 * rgb
    elif way == "something else":
        # Noise of several sizes, as of a wall that no other photograph shows.
        noise = np.random.default_rng(seed).random((height, width, 3), dtype=np.float32)
        parts = [gaussian(noise, sigma=s, channel_axis=-1) for s in (1, 3, 9)]
        rgb = sum((part - 0.5) / (6 * part.std()) for part in parts) + 0.5
    else:
        rgb[:, : width * 19 // 20] = (0.5, 0.3, 0.25)
    iio.imwrite(file, (np.clip(rgb, 0, 1) * 255).astype(np.uint8), quality=95)


def poses_by_name(folder: Path) -> dict[str, torch.Tensor]:
    """World-from-camera poses of a scene, by the names of its images without their folders."""
    scene = open_scene(str(folder))
    poses = torch.cat([scene.train.world_from_camera, scene.test.world_from_camera]).double()
    names = [Path(name).stem for name in (*scene.train.names, *scene.test.names)]
    return dict(zip(names, poses, strict=True))


def errors(capture: Path, truth: dict[str, torch.Tensor]) -> str:
    """Errors of rotations between two views, and of distances relative to the largest one."""
    # The copies of a capture are numbered: 0007-name.
    found = {name[5:]: pose for name, pose in poses_by_name(capture).items()}
    names = sorted(found.keys() & truth.keys())
    pairs = [torch.stack([poses[name] for name in names]) for poses in (found, truth)]
    between = [poses[:, None, :3, :3].mT @ poses[None, :, :3, :3] for poses in pairs]
    traces = (between[0].mT @ between[1]).diagonal(dim1=-2, dim2=-1).sum(-1)
    degrees = torch.rad2deg(torch.arccos(((traces - 1) / 2).clamp(-1, 1)))
    lengths = [torch.cdist(poses[:, :3, 3], poses[:, :3, 3]) for poses in pairs]
    ratios = (lengths[0] / lengths[0].max() - lengths[1] / lengths[1].max()).abs()
    return (
        f"{len(names)} poses compared: rotations {float(degrees.median()):.3f} degrees off in the "
        f"median, {float(degrees.max()):.3f} at most; distances {float(ratios.max()):.2%} at most"
    )


def compare_fields(capture: Path, truth: dict[str, torch.Tensor], seconds: float) -> str:
    """PSNR of a field at 200 pixels: on what was found, without its points, on the true poses."""
    found = open_scene(str(capture), size=200)

    def truly(views: Views) -> Views:
        poses = torch.stack([truth[Path(name).stem[5:]] for name in views.names]).float()
        cameras = [room_camera(*views.size)] * len(views)
        return replace(views, world_from_camera=poses, cameras=cameras, points=None)

    scores = []
    pointless = replace(found, train=replace(found.train, points=None))
    true = replace(found, train=truly(found.train), test=truly(found.test))
    for scene in (found, pointless, true):
        recipe, device = RECIPES["ours: proposal"], torch.device("cpu")
        alone = InterleavedFit(recipe, scene.train, seconds, device)
        alone.turn(math.inf)
        scores.append(alone.score(scene.test)["psnr_db"])
    return (
        f"a field after {seconds:g} s: {scores[0]:.2f} dB, without points {scores[1]:.2f} dB, on "
        f"the true poses {scores[2]:.2f} dB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="photographs")
    parser.add_argument("--walk", choices=WALKS, default="around", help="where they are taken from")
    parser.add_argument("--width", type=int, default=1600, help="their width in pixels")
    parser.add_argument("--spoilt", type=int, default=3, help="photographs spoilt in each way")
    parser.add_argument("--photos", type=Path, help="photographs instead of the room's")
    parser.add_argument("--scene", type=Path, help="scene that has them with poses")
    parser.add_argument("--seconds", type=float, default=0.0, help="of two fits on the poses")
    asked = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        folder, spoilt = Path(name), dict[str, str]()
        photos = asked.photos or folder / "room"
        if asked.photos is None:
            height = asked.width * 3 // 4
            poses = WALKS[asked.walk](asked.count)
            take_photographs(photos, poses, width=asked.width, height=height)
            files = sorted(photos.iterdir())
            truth = dict(zip([file.stem for file in files], poses.double(), strict=True))
            for i in range(asked.spoilt * len(WAYS)):
                # Spread over the walk, so that the others still have neighbors.
                file = files[(i * asked.count) // (asked.spoilt * len(WAYS))]
                spoilt[file.name] = list(WAYS)[i % len(WAYS)]
                spoil(file, spoilt[file.name], seed=i)
        else:
            truth = poses_by_name(asked.scene)
        start = time.perf_counter()
        found = reconstruct(photos, folder / "capture", log=lambda line: None)
        seconds = time.perf_counter() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        count = found.num_photos
        print(f"{count - len(found.left_out)} of {count} with a camera")
        print(f"{seconds:.0f} s, {memory:.1f} GB; {errors(folder / 'capture', truth)}")
        if asked.seconds and asked.photos is None:
            print(compare_fields(folder / "capture", truth, asked.seconds))
    right = sum(WAYS[way] in found.left_out.get(name, "") for name, way in spoilt.items())
    wrong = [name for name in found.left_out if name not in spoilt]
    print(f"{right} of {len(spoilt)} spoilt ones named rightly, {len(wrong)} good ones left out")
    for name, way in spoilt.items():
        print(f"  {name}, {way}: {found.left_out.get(name, 'it got a camera')}")


if __name__ == "__main__":
    main()
