"""Posed images of a scene, and their split into training and test views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

from nerf_posenc.images import evenly_spaced, resize_area, unit_range
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.rays import Rays, camera_rays

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Shaped

Background = Literal["white", "black", "random"]

# Means of ones are that much off, by rounding.
_MASK_ROUNDING = 1e-6


class SurfacePoints(NamedTuple):
    """Points of surfaces that views show, as structure from motion finds them.

    Attributes:
        view: index of the view that shows each point.
        place: column and row in that view, as shares in [0, 1) of its width and height.
        position: position in the scene; a point that several views show has a row for each.
    """

    view: Int[Tensor, " n"]
    place: Float[Tensor, "n 2"]
    position: Float[Tensor, "n 3"]


@dataclass(frozen=True)
class Views:
    """Posed images, in coordinates in which the scene lies in [-1, 1]^3.

    The pixels stay in the type that they are stored in, 3 or 4 bytes each for most files.

    Attributes:
        pixels: sRGB as stored, with or without an opacity: the share of a pixel that the scene
            covers. Either 8 or 16 bits without a sign; or floating-point values in [0, 1], RGB
            multiplied by the opacity.
        cameras: one per image, all of one size.
        world_from_camera: pose of each camera.
        names: one per image.
        near: distance from the cameras at which the scene begins; None if it is not known.
        points: points whose distance is known; None for none.
        masks: pixels that are fitted and scored; None for all.
    """

    pixels: Shaped[Tensor, "views height width channels"]
    cameras: Sequence[Camera]
    world_from_camera: Float[Tensor, "views 4 4"]
    names: Sequence[str]
    near: float | None = None
    points: SurfacePoints | None = None
    masks: Bool[Tensor, "views height width"] | None = None

    def __post_init__(self) -> None:
        for name in ("pixels", "world_from_camera"):
            if not isinstance(getattr(self, name), Tensor):
                raise TypeError(
                    f"{name} must be a tensor; got {type(getattr(self, name)).__name__}"
                )
        counts = {len(self.cameras), len(self.pixels), len(self.world_from_camera)}
        if len(counts) > 1 or len(self.names) not in counts or 0 in counts:
            raise ValueError(
                f"each of the views, 1 or more, needs an image, a camera, a pose and a name; got "
                f"{len(self.pixels)}, {len(self.cameras)}, {len(self.world_from_camera)} and "
                f"{len(self.names)}"
            )
        if self.pixels.ndim != 4 or self.pixels.shape[3] not in (3, 4):
            raise ValueError(
                "pixels must have shape (views, height, width, 3 or 4), RGB or RGBA; got "
                f"{tuple(self.pixels.shape)}"
            )
        if self.masks is not None and self.masks.shape != self.pixels.shape[:3]:
            raise ValueError(
                f"masks must have shape {tuple(self.pixels.shape[:3])}, that of the views; got "
                f"{tuple(self.masks.shape)}"
            )
        if not (
            self.pixels.is_floating_point() or self.pixels.dtype in (torch.uint8, torch.uint16)
        ):
            raise TypeError(
                "pixels must be uint8, uint16 or floating-point values in [0, 1]; got "
                f"{self.pixels.dtype}"
            )

    def __len__(self) -> int:
        return len(self.pixels)

    def __repr__(self) -> str:
        width, height = self.size
        return f"{type(self).__name__}({len(self)} of {width} x {height})"

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.pixels.shape[2], self.pixels.shape[1]

    @property
    def is_opaque(self) -> bool:
        """Whether the scene covers all pixels of all views."""
        return self.pixels.shape[3] == 3 or all(
            bool((self.opacity(view) >= 1).all()) for view in range(len(self))
        )

    def opacity(self, view: int) -> Float[Tensor, "height width"]:
        """Opacity of a view; all 1 without one."""
        pixels = self.pixels[view]
        if pixels.shape[2] == 3:
            return torch.ones(pixels.shape[:2], device=pixels.device)
        return unit_range(pixels[..., 3])

    @property
    def central_camera(self) -> Camera:
        """Camera whose axis is nearest to the middle: of padded images, one of a large image."""
        return min(
            self.cameras, key=lambda c: abs(c.cx / c.width - 0.5) + abs(c.cy / c.height - 0.5)
        )

    def over(self, view: int, background: float) -> Float[Tensor, "height width 3"]:
        """Composite a view over a gray background of this value."""
        return over_background(self.pixels[view], background)

    def resized(self, longer_side: int) -> "Views":
        """Average pixels by area until the longer side is ``longer_side``; never enlarges."""
        if max(self.size) <= longer_side:
            return self
        small = [resize_area(premultiplied(image)[None], longer_side)[0] for image in self.pixels]
        height, width, _ = small[0].shape
        return replace(
            self,
            pixels=torch.stack(small),
            cameras=[camera.resized(width, height) for camera in self.cameras],
            masks=None if self.masks is None else reduced_masks(self.masks, longer_side),
        )

    def subset(self, count: int) -> "Views":
        """Select views, evenly spread, without points; all if there are no more than ``count``."""
        if count >= len(self):
            return self
        is_chosen = torch.zeros(len(self), dtype=torch.bool)
        is_chosen[evenly_spaced(count, len(self))] = True
        return replace(self.select(is_chosen), points=None)

    def select(self, is_chosen: Bool[Tensor, " views"]) -> "Views":
        """Select views, with the points that they show."""
        chosen = is_chosen.nonzero()[:, 0]
        points = self.points
        if points is not None:
            # The views that stay are numbered anew.
            number, kept = is_chosen.cumsum(0) - 1, is_chosen[points.view]
            points = SurfacePoints(
                number[points.view[kept]], points.place[kept], points.position[kept]
            )
        return replace(
            self,
            pixels=self.pixels[chosen],
            cameras=[self.cameras[i] for i in chosen],
            world_from_camera=self.world_from_camera[chosen],
            names=[self.names[i] for i in chosen],
            points=points,
            masks=None if self.masks is None else self.masks[chosen],
        )

    def as_plain(self) -> dict[str, Any]:
        """All fields as containers of tensors and numbers, as a checkpoint holds them."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain["cameras"] = [asdict(camera) for camera in self.cameras]
        plain["points"] = None if self.points is None else list(self.points)
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Views":
        """Views of what `as_plain` returned.

        Raises:
            ValueError: If a value does not suit the others.
        """
        cameras = [
            Camera(**{**camera, "distortion": tuple(camera["distortion"])})
            for camera in plain["cameras"]
        ]
        points = None if plain["points"] is None else SurfacePoints(*plain["points"])
        known = {f.name: plain[f.name] for f in fields(cls) if f.name in plain}
        return cls(**{**known, "cameras": cameras, "points": points})

    def rays(self, view: int, *, background: float = 1.0) -> Rays:
        """Rays through all pixels of a view, row by row."""
        return camera_rays(self.cameras[view], self.world_from_camera[view], background=background)


@dataclass(frozen=True)
class Scene:
    """Posed images of one scene, in coordinates in which it lies in [-1, 1]^3.

    Attributes:
        name: name of the folder, or of the built-in scene.
        train: the views to fit.
        test: the views to evaluate on, never fitted.
        source: one line on where it came from.
        scale: length of one unit here, in units of the file.
        center: point where the origin lies, in units of the file.
        notes: remarks on how it was read, to be printed.
    """

    name: str
    train: Views
    test: Views
    source: str
    scale: float = 1.0
    notes: tuple[str, ...] = ()
    center: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def as_plain(self) -> dict[str, Any]:
        """All fields as containers of tensors and numbers, as a checkpoint holds them."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**plain, "train": self.train.as_plain(), "test": self.test.as_plain()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Scene":
        """Scene of what `as_plain` returned."""
        views = {split: Views.from_plain(plain[split]) for split in ("train", "test")}
        tuples = {name: tuple(plain[name]) for name in ("notes", "center")}
        return cls(**{**plain, **views, **tuples})

    def resized(self, longer_side: int) -> "Scene":
        """Average pixels by area until the longer side is ``longer_side``; never enlarges."""
        return replace(
            self, train=self.train.resized(longer_side), test=self.test.resized(longer_side)
        )


def reduced_masks(
    masks: Bool[Tensor, "views height width"], longer_side: int
) -> Bool[Tensor, "views _height _width"]:
    """Masks of views that are averaged by area: a pixel is kept if all of it is."""
    share = resize_area(masks.float()[..., None], longer_side)[..., 0]
    return share > 1 - _MASK_ROUNDING


def premultiplied(pixels: Shaped[Tensor, "*shape channels"]) -> Float[Tensor, "*shape channels"]:
    """Values in [0, 1], RGB multiplied by the opacity, of pixels as `Views` holds them."""
    if pixels.is_floating_point():
        return pixels
    values = unit_range(pixels)
    if values.shape[-1] == 4:
        values[..., :3] *= values[..., 3:]
    return values


def over_background(
    pixels: Shaped[Tensor, "*shape channels"], background: Float[Tensor, "*shape 3"] | float
) -> Float[Tensor, "*shape 3"]:
    """Composite pixels, as `Views` holds them, over a background.

    Args:
        pixels: RGB, or RGB and opacity.
        background: gray value, or color of each pixel.
    """
    values = premultiplied(pixels)
    if values.shape[-1] == 3:
        return values
    return values[..., :3] + (1 - values[..., 3:]) * background


def background_gray(background: Background) -> float:
    """Gray value of the background that test views are evaluated over; white for random."""
    return 0.0 if background == "black" else 1.0
