"""Posed images of a scene, and their split into training and test views."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from nerf_posenc.images import resize_area
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.rays import Rays, camera_rays

Background = Literal["white", "black", "random"]


@dataclass(frozen=True)
class Views:
    """Posed images, in coordinates in which the scene lies in [-1, 1]^3.

    Attributes:
        rgb: values in [0, 1], multiplied by the opacity.
        opacity: share of each pixel that the scene covers; all 1 if a file has no alpha.
        cameras: one per image, all of one size.
        world_from_camera: pose of each camera.
        names: one per image.
        near: distance from the cameras at which the scene begins; None if it is not known.
    """

    rgb: Float[Tensor, "views height width 3"]
    opacity: Float[Tensor, "views height width"]
    cameras: Sequence[Camera]
    world_from_camera: Float[Tensor, "views 4 4"]
    names: Sequence[str]
    near: float | None = None

    def __post_init__(self) -> None:
        counts = {len(self.cameras), len(self.rgb), len(self.world_from_camera)}
        if len(counts) > 1 or len(self.names) not in counts or 0 in counts:
            raise ValueError(
                f"each of the views, 1 or more, needs an image, a camera, a pose and a name; got "
                f"{len(self.rgb)}, {len(self.cameras)}, {len(self.world_from_camera)} and "
                f"{len(self.names)}"
            )

    def __len__(self) -> int:
        return len(self.rgb)

    def __repr__(self) -> str:
        width, height = self.size
        return f"{type(self).__name__}({len(self)} of {width} x {height})"

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.rgb.shape[2], self.rgb.shape[1]

    def over(self, background: float) -> Float[Tensor, "views height width 3"]:
        """Composite the images over a gray background of this value."""
        return self.rgb + (1 - self.opacity)[..., None] * background

    def resized(self, longer_side: int) -> "Views":
        """Average pixels by area until the longer side is ``longer_side``; never enlarges."""
        rgba = torch.cat([self.rgb, self.opacity[..., None]], dim=-1)
        small = resize_area(rgba, longer_side)
        if small is rgba:
            return self
        height, width = small.shape[1:3]
        return replace(
            self,
            rgb=small[..., :3].contiguous(),
            opacity=small[..., 3].contiguous(),
            cameras=[camera.resized(width, height) for camera in self.cameras],
        )

    def subset(self, count: int) -> "Views":
        """Select views, evenly spread; all if there are no more than ``count``."""
        chosen = evenly_spaced(count, len(self))
        return Views(
            self.rgb[chosen],
            self.opacity[chosen],
            [self.cameras[i] for i in chosen],
            self.world_from_camera[chosen],
            [self.names[i] for i in chosen],
            self.near,
        )

    def rays(self, view: int, *, background: float = 1.0) -> Rays:
        """Rays through all pixels of a view, row by row."""
        return camera_rays(self.cameras[view], self.world_from_camera[view], background=background)


@dataclass(frozen=True)
class Scene:
    """Posed images of one scene, in coordinates in which it lies in [-1, 1]^3.

    Attributes:
        name: of the folder, or of the built-in scene.
        train: the views to fit.
        test: the views to evaluate on, never fitted.
        source: one line on where it came from.
        scale: length of one unit here, in units of the file.
        center: where the origin lies, in units of the file.
        notes: remarks on how it was read, to be printed.
    """

    name: str
    train: Views
    test: Views
    source: str
    scale: float = 1.0
    notes: tuple[str, ...] = ()
    center: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def resized(self, longer_side: int) -> "Scene":
        """Average pixels by area until the longer side is ``longer_side``; never enlarges."""
        return replace(
            self, train=self.train.resized(longer_side), test=self.test.resized(longer_side)
        )


def evenly_spaced(count: int, total: int) -> list[int]:
    """Indices of ``count`` of ``total`` items, evenly spread; all if there are no more.

    Examples:
        >>> evenly_spaced(3, 9)
        [0, 3, 6]
    """
    count = min(count, total)
    return [i * total // count for i in range(count)]


def background_gray(background: Background) -> float:
    """Gray value of the background that test views are evaluated over; white for random."""
    return 0.0 if background == "black" else 1.0
