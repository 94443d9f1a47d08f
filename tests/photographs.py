"""Photographs of a room with known cameras: textured walls, seen while walking through it."""

import math
from pathlib import Path

import imageio.v3 as iio
import torch
from torch import Tensor

from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.poses import look_at
from nerf_posenc.radiance.rays import camera_rays


def room_poses(count: int) -> Tensor:
    """World-from-camera poses ``(count, 4, 4)`` on an arc that looks at a corner of the room."""
    poses = []
    for i in range(count):
        angle = 0.6 * (i / max(count - 1, 1) - 0.5)
        position = torch.tensor([-0.3 + angle, -0.6 + 0.2 * math.cos(5 * angle), 0.1 * (i % 3 - 1)])
        poses.append(
            look_at(position, torch.tensor([0.2, 0.8, 0.0]), torch.tensor([0.0, 0.0, 1.0]))
        )
    return torch.stack(poses)


def room_view(camera: Camera, pose: Tensor) -> Tensor:
    """Image ``(height, width, 3)`` of the inside of the cube [-1, 1]^3, with textured walls."""
    origins, directions = camera_rays(camera, pose)[:2]
    # The wall that a ray meets first, along each axis.
    distance = ((directions.sign() - origins) / directions).amin(-1, keepdim=True)
    points = origins + distance * directions
    axis = (points.abs()).argmax(-1)
    generator = torch.Generator().manual_seed(0)
    color = torch.zeros(3, len(points))
    for octave in (4, 9, 19, 40, 83):
        texture = torch.rand(6, 3, octave, octave, generator=generator)
        for wall in range(3):
            for side in (0, 1):
                on = (axis == wall) & ((points[:, wall] > 0) == bool(side))
                flat = points[on][:, [a for a in range(3) if a != wall]]
                sampled = torch.nn.functional.grid_sample(
                    texture[2 * wall + side][None], flat[None, None], align_corners=False
                )
                color[:, on] += sampled[0, :, 0] / 5
    image = (color - 0.5) * 2 + 0.5
    return image.clamp(0, 1).T.reshape(camera.height, camera.width, 3)


def room_camera(width: int, height: int) -> Camera:
    """Camera whose focal length is 0.9 of its width."""
    return Camera(width, height, 0.9 * width, 0.9 * width, width / 2, height / 2)


def take_photographs(folder: Path, count: int, *, width: int = 400, height: int = 300) -> Tensor:
    """Write photographs of the room and return their poses."""
    folder.mkdir()
    poses, camera = room_poses(count), room_camera(width, height)
    for i, pose in enumerate(poses):
        pixels = (room_view(camera, pose) * 255).round().byte().numpy()
        iio.imwrite(folder / f"IMG_{i:04d}.jpg", pixels, quality=95)
    return poses
