"""The base of all encoders, the identity, and the checks of what users pass."""

from __future__ import annotations

import contextlib
import difflib
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

if TYPE_CHECKING:
    from jaxtyping import Float


class Encoder(nn.Module):
    """Base of all encoders: fixed widths, and constants that no cast reaches.

    A subclass says by ``takes_variance`` and ``takes_progress`` which keyword arguments its
    ``forward`` has beside the coordinates; calling it with another raises a ``TypeError``.

    Args:
        in_dim: number of coordinates.
        out_dim: number of features.
    """

    takes_variance: ClassVar[bool] = False
    """Whether ``forward`` takes the variance of each coordinate, as mip-NeRF's encoding does."""
    takes_progress: ClassVar[bool] = False
    """Whether ``forward`` takes the progress of a fit, which opens bands from coarse to fine."""
    is_stationary: ClassVar[bool] = False
    """Whether the inner product of two points' features depends on their offset alone."""
    uncast: ClassVar[tuple[str, ...]] = ()
    """Parameters and persistent buffers that follow the module to a device but keep their type."""
    children_in_repr: ClassVar[tuple[str, ...]] = ()
    """Modules inside that ``extra_repr`` describes."""

    _device_tracker: Tensor

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self._in_dim = in_dim
        self._out_dim = out_dim
        self._constants: dict[str, Tensor] = {}
        self._constants_device = torch.device("cpu")
        # An empty tensor: loaders that fill buffers have nothing to fill.
        self.register_buffer("_device_tracker", torch.empty(0), persistent=False)

    @property
    def in_dim(self) -> int:
        """Number of coordinates."""
        return self._in_dim

    @property
    def out_dim(self) -> int:
        """Number of features."""
        return self._out_dim

    @property
    def device(self) -> torch.device:
        """Device that the module was moved to."""
        return self._device_tracker.device

    @property
    def frequency_bands(self) -> Float[Tensor, "num_bands axes"] | None:
        """Bands in rad per unit of the coordinate; None if there are none, or they are random."""
        return None

    def register_constant(self, name: str, value: Tensor | None) -> None:
        """Keep a tensor that follows the coordinates to a device, and is neither cast nor saved.

        It is no buffer: loaders that build a module on the meta device fill its buffers with
        whatever is in memory.

        Args:
            name: attribute that the module gets.
            value: tensor on the CPU, also under ``torch.device("meta")``, or None for a constant
                that this module does without.
        """
        if value is not None:
            self._constants[name] = value
        setattr(self, name, value)

    def move_constants(self, device: torch.device) -> None:
        """Put the constants on a device, if they are not there; ``forward`` begins with this."""
        if device != self._constants_device:
            # A copy made in inference mode cannot be used in autograd later.
            with torch.inference_mode(False):
                for name in self._constants:
                    setattr(self, name, self._constant_on(name, device))
            self._constants_device = device

    def _constant_on(self, name: str, device: torch.device) -> Tensor:
        """Copy a constant to a device; float64 becomes float32 on MPS, which has none."""
        value = self._constants[name]
        if device.type == "mps" and value.dtype == torch.float64:
            value = value.float()
        return value.to(device)

    def __repr__(self) -> str:
        # One line, unless a child module is not covered by `extra_repr`.
        if set(dict(self.named_children())) <= set(self.children_in_repr):
            return f"{type(self).__name__}({self.extra_repr()})"
        return super().__repr__()

    def _apply(self, fn: Any, recurse: bool = True) -> "Encoder":
        held = {name: getattr(self, name) for name in self.uncast}
        before = {name: value.detach() for name, value in held.items() if value is not None}
        super()._apply(fn, recurse)
        self.move_constants(self.device)
        for name, value in before.items():
            tensor = getattr(self, name)
            if tensor.dtype == value.dtype:
                continue
            # A meta tensor has no value to keep, only a dtype.
            kept = tensor.data if value.is_meta else value.clone()
            with torch.no_grad():
                tensor.data = kept.to(tensor.device, value.dtype)
                if tensor.grad is not None:
                    tensor.grad.data = tensor.grad.to(value.dtype)
        return self

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        # load_state_dict(assign=True) would replace float32 values by half-precision ones.
        for name in self.uncast:
            value, own = state_dict.get(prefix + name), getattr(self, name)
            if isinstance(value, Tensor) and own is not None:
                state_dict[prefix + name] = value.to(own.dtype)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class Identity(Encoder):
    """The coordinates themselves: the baseline that encodings are compared with.

    Args:
        in_dim: number of coordinates, 1 or more.

    Raises:
        ValueError: If ``in_dim`` is below 1.

    Examples:
        >>> Identity(2)(torch.tensor([[0.25, -0.5]]))
        tensor([[ 0.2500, -0.5000]])
    """

    takes_variance = True

    def __init__(self, in_dim: int) -> None:
        require_counts(in_dim=in_dim)
        super().__init__(in_dim, in_dim)

    def forward(
        self,
        x: Float[Tensor, "*batch in_dim"],
        *,
        variance: Float[Tensor, "*batch in_dim"] | None = None,
    ) -> Float[Tensor, "*batch in_dim"]:
        """Return the coordinates.

        Args:
            x: coordinates.
            variance: variance of each coordinate; the expectation of a coordinate is its mean,
                whatever the variance.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If its last dimension is not ``in_dim``.
        """
        require_coordinates(x, self.in_dim)
        return x

    def extra_repr(self) -> str:
        """Show the width."""
        return f"in_dim={self.in_dim}"


def has_values(tensor: Tensor) -> bool:
    """Whether a tensor has values: not under torch's FakeTensorMode, which knows shapes alone."""
    # A private name of torch: import it late, since other versions may have moved it.
    from torch._subclasses import FakeTensor

    return not isinstance(tensor, FakeTensor)


@contextlib.contextmanager
def computed_with_values() -> Iterator[None]:
    """Leave torch's FakeTensorMode, for a function that compares numbers of constants."""
    # A private name of torch, as in `has_values`.
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield


def without_autocast(like: Tensor) -> torch.autocast:
    """Context in which products on the device of a tensor are computed in their own type."""
    return torch.autocast("cpu" if like.is_meta else like.device.type, enabled=False)


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
        if not isinstance(count, int):
            raise TypeError(f"{name} must be an integer; got {count!r}")
        if count < 1:
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
    """Message for a name that there is not, with those that are nearest to it.

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
    if not has_values(x):
        return
    if (least := float(x.detach().amin())) < 0:
        raise ValueError(f"{name} must be 0 or more; got {least:g}")


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
    transforms: bool = torch._C._are_functorch_transforms_active()
    return transforms or in_forward_mode()


def in_forward_mode() -> bool:
    """Whether forward-mode differentiation is active."""
    return forward_ad._current_level >= 0


def is_differentiated(x: Tensor) -> bool:
    """Whether derivatives with respect to ``x`` may be asked for, in any mode."""
    return (x.requires_grad and torch.is_grad_enabled()) or inside_transform()


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
