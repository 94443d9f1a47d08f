"""Photographs of a room in closed form, to try ``--photos`` without a camera at hand.

The inside of the cube [-1, 1]^3, z up, with two balls in it. Colors are random 3-D textures, so
that COLMAP finds features everywhere.
"""

import math
from pathlib import Path

import imageio.v3 as iio
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.images import to_eight_bits
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.poses import look_at
from nerf_posenc.radiance.rays import camera_rays

_BALLS = (((0.15, 0.1, -0.35), 0.22), ((-0.25, 0.15, -0.15), 0.14))
_TINTS = ((1.0, 0.85, 0.7), (0.75, 0.9, 1.0), (0.85, 1.0, 0.8), (1.0, 0.5, 0.4), (0.5, 0.6, 1.0))
# Cells of the textures along each axis, from coarse to fine.
_CELLS = (4, 9, 19, 40, 83)
# Radians between neighboring photographs.
_STEP = 0.12
# Maximum angle of the walk in radians: less than a full circle, since real walks do not close.
_LONGEST_WALK = 4.5
# Standard deviation of the sensor's noise, for values in [0, 1].
_NOISE = 0.01
# Standard deviation of the exposure, in stops.
_STOPS = 0.1
# Focal length in widths of the image; EXIF has it for the diagonal of a frame of 24 x 36 mm.
_FOCAL = 0.9
_EXIF, _FOCAL_IN_35_MM = 0x8769, 0xA405


def room_camera(width: int, height: int) -> Camera:
    """Camera whose focal length is 0.9 of its width."""
    return Camera(width, height, _FOCAL * width, _FOCAL * width, width / 2, height / 2)


def room_poses(count: int) -> Tensor:
    """World-from-camera poses ``(count, 4, 4)`` on a walk around the balls."""
    walk = min(_STEP * count, _LONGEST_WALK)
    up, target = torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0.0, 0.1, -0.2])
    poses = []
    for i in range(count):
        angle = walk * (i / max(count - 1, 1) - 0.5) - math.pi / 2
        height = 0.1 + 0.15 * math.sin(3 * angle)
        position = torch.tensor([0.8 * math.cos(angle), 0.8 * math.sin(angle), height])
        poses.append(look_at(position, target, up))
    return torch.stack(poses)


def room_view(camera: Camera, pose: Tensor) -> Tensor:
    """Exact colors ``(height, width, 3)`` in [0, 1] of a view from inside the room."""
    origins, directions = camera_rays(camera, pose)[:2]
    # The wall that a ray meets first: the nearest along any axis.
    along = (directions.sign() - origins) / directions
    distance, surface = along.min(dim=-1)
    for i, (center, radius) in enumerate(_BALLS):
        # |o + t d - c|^2 = r^2 is a quadratic in t, whose smaller root is where the ball begins.
        away = origins - torch.tensor(center)
        square = directions.square().sum(-1)
        half = (away * directions).sum(-1)
        root = half.square() - square * (away.square().sum(-1) - radius**2)
        hit = (-half - root.clamp(min=0).sqrt()) / square
        is_nearer = (root > 0) & (hit > 0) & (hit < distance)
        distance = torch.where(is_nearer, hit, distance)
        surface = torch.where(is_nearer, 3 + i, surface)
    points = origins + distance[:, None] * directions
    generator = torch.Generator().manual_seed(0)
    color = torch.zeros(len(points), 3)
    for cells in _CELLS:
        texture = torch.rand(1, 3, cells, cells, cells, generator=generator)
        sampled = F.grid_sample(texture, points[None, None, None], align_corners=True)
        color += sampled[0, :, 0, 0].T / len(_CELLS)
    # The mean of several textures is gray: twice its contrast.
    color = ((color - 0.5) * 2 + 0.5).clamp(0, 1) * torch.tensor(_TINTS)[surface]
    return color.view(camera.height, camera.width, 3)


def take_photographs(folder: Path, poses: Tensor, *, width: int = 800, height: int = 600) -> None:
    """Write photographs as a phone would: JPEG, with noise, exposures that vary, and EXIF.

    Args:
        folder: folder to write ``IMG_0000.jpg`` and so on into; created.
        poses: world-from-camera poses ``(count, 4, 4)``, which are written nowhere.
        width: width in pixels.
        height: height in pixels.
    """
    folder.mkdir(parents=True, exist_ok=True)
    camera = room_camera(width, height)
    exif = Image.Exif()
    millimeters = math.hypot(24, 36) * _FOCAL * width / math.hypot(width, height)
    exif.get_ifd(_EXIF)[_FOCAL_IN_35_MM] = round(millimeters)
    generator = torch.Generator().manual_seed(1)
    for i, pose in enumerate(poses):
        rgb = room_view(camera, pose)
        gain = 2 ** (_STOPS * torch.randn(1, generator=generator))
        rgb = gain * rgb + _NOISE * torch.randn(rgb.shape, generator=generator)
        pixels = to_eight_bits(rgb.clamp(0, 1)).numpy()
        iio.imwrite(folder / f"IMG_{i:04d}.jpg", pixels, quality=95, exif=exif.tobytes())
