"""Error maps of reconstructions, never of a whole large image at once."""

from jaxtyping import Float, Shaped
from torch import Tensor

from nerf_posenc.images import reduce_rows, unit_range

MOST_VALUES = 1 << 20
"""Errors of which a quantile is taken: to sort more takes seconds, and torch refuses 2^24."""


def clamped(image: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """Clamp floating-point values to [0, 1]; others lie there."""
    return image.clamp(0, 1) if image.is_floating_point() else image


def error_map(
    fit: Shaped[Tensor, "*shape 3"], original: Shaped[Tensor, "*shape 3"]
) -> Float[Tensor, "*shape"]:
    """Mean absolute difference of the channels, in values of [0, 1]."""
    return (unit_range(fit).clamp(0, 1) - unit_range(original)).abs().mean(-1)


def reduced_error(
    fit: Shaped[Tensor, "height width 3"],
    original: Shaped[Tensor, "height width 3"],
    longer_side: int,
) -> Float[Tensor, "_height _width"]:
    """Error map, averaged by area until its longer side is ``longer_side``; never enlarged."""
    height, width, _ = original.shape
    if max(height, width) <= longer_side:
        return error_map(fit, original)

    def rows_of_map(rows: slice) -> Tensor:
        return error_map(fit[rows], original[rows])[..., None]

    return reduce_rows(rows_of_map, height, width, longer_side)[..., 0]


def sampled_error(
    fit: Shaped[Tensor, "height width 3"], original: Shaped[Tensor, "height width 3"]
) -> Float[Tensor, " pixels"]:
    """Errors of all pixels, or of every n-th if they are many."""
    step = 1 + (original.shape[0] * original.shape[1]) // MOST_VALUES
    return error_map(fit.reshape(-1, 3)[::step], original.reshape(-1, 3)[::step])
