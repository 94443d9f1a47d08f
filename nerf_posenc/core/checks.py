"""Checks of what users pass, each with an error that says what to pass."""

import torch
from torch import Tensor
from torch.autograd import forward_ad


def require_counts(**counts: int) -> None:
    """Refuse counts below 1.

    Raises:
        ValueError: naming the count and its value.

    Examples:
        >>> require_counts(width=0)
        Traceback (most recent call last):
        ValueError: width must be 1 or more; got 0
    """
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be 1 or more; got {count}")


def require_coordinates(x: Tensor, in_dim: int, *, name: str = "x") -> None:
    """Refuse coordinates that are not floating-point or not ``(*batch, in_dim)``.

    Raises:
        TypeError: where ``x`` does not hold floating-point numbers.
        ValueError: where its last dimension is not ``in_dim``.
    """
    if not x.is_floating_point():
        raise TypeError(
            f"{name} must hold floating-point coordinates; got {x.dtype}. Pixel indices, say, "
            "are first scaled to [-1, 1]"
        )
    if x.ndim == 0 or x.shape[-1] != in_dim:
        raise ValueError(f"{name} must have shape (*batch, {in_dim}); got {tuple(x.shape)}")


def require_embeddings(embeddings: Tensor, dim: int) -> None:
    """Refuse embeddings that are not ``(*batch, length, dim)``.

    Raises:
        ValueError: naming the shape.
    """
    if embeddings.ndim < 2 or embeddings.shape[-1] != dim:
        raise ValueError(
            f"embeddings must have shape (*batch, length, {dim}); got {tuple(embeddings.shape)}"
        )


def inside_transform() -> bool:
    """Tell whether a transform of ``torch.func`` or forward-mode differentiation is at work."""
    transforms: bool = torch._C._are_functorch_transforms_active()
    return transforms or forward_ad._current_level >= 0
