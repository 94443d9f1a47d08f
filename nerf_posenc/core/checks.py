"""Checks of what users pass to encoders, and of what torch does with a call."""

from __future__ import annotations

import difflib
import math
import operator
import zlib
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad


def without_autocast(like: Tensor) -> torch.autocast:
    """Context in which products on the device of a tensor are computed in their own type."""
    return torch.autocast("cpu" if like.is_meta else like.device.type, enabled=False)


def default_dtype() -> torch.dtype:
    """Default floating-point type, but float32 at least: bfloat16 cannot count to 257."""
    return torch.promote_types(torch.get_default_dtype(), torch.float32)


def whole(value: object, name: str) -> int:
    """Integer of Python, NumPy or any type with ``__index__``; a bool is none.

    Raises:
        TypeError: Naming the value, if it is no integer.

    Examples:
        >>> import numpy as np
        >>> whole(np.int64(7), "num_bands")
        7
    """
    try:
        if not (isinstance(value, bool) or getattr(value, "dtype", None) == torch.bool):
            return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        pass
    raise TypeError(f"{name} must be an integer; got {value!r}")


def require_counts(**counts: int) -> None:
    """Refuse counts that are no integers, or below 1.

    Raises:
        TypeError: Naming the count and its value, if it is no integer.
        ValueError: Likewise, if it is below 1.

    Examples:
        >>> require_counts(width=0)
        Traceback (most recent call last):
        ValueError: width must be 1 or more; got 0
    """
    for name, count in counts.items():
        if whole(count, name) < 1:
            raise ValueError(f"{name} must be 1 or more; got {count}")


def require_positive(**values: int | float) -> None:
    """Refuse values that are not finite and above 0.

    Raises:
        ValueError: Naming the value.

    Examples:
        >>> require_positive(base=0.0)
        Traceback (most recent call last):
        ValueError: base must be finite and positive; got 0.0
    """
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be finite and positive; got {value}")


def require_tensor(x: object, name: str) -> None:
    """Refuse what is not a tensor.

    Raises:
        TypeError: Naming what was given and how to make a tensor of it.

    Examples:
        >>> require_tensor(999, "positions")
        Traceback (most recent call last):
        TypeError: positions must be a torch.Tensor; got int. Give torch.tensor(...)
    """
    if isinstance(x, Tensor):
        return
    remedy = "torch.from_numpy(...)" if type(x).__module__ == "numpy" else "torch.tensor(...)"
    raise TypeError(f"{name} must be a torch.Tensor; got {type(x).__name__}. Give {remedy}")


def unknown_name(kind: str, name: object, known: Iterable[str]) -> str:
    """Message for an unknown name, with the names that are spelled most like it.

    Examples:
        >>> unknown_name("preset", "nerfstudo", ["barf", "nerfstudio"])
        "no preset 'nerfstudo'; did you mean nerfstudio? There are barf, nerfstudio"
    """
    names = sorted(set(known))
    near = difflib.get_close_matches(str(name), names, n=3, cutoff=0.75)
    guess = f"did you mean {' or '.join(near)}? There are" if near else "there are"
    return f"no {kind} {name!r}; {guess} {', '.join(names)}"


def require_coordinates(x: Tensor, in_dim: int, *, name: str = "x") -> None:
    """Refuse coordinates that are not floating-point or not ``(*batch, in_dim)``.

    Raises:
        TypeError: If ``x`` is no tensor of floating-point numbers.
        ValueError: If its last dimension is not ``in_dim``.
    """
    require_tensor(x, name)
    if not x.is_floating_point():
        raise TypeError(
            f"{name} must hold floating-point coordinates; got {x.dtype}. Convert it with "
            ".float(); pixel indices are scaled to [-1, 1] first"
        )
    if x.ndim == 0 or x.shape[-1] != in_dim:
        channels_first = x.ndim > 2 and x.shape[1] == in_dim
        remedy = f"; with channels first, give {name}.movedim(1, -1)" if channels_first else ""
        raise ValueError(f"{name} must have shape (*batch, {in_dim}); got {tuple(x.shape)}{remedy}")


def require_not_negative(x: Tensor, name: str) -> None:
    """Refuse values below 0, on the CPU: elsewhere a look at them would wait for the device.

    Raises:
        ValueError: Naming the least value.
    """
    if x.device.type != "cpu" or not x.numel() or is_recorded() or inside_transform():
        return
    if (least := float(x.detach().amin())) < 0:
        raise ValueError(f"{name} must be 0 or more; got {least:g}")


def require_positions(positions: Tensor, width: int, remedy: str) -> None:
    """Refuse what is no tensor, and reals that look like features: ``(*batch, length, width)``.

    Raises:
        TypeError: If the positions are no tensor.
        ValueError: Naming the shape, and what takes features.
    """
    require_tensor(positions, "positions")
    is_wide = positions.ndim > 2 and positions.shape[-1] == width
    if is_wide and positions.is_floating_point():
        raise ValueError(
            f"positions of shape {tuple(positions.shape)} look like features of width {width}; "
            f"use {remedy}, or give positions of shape (length,)"
        )


def require_embeddings(embeddings: Tensor, dim: int) -> None:
    """Refuse embeddings that are not ``(*batch, length, dim)``.

    Raises:
        ValueError: Naming the shape.
    """
    require_tensor(embeddings, "embeddings")
    if embeddings.ndim < 2 or embeddings.shape[-1] != dim:
        raise ValueError(
            f"embeddings must have shape (*batch, length, {dim}); got {tuple(embeddings.shape)}"
        )


def format_values(values: Tensor) -> str:
    """Describe numbers in a ``repr`` so that different ones read differently.

    Examples:
        >>> format_values(torch.tensor([1.0, 2.5]))
        '[1, 2.5]'
        >>> format_values(torch.arange(100.0))
        '100 numbers from 0 to 99 (crc32 b16b5db9)'
    """
    flat = values.detach().flatten()
    if flat.is_meta:
        return f"{tuple(values.shape)} on the meta device"
    if len(flat) <= 4 and all(float(f"{value:g}") == value for value in flat.tolist()):
        return f"[{', '.join(f'{value:g}' for value in flat.tolist())}]"
    code = zlib.crc32(flat.to("cpu", torch.float64).numpy().tobytes())
    return f"{len(flat)} numbers from {flat[0]:g} to {flat[-1]:g} (crc32 {code:08x})"


def is_recorded() -> bool:
    """Whether torch.compile, torch.export or ``torch.jit.trace`` records the operations."""
    return torch.compiler.is_compiling() or bool(
        torch.jit.is_tracing()  # type: ignore[attr-defined]
    )


def inside_transform() -> bool:
    """Whether a transform of ``torch.func`` or forward-mode differentiation is active."""
    # Two private names of torch, which has no public ones for this.
    transforms: bool = torch._C._are_functorch_transforms_active()
    return transforms or forward_ad._current_level >= 0


def checked_order(axis_order: Sequence[int] | None, num_axes: int) -> tuple[int, ...]:
    """Order of the axes; None leaves them as they are.

    Raises:
        ValueError: If it is not a permutation of the axes.
    """
    order = tuple(range(num_axes)) if axis_order is None else tuple(axis_order)
    if sorted(order) != list(range(num_axes)):
        raise ValueError(
            f"axis_order must be a permutation of {tuple(range(num_axes))}; got {order}"
        )
    return order
