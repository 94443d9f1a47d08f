"""Images as coordinates and colors, and their split into fitted and held-out pixels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc.core.grids import axis_positions

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Shaped, UInt8

_MU = 5000.0
# Minimum ratio of the mean of an image to the knee of its curve.
_MEAN_OVER_KNEE = 10.0

LARGE_PIXELS = 1 << 21
"""Above this many pixels nothing is held as floating-point numbers of the whole image."""

_LARGEST = {torch.uint8: 255, torch.uint16: 65535}
# A strip is converted to floating-point numbers at a time: some megabytes.
_STRIP_PIXELS = 1 << 18


@dataclass(frozen=True)
class Image:
    """An image: colors at coordinates, some of which may be held out of a fit.

    The pixels stay in the type that they are stored in. Coordinates are those of a column and of a
    row, so that an image of many megapixels takes 3 bytes per pixel.

    Attributes:
        pixels: sRGB as stored: floating-point values in [0, 1], or 8 or 16 bits without a sign.
        x: coordinates of the pixel centers of each column; x points right.
        y: coordinates of the pixel centers of each row; y points down. The longer side of the whole
            image spans [-1, 1].
        name: name that is displayed.
        source: one line on where it came from.
        held_out: pixels that are not fitted, to evaluate on, of the same grid or of one between;
            None to evaluate on all fitted ones.
        weights: weight of each pixel in the fit and in the scores, 0 or more. A pixel of weight 0
            is in neither, whatever its value. None for 1 everywhere.
        tone: curve by which linear light was mapped to [0, 1]; None for values as stored.
        is_light: whether the pixels are linear light, which `tone_mapped` maps to [0, 1].
        notes: remarks on how the file was read, for readers of its scores.
    """

    pixels: Shaped[Tensor, "height width 3"]
    x: Float[Tensor, " width"]
    y: Float[Tensor, " height"]
    name: str = ""
    source: str = ""
    held_out: "Image | None" = None
    weights: Float[Tensor, "height width"] | None = None
    tone: "MuLaw | None" = None
    is_light: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def from_rgb(
        cls, rgb: Shaped[Tensor, "height width 3"], *, name: str = "", source: str = ""
    ) -> "Image":
        """Make an image of all its pixels.

        Args:
            rgb: values in [0, 1], or 8 or 16 bits without a sign.
            name: name that is displayed.
            source: one line on where it came from.

        Examples:
            >>> Image.from_rgb(torch.zeros(2, 4, 3)).coordinates[0, :, 0]
            tensor([-0.7500, -0.2500,  0.2500,  0.7500])
        """
        height, width, _ = rgb.shape
        return cls(rgb, *_centers(width, height), name, source)

    @property
    def rgb(self) -> Float[Tensor, "height width 3"]:
        """Values of all pixels in [0, 1], in float32."""
        return unit_range(self.pixels).float()

    @property
    def coordinates(self) -> Float[Tensor, "height width 2"]:
        """Coordinates (x, y) of all pixel centers."""
        return self.coordinates_at(slice(None), slice(None))

    def coordinates_at(self, rows: slice, columns: slice) -> Float[Tensor, "_rows _columns 2"]:
        """Coordinates (x, y) of the pixel centers of a window."""
        return torch.stack(torch.meshgrid(self.x[columns], self.y[rows], indexing="xy"), dim=-1)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.pixels.shape[1], self.pixels.shape[0]

    @property
    def num_pixels(self) -> int:
        """Number of pixels."""
        return len(self.x) * len(self.y)

    @property
    def is_large(self) -> bool:
        """Whether floating-point numbers of the whole image would take too much memory."""
        return self.num_pixels > LARGE_PIXELS

    @property
    def whole_size(self) -> tuple[int, int]:
        """Width and height of the image before pixels were held out."""
        if self.held_out is None or self.is_one_grid:
            return self.size
        width, height = self.held_out.size
        return self.size[0] + width, self.size[1] + height

    @property
    def is_one_grid(self) -> bool:
        """Whether the pixels that are evaluated on lie on the grid of those that are fitted."""
        return torch.equal(self.x, self.evaluated.x) and torch.equal(self.y, self.evaluated.y)

    @property
    def fitted(self) -> Int[Tensor, " n"] | None:
        """Numbers of the fitted pixels, row by row; None for all of them."""
        return None if self.weights is None else self.weights.flatten().nonzero()[:, 0]

    @property
    def num_fitted(self) -> int:
        """Number of fitted pixels."""
        return self.num_pixels if self.weights is None else int(self.weights.count_nonzero())

    @property
    def valid(self) -> Bool[Tensor, "height width"] | None:
        """Evaluated pixels that have a value, whether they are fitted or not; None for all."""
        held = self.evaluated.weights
        if held is None or self.weights is None or not self.is_one_grid:
            return None if held is None else held > 0
        return (held > 0) | (self.weights > 0)

    @property
    def resolution(self) -> int:
        """Samples across [-1, 1]; fewer of fitted pixels that are spread among those held out."""
        valid = self.valid if self.weights is not None and self.is_one_grid else None
        share = 1.0 if valid is None else self.num_fitted / int(valid.count_nonzero())
        return max(1, round(max(self.size) * math.sqrt(share)))

    @property
    def evaluated(self) -> "Image":
        """The pixels that a fit is evaluated on."""
        return self.held_out or self

    def mean_color(self) -> Float[Tensor, " 3"]:
        """Mean of the values of each channel."""
        if self.weights is not None:
            places = self.weights.flatten().nonzero()[:, 0]
            weights = self.weights.flatten()[places].double()
            colors = unit_range(pixels_at(self.pixels.reshape(-1, 3), places)).double()
            return ((weights[:, None] * colors).sum(0) / weights.sum()).float()
        if not self.is_large:
            return self.rgb.mean((0, 1))
        sums = [unit_range(strip).double().sum((0, 1)) for strip in strips(self.pixels)]
        return (torch.stack(sums).sum(0) / self.num_pixels).float()

    def resized(self, longer_side: int) -> "Image":
        """Average pixels by area until the longer side is ``longer_side``; never enlarges.

        Raises:
            ValueError: If ``longer_side`` is below 1.
        """
        if 1 <= max(self.size) <= longer_side:
            return self
        if self.tone is not None:
            # Means are of light.
            light = replace(self, pixels=self.tone.light(self.pixels), tone=None, is_light=True)
            return light.resized(longer_side).tone_mapped(self.tone)
        if self.weights is not None:
            return self._resized_by_weight(longer_side)
        rgb = resize_area(self.pixels, longer_side)
        if rgb.shape[0] * rgb.shape[1] > LARGE_PIXELS and not self.is_light:
            rgb = to_eight_bits(rgb)
        return self._of(rgb)

    def _of(self, rgb: Shaped[Tensor, "height width 3"]) -> "Image":
        """Image of other pixels, none of them held out."""
        height, width, _ = rgb.shape
        x, y = _centers(width, height)
        return replace(self, pixels=rgb.contiguous(), x=x, y=y, held_out=None)

    def tone_mapped(self, tone: "MuLaw | None" = None) -> "Image":
        """Map linear light to [0, 1].

        Args:
            tone: curve; None for that of `MuLaw.of_light`.
        """
        light = self.pixels
        if self.weights is not None:
            # A pixel without weight does not count, whatever its value.
            light = torch.where(self.weights[..., None] > 0, light, 0.0)
        tone = MuLaw.of_light(light) if tone is None else tone
        return replace(self, pixels=tone.values(light), tone=tone, is_light=False)

    def _resized_by_weight(self, longer_side: int) -> "Image":
        """Average colors by area and weight, and weights by area."""
        assert self.weights is not None
        weights = self.weights[..., None]
        # Values of no weight are not multiplied by it: they may be no numbers.
        colors = torch.where(weights > 0, unit_range(self.pixels).float(), 0.0)
        mean = resize_area(weights, longer_side)
        rgb = resize_area(colors * weights, longer_side) / mean.clamp(min=1e-12)
        unmasked = replace(self, weights=None, held_out=None)
        return replace(unmasked._of(rgb), weights=mean[..., 0].contiguous())

    def observed(self, is_observed: Bool[Tensor, "height width"]) -> "Image":
        """Fit some pixels, and hold out all others of the same grid.

        Args:
            is_observed: the pixels that are fitted.

        Raises:
            ValueError: If no pixel is fitted, or none is held out.
        """
        weights = torch.ones(self.pixels.shape[:2]) if self.weights is None else self.weights
        fitted, others = weights * is_observed, weights * ~is_observed
        if not (bool(fitted.any()) and bool(others.any())):
            raise ValueError(
                f"it observes {int(fitted.count_nonzero()):,} of {int(weights.count_nonzero()):,} "
                "pixels; some must be observed, and some not"
            )
        held_out = replace(self, weights=others, held_out=None)
        return replace(self, weights=fitted, held_out=held_out)

    def split_held_out(self) -> "Image":
        """Keep every second pixel of every second row; hold out those diagonally between.

        The split of Tancik et al. 2020, section 6.

        Raises:
            ValueError: If the image has one row or column, with nothing between, or if either half
                has no pixel of a weight above 0.
        """
        if min(self.size) < 2:
            raise ValueError("an image of one row or column has no pixels to hold out")
        even, odd = slice(None, None, 2), slice(1, None, 2)
        fitted, between = (
            replace(
                self,
                pixels=self.pixels[part, part],
                x=self.x[part],
                y=self.y[part],
                weights=None if self.weights is None else self.weights[part, part],
            )
            for part in (even, odd)
        )
        if 0 in (fitted.num_fitted, between.num_fitted):
            raise ValueError(
                f"the mask leaves {fitted.num_fitted:,} pixels to fit and {between.num_fitted:,} "
                "held out; some of both are needed"
            )
        return replace(fitted, held_out=between)


@dataclass(frozen=True)
class MuLaw:
    r"""Compress linear light to [0, 1]: $\log(1 + \mu x / \text{peak}) / \log(1 + \mu)$.

    The curve that images of high dynamic range are compared by (Kalantari and Ramamoorthi 2017,
    "Deep High Dynamic Range Imaging of Dynamic Scenes", equation 5, with mu = 5000).

    Attributes:
        peak: largest value, which becomes 1.
        mu: strength of the compression; ``peak / mu`` is the knee, below which the curve is nearly
            straight.

    Examples:
        >>> curve = MuLaw(peak=40.0)
        >>> curve.values(torch.tensor([0.0, 40.0]))
        tensor([0., 1.])
    """

    peak: float
    mu: float = _MU

    @classmethod
    def of_light(cls, linear: Shaped[Tensor, "*shape"]) -> "MuLaw":
        """Curve of an image: mu is 5000, or more where a sun would press all else into the dark.

        Then the knee is a tenth of the mean. With a peak of 34,000 times the mean, mu = 5000 would
        leave all that is not a lamp below 0.02, which costs a fit 14 dB by that very curve.
        """
        # Missing and masked pixels are black: no light.
        peak, mean = float(linear.max()), float(linear[linear > 0].mean(dtype=torch.float64))
        return cls(peak, max(_MU, _MEAN_OVER_KNEE * peak / mean))

    def values(self, linear: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Values in [0, 1] of linear light from 0 to the peak."""
        # The quotient first: a product with large values would overflow.
        return torch.log1p(self.mu * (linear / self.peak)) / math.log1p(self.mu)

    def light(self, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Linear light of values, which are clamped to [0, 1] first."""
        return torch.expm1(values.clamp(0, 1) * math.log1p(self.mu)) * (self.peak / self.mu)


def unit_range(pixels: Shaped[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Values in [0, 1] of 8 or 16 bits without a sign, exactly rounded; floats as they are.

    Raises:
        TypeError: If the values are of another type: 8 bits in int64 do not say that they are.
    """
    if pixels.is_floating_point():
        return pixels
    largest = 1 if pixels.dtype == torch.bool else _LARGEST.get(pixels.dtype)
    if largest is None:
        raise TypeError(
            f"pixels must be floating-point values in [0, 1], uint8, uint16 or bool; got "
            f"{pixels.dtype}: convert them, as by .to(torch.uint8)"
        )
    # A divisor on the device: by one on the host, GPUs multiply by a rounded reciprocal.
    return pixels.float() / torch.full((), float(largest), device=pixels.device)


def pixels_at(
    pixels: Shaped[Tensor, "*shape"], *index: Int[Tensor, " n"]
) -> Shaped[Tensor, "n *channels"]:
    """Pixels at some places, also of 16 bits without a sign, for which CUDA has no such kernel."""
    if pixels.dtype == torch.uint16:
        return pixels.view(torch.int16)[index].view(torch.uint16)
    return pixels[index]


def to_eight_bits(pixels: Shaped[Tensor, "*shape"]) -> UInt8[Tensor, "*shape"]:
    """Round values in [0, 1], or 16 bits, to 8 bits."""
    if pixels.dtype == torch.uint8:
        return pixels
    rounded = torch.empty(pixels.shape, dtype=torch.uint8, device=pixels.device)
    whole = [pixels, rounded] if pixels.ndim > 1 else [pixels[None], rounded[None]]
    for values, target in zip(*map(strips, whole), strict=True):
        target.copy_((unit_range(values).clamp(0, 1) * 255).round().byte())
    return rounded


def strips(pixels: Shaped[Tensor, "height *rest"]) -> Iterator[Shaped[Tensor, "_rows *rest"]]:
    """Views of an image from top to bottom, of about as many pixels as stay in a cache."""
    per_row = max(1, pixels.numel() // max(1, 3 * len(pixels)))
    yield from pixels.split(max(1, _STRIP_PIXELS // per_row))


def _centers(width: int, height: int) -> tuple[Tensor, Tensor]:
    """Coordinates x of columns and y of rows."""
    y, x = axis_positions((height, width), "longer")
    return x.float(), y.float()


def resize_area(
    images: Shaped[Tensor, "*batch height width channels"], longer_side: int
) -> Float[Tensor, "*batch _height _width channels"]:
    """Average pixels by area until the longer side is ``longer_side``; never enlarges.

    Args:
        images: any number of channels; values in [0, 1], or 8 or 16 bits without a sign.
        longer_side: pixels, 1 or more.

    Returns:
        Values in [0, 1].

    Raises:
        ValueError: If ``longer_side`` is below 1.
    """
    *batch, height, width, channels = images.shape
    size = _reduced(height, width, longer_side)
    if size == (height, width):
        return unit_range(images)
    if not batch and height * width > LARGE_PIXELS:
        return reduce_rows(lambda rows: unit_range(images[rows]), height, width, longer_side)
    flat = unit_range(images).reshape(-1, height, width, channels).permute(0, 3, 1, 2)
    small = torch.nn.functional.interpolate(flat, size=size, mode="area")
    return small.permute(0, 2, 3, 1).reshape(*batch, *size, channels)


def _reduced(height: int, width: int, longer_side: int) -> tuple[int, int]:
    """Height and width of an image that is reduced to this longer side."""
    if longer_side < 1:
        raise ValueError(f"the longer side must be 1 pixel or more; got {longer_side}")
    scale = longer_side / max(height, width)
    if scale >= 1:
        return height, width
    return max(1, round(height * scale)), max(1, round(width * scale))


def reduce_rows(
    values: Callable[[slice], Float[Tensor, "_rows width channels"]],
    height: int,
    width: int,
    longer_side: int,
) -> Float[Tensor, "_height _width channels"]:
    """Average by area what is computed for some rows at a time; see `resize_area`.

    Args:
        values: values of these rows.
        height: rows in all.
        width: columns.
        longer_side: pixels, 1 or more.
    """
    rows, columns = _reduced(height, width, longer_side)
    reduced = []
    for row in range(rows):
        # The windows of torch's adaptive pooling.
        window = slice(row * height // rows, -(-(row + 1) * height // rows))
        mean = values(window).mean(0)
        reduced.append(torch.nn.functional.adaptive_avg_pool1d(mean.T[None], columns)[0].T)
    return torch.stack(reduced)


def evenly_spaced(count: int, total: int) -> list[int]:
    """Indices of ``count`` of ``total`` items, evenly spread; all if there are no more.

    Examples:
        >>> evenly_spaced(3, 9)
        [0, 3, 6]
    """
    count = min(count, total)
    return [i * total // count for i in range(count)]
