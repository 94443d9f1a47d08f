"""Images as coordinates and colors, and their split into fitted and held-out pixels."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Image:
    """An image: RGB values at coordinates, some of which may be held out of a fit.

    Attributes:
        rgb: values in [0, 1], sRGB as stored.
        coordinates: (x, y) of the pixel centers: x right, y down, the longer side of the whole
            image spanning [-1, 1].
        name: for display.
        source: one line on where it came from.
        held_out: pixels that are not fitted, to evaluate on; None to evaluate on all fitted ones.
    """

    rgb: Float[Tensor, "height width 3"]
    coordinates: Float[Tensor, "height width 2"]
    name: str = ""
    source: str = ""
    held_out: "Image | None" = None

    @classmethod
    def from_rgb(
        cls, rgb: Float[Tensor, "height width 3"], *, name: str = "", source: str = ""
    ) -> "Image":
        """Make an image of all its pixels.

        Args:
            rgb: values in [0, 1].
            name: for display.
            source: one line on where it came from.

        Examples:
            >>> Image.from_rgb(torch.zeros(2, 4, 3)).coordinates[0, :, 0]
            tensor([-0.7500, -0.2500,  0.2500,  0.7500])
        """
        return cls(rgb, pixel_centers(rgb.shape[1], rgb.shape[0]), name, source)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.rgb.shape[1], self.rgb.shape[0]

    @property
    def whole_size(self) -> tuple[int, int]:
        """Width and height of the image before pixels were held out."""
        if self.held_out is None:
            return self.size
        width, height = self.held_out.size
        return self.size[0] + width, self.size[1] + height

    @property
    def resolution(self) -> int:
        """Samples across [-1, 1]."""
        return max(self.size)

    @property
    def evaluated(self) -> "Image":
        """The pixels that a fit is evaluated on."""
        return self.held_out or self

    def resized(self, longer_side: int) -> "Image":
        """Average pixels by area until the longer side is ``longer_side``; never enlarges.

        Raises:
            ValueError: If ``longer_side`` is below 1.
        """
        rgb = resize_area(self.rgb, longer_side)
        if rgb is self.rgb:
            return self
        return Image.from_rgb(rgb.contiguous(), name=self.name, source=self.source)

    def split_held_out(self) -> "Image":
        """Keep every second pixel of every second row; hold out those diagonally between.

        The split of Tancik et al. 2020, section 6.

        Raises:
            ValueError: If the image has one row or column, with nothing between.
        """
        if min(self.size) < 2:
            raise ValueError("an image of one row or column has no pixels to hold out")
        even, odd = (slice(None, None, 2),) * 2, (slice(1, None, 2),) * 2
        held_out = replace(self, rgb=self.rgb[odd], coordinates=self.coordinates[odd])
        return replace(
            self, rgb=self.rgb[even], coordinates=self.coordinates[even], held_out=held_out
        )


def pixel_centers(width: int, height: int) -> Float[Tensor, "height width 2"]:
    """Coordinates (x, y) of pixel centers, the longer side spanning [-1, 1].

    Args:
        width: pixels.
        height: pixels.
    """
    pixel = 2 / max(width, height)
    x = (torch.arange(width, dtype=torch.float64) + 0.5 - width / 2) * pixel
    y = (torch.arange(height, dtype=torch.float64) + 0.5 - height / 2) * pixel
    return torch.stack(torch.meshgrid(x.float(), y.float(), indexing="xy"), dim=-1)


def resize_area(
    images: Float[Tensor, "*batch height width channels"], longer_side: int
) -> Float[Tensor, "*batch _height _width channels"]:
    """Average pixels by area until the longer side is ``longer_side``; never enlarges.

    Args:
        images: any number of channels.
        longer_side: pixels, 1 or more.

    Raises:
        ValueError: If ``longer_side`` is below 1.
    """
    if longer_side < 1:
        raise ValueError(f"the longer side must be 1 pixel or more; got {longer_side}")
    *batch, height, width, channels = images.shape
    scale = longer_side / max(height, width)
    if scale >= 1:
        return images
    size = max(1, round(height * scale)), max(1, round(width * scale))
    flat = images.reshape(-1, height, width, channels).permute(0, 3, 1, 2)
    small = torch.nn.functional.interpolate(flat, size=size, mode="area")
    return small.permute(0, 2, 3, 1).reshape(*batch, *size, channels)
