"""What COLMAP makes of photographs of a room, and whether spoilt ones are named rightly.

Sixty photographs of the built-in room are rendered; twelve are spoilt in four ways, three each:
out of focus, black, of something else, and with a finger over the lens.
Printed: the photographs that got a camera, the largest error of a rotation between two of them
and of a ratio of distances, minutes and memory, and the reason given for each spoilt one.
"""

import argparse
import resource
import shutil
import tempfile
import time
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import torch
from skimage.filters import gaussian

from benchmarks.timing import machine
from scenes import open_scene
from scenes.photos import reconstruct
from scenes.room import take_photographs

WAYS = {
    "out of focus": "blurred",
    "black": "it is black",
    "something else": "too little in common",
    "a finger": "nothing to see",
}


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


def largest_errors(capture: Path, truth: torch.Tensor) -> tuple[float, float]:
    """Largest error of a rotation between two views in degrees, and of a ratio of distances."""
    scene = open_scene(str(capture))
    order = [int(name[:4]) for name in [*scene.train.names, *scene.test.names]]
    found = torch.cat([scene.train.world_from_camera, scene.test.world_from_camera])
    truth = truth[torch.tensor(order)]
    between = [poses[:, None, :3, :3].mT @ poses[None, :, :3, :3] for poses in (found, truth)]
    traces = (between[0].mT @ between[1]).diagonal(dim1=-2, dim2=-1).sum(-1)
    degrees = torch.rad2deg(torch.arccos(((traces.double() - 1) / 2).clamp(-1, 1)))
    lengths = [torch.cdist(poses[:, :3, 3], poses[:, :3, 3]) for poses in (found, truth)]
    ratios = [length / length.max() for length in lengths]
    return float(degrees.max()), float((ratios[0] - ratios[1]).abs().max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="photographs")
    parser.add_argument("--width", type=int, default=1600, help="their width in pixels")
    parser.add_argument("--spoilt", type=int, default=3, help="photographs spoilt in each way")
    asked = parser.parse_args()
    print(machine())
    folder = Path(tempfile.mkdtemp())
    photos, capture = folder / "room", folder / "capture"
    poses = take_photographs(photos, asked.count, width=asked.width, height=asked.width * 3 // 4)
    files = sorted(photos.iterdir())
    spoilt = {}
    for i in range(asked.spoilt * len(WAYS)):
        # Spread over the walk, so that the others still have neighbors.
        index = (i * asked.count) // (asked.spoilt * len(WAYS))
        way = list(WAYS)[i % len(WAYS)]
        spoil(files[index], way, seed=i)
        spoilt[files[index].name] = way
    start = time.perf_counter()
    found = reconstruct(photos, capture, log=lambda line: None)
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    degrees, ratio = largest_errors(capture, poses)
    right = sum(WAYS[way] in found.left_out.get(name, "") for name, way in spoilt.items())
    wrong = [name for name in found.left_out if name not in spoilt]
    print(
        f"{asked.count - len(found.left_out)} of {asked.count} with a camera, {seconds:.0f} s, "
        f"{memory:.1f} GB; rotations within {degrees:.3f} degrees, distances within {ratio:.2%}"
    )
    print(f"{right} of {len(spoilt)} spoilt ones named rightly, {len(wrong)} good ones left out")
    for name, way in spoilt.items():
        print(f"  {name}, {way}: {found.left_out.get(name, 'it got a camera')}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
