"""Clips: the frames of animations and short videos, and turning spheres."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.poses import orbit_poses
from nerf_posenc.radiance.rays import Rays, camera_rays
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.formulas.quadrature import hemisphere_poses, render_exactly
from nerf_posenc_app.data.reading.worker import read_file
from nerf_posenc_app.data.shipped import module_of, shipped

SPHERES = "spheres"
"""Name of the built-in clip."""

_RATE = 16.0
_FIELD_OF_VIEW = math.radians(40)
# Still frames, from which the orbit is estimated.
_NUM_VIEWS = 8


@dataclass(frozen=True)
class Clip:
    """Frames of a short video.

    Attributes:
        name: name for the report.
        source: path of the file, or what it is.
        frames: sRGB in [0, 1].
        rate: frames per second.
    """

    name: str
    source: str
    frames: Float[Tensor, "frames height width 3"]
    rate: float


def open_clip(name_or_path: str, *, num_frames: int, size: int) -> Clip:
    """Open an animation or a video, or the built-in spheres by their name.

    Args:
        name_or_path: animated GIF, WebP or PNG, or with imageio-ffmpeg a video; or ``"spheres"``.
        num_frames: most frames that are read.
        size: pixels along the longer side; larger frames are averaged down to it.

    Raises:
        SceneError: If there is no such file, or it cannot be read or has fewer than two frames.
    """
    path = Path(name_or_path)
    if name_or_path == SPHERES and not path.exists():
        frames, rate, source = turning_spheres(num_frames, size), _RATE, "turning spheres"
    else:
        reader = "nerf_posenc_kinds.data.clip_reader:read_frames"
        pixels, rate = read_file(reader, path, num_frames, size)
        frames, source = torch.from_numpy(pixels).float() / 255, str(path)
    if len(frames) < 2:
        raise SceneError(f"{source} has only one frame; fit it as an image with --image")
    return Clip(path.stem, source, frames, rate)


def turning_spheres(num_frames: int, size: int) -> Float[Tensor, "frames size size 3"]:
    """The built-in scene of spheres, seen from a camera that goes around it once."""
    camera = Camera.from_angle(size, size, _FIELD_OF_VIEW)
    poses = orbit_poses(hemisphere_poses(_NUM_VIEWS), num_frames)
    rays = Rays.cat(camera_rays(camera, pose, background=1.0) for pose in poses)
    rgb = render_exactly(module_of(shipped("scene")["spheres"]).medium(), rays).rgb
    return rgb.view(num_frames, size, size, 3).float().clamp(0, 1)
