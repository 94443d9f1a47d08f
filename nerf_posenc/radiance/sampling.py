"""Samples along rays: stratified, by importance, and as Gaussians.

`nerf_posenc.radiance` explains the names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float


def stratified_edges(
    near: Float[Tensor, "*batch"], far: Float[Tensor, "*batch"], num_samples: int
) -> Float[Tensor, "*batch edges"]:
    """Edges of ``num_samples`` equal bins from near to far."""
    steps = torch.linspace(0, 1, num_samples + 1, device=near.device, dtype=near.dtype)
    return near[..., None] + (far - near)[..., None] * steps


def stratified_samples(
    edges: Float[Tensor, "*batch edges"], generator: torch.Generator | None = None
) -> Float[Tensor, "*batch samples"]:
    """One distance in each bin (Mildenhall et al. 2020, equation 2).

    Args:
        edges: rising along the last dimension.
        generator: random number generator to jitter the samples within their bins; None for
            the bin centers.
    """
    low, high = edges[..., :-1], edges[..., 1:]
    if generator is None:
        return (low + high) / 2
    return low + (high - low) * uniform(low.shape, generator, low)


def importance_samples(
    edges: Float[Tensor, "*batch edges"],
    weights: Float[Tensor, "*batch samples"],
    num_samples: int,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*batch new"]:
    """Sample distances from the piecewise-constant density of weights (NeRF, section 5.2).

    Inverts the cumulative distribution at stratified positions. No gradient passes through.

    Args:
        edges: edges of the bins, rising.
        weights: weights of the bins, 0 or more; if all are 0, the bins count by width.
        num_samples: number of samples to draw.
        generator: random number generator to jitter the samples; None for the centers of equal
            shares.

    Returns:
        Distances, rising.
    """
    weights, edges = weights.detach(), edges.detach()
    total = weights.sum(-1, keepdim=True)
    widths = (edges[..., 1:] - edges[..., :-1]).clamp(min=1e-12)
    # A ray without weights gets samples at equal distances.
    share = torch.where(
        total > 1e-8, weights / total.clamp(min=1e-8), widths / widths.sum(-1, keepdim=True)
    )
    # Inverse transform sampling: the cumulative distribution at the edges, (*batch, edges), from 0
    # to exactly 1.
    cumulative = torch.nn.functional.pad(share.cumsum(-1), (1, 0))
    cumulative = cumulative / cumulative[..., -1:]
    shape = (*weights.shape[:-1], num_samples)
    offsets = 0.5 if generator is None else uniform(torch.Size(shape), generator, edges)
    # One quantile in each of num_samples equal parts, at its middle without a generator.
    quantiles = (torch.arange(num_samples, device=edges.device) + offsets) / num_samples
    quantiles = quantiles.to(edges).expand(shape).contiguous()
    # The bin of each quantile, and how far into it.
    upper = torch.searchsorted(cumulative[..., 1:-1].contiguous(), quantiles, right=True)
    low, high = (torch.gather(cumulative, -1, upper + i) for i in (0, 1))
    start, end = (torch.gather(edges, -1, upper + i) for i in (0, 1))
    into = ((quantiles - low) / (high - low).clamp(min=1e-12)).clamp(0, 1)
    return start + (end - start) * into


def conical_frustum_to_gaussian(
    edges: Float[Tensor, "*batch edges"],
    directions: Float[Tensor, "*batch 3"],
    radii: Float[Tensor, "*batch"],
) -> tuple[Float[Tensor, "*batch samples"], Float[Tensor, "*batch samples 3"]]:
    r"""Gaussians with the mean and variance of the conical frustums between the edges.

    Barron et al. 2021, mip-NeRF, equations 7, 8 and 16, for unit directions.

    Args:
        edges: distances, rising.
        directions: unit vectors.
        radii: radii of the cones at distance 1.

    Returns:
        Mean distance of each frustum, and its variance along x, y and z.
    """
    middle = (edges[..., 1:] + edges[..., :-1]) / 2
    half = (edges[..., 1:] - edges[..., :-1]) / 2
    m2, h2 = middle.square(), half.square()
    # Mip-NeRF, equation 7, with the middle and half the length, which does not cancel in float32.
    denominator = (3 * m2 + h2).clamp(min=1e-12)
    mean = middle + 2 * middle * h2 / denominator
    variance_along = h2 / 3 - (4 / 15) * h2.square() * (12 * m2 - h2) / denominator.square()
    variance_across = m2 / 4 + (5 / 12) * h2 - (4 / 15) * h2.square() / denominator
    # Moments of a cone of radius 1 at distance 1.
    variance_across = variance_across * radii[..., None].square()
    # Diagonal of the covariance along x, y, z: along d d^T and across I - d d^T (equation 16).
    squares = directions.square()[..., None, :]
    variance = variance_along[..., None] * squares + variance_across[..., None] * (1 - squares)
    return mean, variance  # (*batch, samples), (*batch, samples, 3)


def uniform(shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
    """Uniform random numbers in [0, 1), one row per ray of the batch."""
    return torch.rand(shape, generator=generator, device=like.device, dtype=like.dtype)
