"""PSNR and SSIM of a reconstruction."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from nerf_posenc.images import unit_range

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Num, Shaped

_PSNR_VALUES = 1 << 16

# Wang et al. 2004, section III-C.
_SSIM_WINDOW = 11
_SSIM_SIGMA = 1.5
_SSIM_C1, _SSIM_C2 = 0.01**2, 0.03**2
_SSIM_TILE = 64


def psnr(
    prediction: Shaped[Tensor, "*shape"],
    target: Shaped[Tensor, "*shape"],
    weights: Float[Tensor, "*pixels"] | None = None,
) -> float:
    r"""Peak signal-to-noise ratio, $-10 \log_{10} \mathrm{MSE}$, in dB.

    Both are clamped to [0, 1] first; the mean runs over all values, in float64.

    Args:
        prediction: values with peak 1, or 8 or 16 bits without a sign.
        target: values of the same shape, likewise.
        weights: weight of each pixel, of the same shape but for the channels; those of weight 0 are
            not read. None for 1 everywhere.

    Returns:
        PSNR in dB; infinite if the two are equal, NaN if a value is NaN or no pixel counts.

    Raises:
        ValueError: If the shapes differ.

    Examples:
        >>> import torch
        >>> round(psnr(torch.zeros(4), torch.full((4,), 0.1)), 2)
        20.0
    """
    require_equal_shapes(prediction, target)
    count = target.numel() if weights is None else float(weights.sum()) * target.shape[-1]
    if not count:
        return math.nan
    return psnr_from_mse(squared_error(prediction, target, weights) / count)


class Scored(NamedTuple):
    """Values that reconstructions are compared with, and how much each pixel counts.

    Attributes:
        pixels: values in [0, 1], or 8 or 16 bits without a sign.
        weights: weight of each pixel in the scores; one of weight 0 is not read. None for 1
            everywhere.
    """

    pixels: Shaped[Tensor, "*pixels channels"]
    weights: Num[Tensor, "*pixels"] | Bool[Tensor, "*pixels"] | None = None

    def psnr(self, prediction: Shaped[Tensor, "*pixels channels"]) -> float:
        """PSNR of a reconstruction in dB."""
        weights = None if self.weights is None else self.weights.float()
        return psnr(prediction, self.pixels, weights)

    def at(self, *window: slice) -> Scored:
        """The same of a part of the pixels."""
        weights = None if self.weights is None else self.weights[window]
        return Scored(self.pixels[window], weights)


def constant_psnr(images: Iterable[Scored]) -> float:
    """PSNR of the mean color of what is scored; images are asked for one at a time."""
    count, total, squares = 0.0, torch.zeros(3, dtype=torch.float64), 0.0
    for pixels, weights in images:
        by_pixel = None if weights is None else weights.flatten()
        for i, part in enumerate(pixels.reshape(-1, 3).split(_PSNR_VALUES)):
            values = unit_range(part).double()
            if by_pixel is None:
                weight = torch.ones(len(values), dtype=torch.float64)
            else:
                weight = by_pixel[i * _PSNR_VALUES :][: len(values)].double()
                values = torch.where(weight[:, None] > 0, values, 0.0)
            count += float(weight.sum())
            total += weight @ values
            squares += float(weight @ values.square().sum(-1))
    if not count:
        return math.nan
    # Variance = E[x^2] - E[x]^2, which rounding may leave below 0.
    error = max(0.0, squares / count - float((total / count).square().sum()))
    return psnr_from_mse(error / 3)


def squared_error(
    prediction: Shaped[Tensor, "*shape"],
    target: Shaped[Tensor, "*shape"],
    weights: Float[Tensor, "*pixels"] | None = None,
) -> float:
    """Sum of the squared differences of values that are clamped to [0, 1] first, in float64.

    Each is multiplied by the weight of its pixel; pixels of weight 0 are not read.
    """
    total = 0.0
    if weights is not None:
        kept, by_pixel = weights.cpu() > 0, weights.cpu()[weights.cpu() > 0].double()
        for channel in range(target.shape[-1]):
            x, y = (
                unit_range(values[..., channel].detach().cpu()[kept]).clamp(0, 1).double()
                for values in (prediction, target)
            )
            total += float((by_pixel * (x - y).square()).sum())
        return total
    # On the CPU, since not every accelerator has float64, in tiles that stay in its cache.
    for x, y in zip(
        prediction.detach().cpu().flatten().split(_PSNR_VALUES),
        target.detach().cpu().flatten().split(_PSNR_VALUES),
        strict=True,
    ):
        x, y = (unit_range(values).clamp(0, 1).double() for values in (x, y))
        total += float((x - y).square().sum())
    return total


def psnr_from_mse(mse: float) -> float:
    """Convert a mean squared error, peak value 1, to dB.

    Returns:
        Infinite for an error of 0, NaN for one of NaN, and minus infinity for an infinite one.

    Raises:
        ValueError: If the error is negative.
    """
    if mse < 0:
        raise ValueError(f"a mean squared error must be 0 or more; got {mse}")
    return math.inf if mse == 0 else -10 * math.log10(mse)


def ssim(
    prediction: Shaped[Tensor, "height width channels"],
    target: Shaped[Tensor, "height width channels"],
    valid: Bool[Tensor, "height width"] | None = None,
    scored: Bool[Tensor, "height width"] | None = None,
) -> float:
    r"""Structural similarity (Wang et al. 2004, equation 13), mean over pixels and channels.

    The settings are the paper's: an 11 x 11 Gaussian window of standard deviation 1.5, K1 = 0.01,
    K2 = 0.03, population covariances, data range 1, windows that lie within the image. Computed in
    float64. Other settings differ by up to 0.03, so name them beside any figure.

    Args:
        prediction: image with peak 1, clamped to [0, 1] first, or of 8 or 16 bits without a sign.
        target: the original, of the same shape, likewise.
        valid: pixels that have a value: windows around others are left out, and other pixels in a
            window count as equal. None for all.
        scored: pixels whose windows the mean is over, of those that are valid; None for all.

    Returns:
        SSIM in [-1, 1]; NaN if a side is shorter than the window's 11 pixels.

    Raises:
        ValueError: If the shapes differ.

    Examples:
        >>> import torch
        >>> image = torch.rand(16, 16, 3)
        >>> round(ssim(image, image), 6)
        1.0
    """
    require_equal_shapes(prediction, target)
    height, width, channels = target.shape
    if min(height, width) < _SSIM_WINDOW:
        return math.nan
    total, margin = 0.0, _SSIM_WINDOW - 1
    # Centers of the windows that lie within the image.
    centers = slice(margin // 2, -(margin // 2))
    count = (height - margin) * (width - margin)
    given = [mask.cpu() for mask in (valid, scored) if mask is not None]
    around = given[0] & given[-1] if given else None
    if around is not None:
        count = int(around[centers, centers].count_nonzero())
        if count == 0:
            return math.nan
    # In tiles that stay in a CPU's cache.
    for top in range(0, height - margin, _SSIM_TILE):
        for left in range(0, width - margin, _SSIM_TILE):
            tile = (slice(top, top + _SSIM_TILE + margin), slice(left, left + _SSIM_TILE + margin))
            x, y = (
                unit_range(values[tile].detach().cpu()).clamp(0, 1).permute(2, 0, 1).double()
                for values in (prediction, target)
            )
            if around is None:
                total += float(_similarity(x, y).sum())
                continue
            if valid is not None:
                x, y = (torch.where(valid.cpu()[tile], values, 0.0) for values in (x, y))
            inside = around[tile][centers, centers]
            total += float(_similarity(x, y)[:, inside].sum())
    return total / (count * channels)


def _similarity(
    x: Float[Tensor, "channels height width"], y: Float[Tensor, "channels height width"]
) -> Float[Tensor, "channels rows columns"]:
    """SSIM of all windows that lie within the image."""
    height, width = x.shape[1:]
    # Weighted means as products with two banded matrices: faster than convolutions in float64.
    values = torch.stack([x, y, x * x, y * y, x * y])
    mean_x, mean_y, mean_xx, mean_yy, mean_xy = (
        _window_weights(height) @ values @ _window_weights(width).mT
    ).unbind()
    square_x, square_y, product = mean_x * mean_x, mean_y * mean_y, mean_x * mean_y
    variances = mean_xx - square_x + mean_yy - square_y
    similarity = (2 * product + _SSIM_C1) * (2 * (mean_xy - product) + _SSIM_C2)
    return similarity / ((square_x + square_y + _SSIM_C1) * (variances + _SSIM_C2))


@functools.cache
def _window_weights(length: int) -> Float[Tensor, "windows length"]:
    """Gaussian weights of the values in each window along one axis."""
    offsets = torch.arange(_SSIM_WINDOW, dtype=torch.float64) - _SSIM_WINDOW // 2
    kernel = torch.exp(-0.5 * (offsets / _SSIM_SIGMA) ** 2)
    weights = torch.zeros(length - _SSIM_WINDOW + 1, length, dtype=torch.float64)
    for offset, weight in enumerate(kernel / kernel.sum()):
        weights.diagonal(offset).fill_(float(weight))
    return weights


def require_equal_shapes(prediction: Tensor, target: Tensor) -> None:
    """Refuse a prediction that does not have the target's shape.

    Raises:
        ValueError: Naming both shapes.
    """
    if prediction.shape != target.shape:
        raise ValueError(
            f"prediction and target must have one shape; got {tuple(prediction.shape)} and "
            f"{tuple(target.shape)}"
        )
