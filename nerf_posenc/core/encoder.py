"""The base of all encoders, the identity, and the checks of what users pass."""

import math
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn


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

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self._in_dim = in_dim
        self._out_dim = out_dim
        self._constants: dict[str, Tensor] = {}

    @property
    def in_dim(self) -> int:
        """Number of coordinates."""
        return self._in_dim

    @property
    def out_dim(self) -> int:
        """Number of features."""
        return self._out_dim

    @property
    def frequency_bands(self) -> Float[Tensor, "num_bands axes"] | None:
        """Bands in rad per unit of the coordinate; None if there are none, or they are random."""
        return None

    def register_constant(self, name: str, value: Tensor | None) -> None:
        """Add a tensor that follows the module to a device, but is neither cast nor saved.

        After ``to_empty`` it has its value again.

        Args:
            name: attribute that the module gets.
            value: on the CPU, or None for a constant that this module does without.
        """
        if value is not None:
            self._constants[name] = value
        self.register_buffer(name, value, persistent=False)

    def _constant_on(self, name: str, device: torch.device) -> Tensor:
        """Copy a constant to a device; float64 becomes float32 on MPS, which has none."""
        value = self._constants[name]
        if device.type == "mps" and value.dtype == torch.float64:
            value = value.float()
        return value.to(device)

    def _apply(self, fn: Any, recurse: bool = True) -> "Encoder":
        before = {name: getattr(self, name).detach() for name in self.uncast}
        super()._apply(fn, recurse)
        for name in self._constants:
            device = getattr(self, name).device
            self._buffers[name] = self._constant_on(name, device)
        for name, value in before.items():
            tensor = getattr(self, name)
            # From the meta device there is no value to keep, only the type.
            kept = tensor.data if value.is_meta else value.clone()
            with torch.no_grad():
                tensor.data = kept.to(tensor.device, value.dtype)
        return self


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
            variance: of each coordinate; the expectation of a coordinate is its mean, whatever
                the variance.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If its last dimension is not ``in_dim``.
        """
        require_coordinates(x, self.in_dim)
        return x

    def extra_repr(self) -> str:
        """Show the width."""
        return f"in_dim={self.in_dim}"


def require_counts(**counts: int) -> None:
    """Refuse counts below 1.

    Raises:
        ValueError: Naming the count and its value.

    Examples:
        >>> require_counts(width=0)
        Traceback (most recent call last):
        ValueError: width must be 1 or more; got 0
    """
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be 1 or more; got {count}")


def require_positive(**values: float) -> None:
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


def require_coordinates(x: Tensor, in_dim: int, *, name: str = "x") -> None:
    """Refuse coordinates that are not floating-point or not ``(*batch, in_dim)``.

    Raises:
        TypeError: If ``x`` does not hold floating-point numbers.
        ValueError: If its last dimension is not ``in_dim``.
    """
    if not x.is_floating_point():
        raise TypeError(
            f"{name} must hold floating-point coordinates; got {x.dtype}. Scale pixel indices to "
            "[-1, 1] first"
        )
    if x.ndim == 0 or x.shape[-1] != in_dim:
        raise ValueError(f"{name} must have shape (*batch, {in_dim}); got {tuple(x.shape)}")


def require_embeddings(embeddings: Tensor, dim: int) -> None:
    """Refuse embeddings that are not ``(*batch, length, dim)``.

    Raises:
        ValueError: Naming the shape.
    """
    if embeddings.ndim < 2 or embeddings.shape[-1] != dim:
        raise ValueError(
            f"embeddings must have shape (*batch, length, {dim}); got {tuple(embeddings.shape)}"
        )
