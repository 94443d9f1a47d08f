"""Maps that bring coordinates into the range of an encoder, and coordinates of rays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc.core.checks import require_tensor
from nerf_posenc.core.speed import exact_product

if TYPE_CHECKING:
    from jaxtyping import Float


def normalize_box(
    x: Float[Tensor, "*batch in_dim"],
    bounds: tuple[Sequence[float], Sequence[float]] | tuple[float, float],
) -> Float[Tensor, "*batch in_dim"]:
    """Map a box to [-1, 1] along every axis.

    Args:
        x: coordinates in the box's units.
        bounds: lower and upper corner of the box, one number or one for each axis.

    Returns:
        Coordinates; those outside the box lie outside [-1, 1].

    Raises:
        TypeError: If ``x`` does not hold floating-point numbers.
        ValueError: If an upper bound is not above its lower one, or their number is not
            that of the axes.

    Examples:
        >>> normalize_box(torch.tensor([[0.0, 5.0]]), ((0.0, 0.0), (1.0, 10.0)))
        tensor([[-1.,  0.]])
    """
    require_tensor(x, "x")
    if not x.is_floating_point():
        raise TypeError(f"x must hold floating-point coordinates; got {x.dtype}. Give x.float()")
    if len(bounds) != 2:
        raise ValueError(
            f"bounds must be the lower and the upper corner; got {len(bounds)} parts. For a pair "
            f"per axis, give tuple(zip(*bounds))"
        )
    low, high = (torch.as_tensor(bound, dtype=torch.float64) for bound in bounds)
    if not bool(((high > low) & low.isfinite() & high.isfinite()).all()):
        raise ValueError(f"each upper bound must be above its lower one; got {bounds}")
    if any(bound.ndim and bound.shape != x.shape[-1:] for bound in (low, high)):
        raise ValueError(f"bounds must be one number or {x.shape[-1]}, one per axis; got {bounds}")
    # Subtract, then scale: x * scale - offset would cancel far from 0 in float32.
    scale, center = 2 / (high - low), (high + low) / 2
    # In float64 where there is one: the center of a box in meters has more digits than float32.
    exact = x.dtype if x.device.type == "mps" else torch.float64
    center, scale = (each.to(x.device, exact) for each in (center, scale))
    return ((x.to(exact) - center) * scale).to(x.dtype)


def contract(
    x: Float[Tensor, "*batch in_dim"], *, order: float = 2.0
) -> Float[Tensor, "*batch in_dim"]:
    r"""Contract all of space into a ball of radius 2, leaving the unit ball as it is.

    $x$ where $\lVert x \rVert \le 1$, else $(2 - 1/\lVert x \rVert)\, x / \lVert x \rVert$
    (Barron et al. 2022, mip-NeRF 360, equation 10). Halve the result for an encoder of
    coordinates in [-1, 1]. Derivatives are finite everywhere, also at 0.

    Args:
        x: points.
        order: order of the norm: 2, or infinity for a cube instead of a ball. (MERF's cube is
            another: each of its coordinates but the largest is divided by that, not contracted.)

    Returns:
        Points with norm below 2.

    Raises:
        ValueError: If the order is neither 2 nor infinity.

    Examples:
        >>> contract(torch.tensor([[0.3, 0.4], [3.0, 4.0]]))
        tensor([[0.3000, 0.4000],
                [1.0800, 1.4400]])
    """
    if order == 2:
        scaled, shrink, norm, outside = _scaled(x)
        return torch.where(outside, (2 - shrink / norm) / norm * scaled, x)
    if order == math.inf:
        largest = x.abs().amax(-1, keepdim=True)
        outside = largest > 1
        norm = torch.where(outside, largest, 1.0)
        return torch.where(outside, (2 - 1 / norm) * (x / norm), x)
    raise ValueError(f"order must be 2 or infinity; got {order}")


def _scaled(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Points whose squares do not overflow.

    Returns:
        The points times a factor, the factor, the norm of the points times it, and whether the
        points themselves lie outside of the unit ball.
    """
    # A constant to the derivatives, which hold whatever it is.
    shrink = 1 / x.detach().abs().amax(-1, keepdim=True).clamp(min=1)
    scaled = x * shrink
    square = (scaled * scaled).sum(-1, keepdim=True)
    outside = square > shrink * shrink
    # Where the point is inside, the root is taken of 1, whose derivative is finite.
    return scaled, shrink, torch.where(outside, square, 1.0).sqrt(), outside


def uncontract(z: Float[Tensor, "*batch in_dim"]) -> Float[Tensor, "*batch in_dim"]:
    r"""Inverse of [contract][nerf_posenc.contract] of order 2; ``inv_contract`` in multinerf.

    $z$ where $\lVert z \rVert \le 1$, else $z / (2 \lVert z \rVert - \lVert z \rVert^2)$.

    Args:
        z: contracted points, of norm below 2.

    Returns:
        Points of all space; infinite at norm 2.

    Examples:
        >>> uncontract(torch.tensor([[1.08, 1.44]]))
        tensor([[3.0000, 4.0000]])
    """
    square = (z * z).sum(-1, keepdim=True)
    outside = square > 1
    square = torch.where(outside, square, 1.0)
    return torch.where(outside, z / (2 * square.sqrt() - square), z)


def contract_gaussian(
    mean: Float[Tensor, "*batch in_dim"], covariance: Float[Tensor, "*batch in_dim in_dim"]
) -> tuple[Float[Tensor, "*batch in_dim"], Float[Tensor, "*batch in_dim in_dim"]]:
    r"""Contract a Gaussian: its mean, and its covariance as $J \Sigma J^\top$.

    J is the Jacobian of the contraction at the mean (Barron et al. 2022, mip-NeRF 360;
    ``track_linearize`` in multinerf).

    Args:
        mean: centers of the Gaussians.
        covariance: their covariances.

    Returns:
        Contracted means and covariances.

    Raises:
        ValueError: If the covariance does not fit the mean.

    Examples:
        >>> mean, covariance = contract_gaussian(torch.tensor([2.0, 0.0]), torch.eye(2))
        >>> mean, covariance.diagonal()
        (tensor([1.5000, 0.0000]), tensor([0.0625, 0.5625]))
    """
    if covariance.shape != (*mean.shape, mean.shape[-1]):
        raise ValueError(
            f"covariance must have shape {(*mean.shape, mean.shape[-1])}; got "
            f"{tuple(covariance.shape)}"
        )
    # With m the mean and n its norm, J = (2 / n - 1 / n^2) I + (2 / n^4 - 2 / n^3) m m^T.
    scaled, shrink, norm, outside = _scaled(mean)
    across = torch.where(outside, (2 - shrink / norm) * (shrink / norm), 1.0)[..., None]
    radial = torch.where(outside, 2 * (shrink / norm - 1) * shrink / norm**3, 0.0)[..., None]
    identity = torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)
    jacobian = across * identity + radial * (scaled[..., :, None] * scaled[..., None, :])
    moved = exact_product(exact_product(jacobian, covariance), jacobian.mT)
    return contract(mean), moved


def plucker_rays(
    origins: Float[Tensor, "*batch 3"],
    directions: Float[Tensor, "*batch 3"],
    *,
    moment_first: bool = False,
) -> Float[Tensor, "*batch 6"]:
    r"""Plücker coordinates of rays, the same for every point on a ray (Sitzmann et al. 2021).

    Encode them with Fourier features of 6 coordinates: ``FourierEncoder(6, 4)``.

    Args:
        origins: any point on each ray.
        directions: directions of any length above 0; they are normalized.
        moment_first: $(o \times d, d)$, as CameraCtrl and LGM, instead of $(d, o \times d)$, as
            light field networks and diffusers.

    Returns:
        Direction and moment.

    Raises:
        ValueError: If the shapes differ or their last dimension is not 3.

    Examples:
        >>> plucker_rays(torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([[2.0, 0.0, 0.0]]))
        tensor([[1., 0., 0., 0., 1., 0.]])
    """
    if origins.shape != directions.shape or origins.shape[-1:] != (3,):
        raise ValueError(
            f"origins and directions must both have shape (*batch, 3); got {tuple(origins.shape)} "
            f"and {tuple(directions.shape)}"
        )
    directions = directions / directions.norm(dim=-1, keepdim=True)
    moments = torch.linalg.cross(origins, directions)
    parts = [moments, directions] if moment_first else [directions, moments]
    return torch.cat(parts, dim=-1)
