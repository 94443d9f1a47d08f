"""Maps that bring coordinates into the range of an encoder."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def normalize(
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
        ValueError: If an upper bound is not above its lower one, or their number is not
            that of the axes.

    Examples:
        >>> normalize(torch.tensor([[0.0, 5.0]]), ((0.0, 0.0), (1.0, 10.0)))
        tensor([[-1.,  0.]])
    """
    low, high = (torch.as_tensor(bound, dtype=torch.float64) for bound in bounds)
    if not bool(((high > low) & low.isfinite() & high.isfinite()).all()):
        raise ValueError(f"each upper bound must be above its lower one; got {bounds}")
    if any(bound.ndim and bound.shape != x.shape[-1:] for bound in (low, high)):
        raise ValueError(f"bounds must be one number or {x.shape[-1]}, one per axis; got {bounds}")
    scale, center = 2 / (high - low), (high + low) / 2
    return (x - center.to(x)) * scale.to(x)


def contract(
    x: Float[Tensor, "*batch in_dim"], *, order: float = 2.0
) -> Float[Tensor, "*batch in_dim"]:
    r"""Contract all of space into a ball of radius 2, leaving the unit ball as it is.

    $x$ where $\lVert x \rVert \le 1$, else $(2 - 1/\lVert x \rVert)\, x / \lVert x \rVert$
    (Barron et al. 2022, mip-NeRF 360, equation 10). Halve the result for an encoder of
    coordinates in [-1, 1]. Derivatives are finite everywhere, also at 0.

    Args:
        x: points.
        order: of the norm: 2, or infinity for a cube instead of a ball.

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
        square = (x * x).sum(-1, keepdim=True)
        outside = square > 1
        # Where the point is inside, the root is taken of 1, whose derivative is finite.
        norm = torch.where(outside, square, 1.0).sqrt()
    elif order == math.inf:
        largest = x.abs().amax(-1, keepdim=True)
        outside = largest > 1
        norm = torch.where(outside, largest, 1.0)
    else:
        raise ValueError(f"order must be 2 or infinity; got {order}")
    return torch.where(outside, (2 - 1 / norm) / norm * x, x)
