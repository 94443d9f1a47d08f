"""Volume rendering: from densities and colors along rays to pixels.

`nerf_posenc.radiance` explains the names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from nerf_posenc.core.checks import without_autocast

if TYPE_CHECKING:
    from jaxtyping import Float


class Rendering(NamedTuple):
    """Rendered rays.

    Attributes:
        rgb: composited over the background.
        opacity: accumulated weight, in [0, 1].
        depth: mean distance by weight; 0 for an empty ray.
        coarse_rgb: colors from the coarse pass, if there is one.
        penalty: further loss of a proposal and of scattered weights; None for none.
    """

    rgb: Float[Tensor, "*batch 3"]
    opacity: Float[Tensor, "*batch"]
    depth: Float[Tensor, "*batch"]
    coarse_rgb: Float[Tensor, "*batch 3"] | None = None
    penalty: Float[Tensor, ""] | None = None


def weights_from_density(
    density: Float[Tensor, "*batch samples"], lengths: Float[Tensor, "*batch samples"]
) -> Float[Tensor, "*batch samples"]:
    r"""Rendering weight of each interval of a ray.

    $w_i = T_i (1 - e^{-\sigma_i \delta_i})$, $T_i = \exp(-\sum_{j<i} \sigma_j \delta_j)$
    (Mildenhall et al. 2020, equation 3; Max 1995). With the transmittance of the whole ray they
    sum to 1.

    Args:
        density: 0 or more, in 1 / length.
        lengths: lengths of the intervals.
    """
    thickness = density * lengths
    # The sum excludes the interval itself: to subtract an endless one would round off the others.
    optical_depth = torch.nn.functional.pad(thickness[..., :-1].cumsum(-1), (1, 0))
    return torch.exp(-optical_depth) * -torch.expm1(-thickness)


def composite(
    weights: Float[Tensor, "*batch samples"],
    rgb: Float[Tensor, "*batch samples 3"],
    distances: Float[Tensor, "*batch samples"],
    background: Float[Tensor, "*batch 3"],
) -> Rendering:
    """Composite the samples of each ray over its background.

    Args:
        weights: rendering weights from `weights_from_density`.
        rgb: colors of the samples.
        distances: distances of the samples from the ray's origin.
        background: color behind the samples.
    """
    opacity = weights.sum(-1)
    with without_autocast(rgb):  # It would round the colors.
        total = (weights[..., None, :] @ rgb)[..., 0, :]  # (*batch, 3)
    depth = (weights * distances).sum(-1) / opacity.clamp(min=1e-6)
    return Rendering(total + (1 - opacity)[..., None] * background, opacity, depth)


def exposed(
    rgb: Float[Tensor, "n *samples 3"], log_gains: Tensor | None, views: Tensor | None
) -> Float[Tensor, "n *samples 3"]:
    """Colors as the views of the rays expose them, relative to the mean of all views.

    Args:
        rgb: colors of each ray, or of its samples.
        log_gains: logarithms of the gains of each view and color channel; None for none.
        views: training view of each ray; None for the mean exposure, which the field itself has.
    """
    if log_gains is None or views is None:
        return rgb
    # Indexing with [views] sums its gradient in an order that varies with the threads.
    gains = torch.exp(log_gains - log_gains.mean(0)).index_select(0, views)
    return rgb * gains.view(len(rgb), *[1] * (rgb.dim() - 2), 3)


def visible_depth(rendering: Rendering) -> Float[Tensor, "*batch"]:
    """Depth for display: NaN for pixels that are more than half empty."""
    return torch.where(rendering.opacity >= 0.5, rendering.depth, torch.nan)
