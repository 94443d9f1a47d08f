"""The base of all encoders, and the identity."""

from __future__ import annotations

import inspect
import math
import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from nerf_posenc.core.checks import (
    default_dtype,
    inside_transform,
    is_recorded,
    require_coordinates,
    require_counts,
    whole,
)

if TYPE_CHECKING:
    from jaxtyping import Float

# Arguments and methods of encoders that other libraries' arguments stand for, the first that an
# encoder has.
_SYNONYMS = {
    "bands": ("num_bands", "frequencies"),
    "degree": ("num_levels", "num_degrees"),
    "log2_hashmap_size": ("log2_table_size",),
    "max_freq_exp": ("max_octave",),
    "max_len": ("max_length", "table"),
    "max_res": ("max_resolution",),
    "min_freq_exp": ("min_octave",),
    "num_frequencies": ("num_bands", "num_features"),
    "per_level_scale": ("growth",),
    "scale": ("sigma", "span"),
    "temperature": ("base",),
    "theta": ("base",),
}

# Scenes without bounds and calendars stay far below, indices of images are above.
_MOST_PERIODS = 64


class Encoder(nn.Module):
    """Base of all encoders: fixed widths, and constants that no cast reaches.

    Features have the encoder's ``out_dtype``. Without one, they have the type that the module was
    last cast to, which is that of the layer after it. If the module was never cast, they have the
    type of the coordinates; for integer positions, torch's default type, float32 at least.

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
    uncast: ClassVar[tuple[str, ...]] = ()
    """Parameters and persistent buffers that follow the module to a device but keep their type."""
    children_in_repr: ClassVar[tuple[str, ...]] = ()
    """Modules inside that ``extra_repr`` describes."""

    out_dtype: torch.dtype | None = None
    """Type of the features, whatever the module is cast to."""

    _device_tracker: Tensor
    _is_set = False
    _is_looked_at = False
    _cast_dtype: torch.dtype | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Name the encoder's own argument where another library's is given."""
        for name in kwargs.keys() & _SYNONYMS.keys():
            _require_own(cls, name, kwargs[name])
        return super().__new__(cls)

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self._in_dim = whole(in_dim, "in_dim")
        self._out_dim = whole(out_dim, "out_dim")
        self._constants: dict[str, Tensor] = {}
        self._constants_device = torch.device("cpu")
        # An empty tensor: loaders that fill buffers have nothing to fill.
        self.register_buffer(
            "_device_tracker", torch.empty(0, dtype=torch.float32), persistent=False
        )

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

    def features_dtype(self, like: Tensor) -> torch.dtype:
        """Type of the features of coordinates; see the class."""
        own = like.dtype if like.is_floating_point() else default_dtype()
        return self.out_dtype or self._cast_dtype or own

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

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw or set again what is trained or sampled, as the constructor does.

        A module that was built under ``torch.device("meta")`` has its first values by this, after
        ``to_empty``.

        Args:
            generator: random number generator; None is torch's own.
        """
        for child in self.children():
            if isinstance(child, Encoder):
                child.reset_parameters(generator)

    def require_set(self) -> None:
        """Refuse, at the first forward, sampled numbers that are not set, or undefined.

        Raises:
            ValueError: Naming the parameter or buffer.
        """
        if self._is_set or is_recorded() or inside_transform():
            return
        for name in self.uncast:
            value = getattr(self, name)
            if value is None or value.is_meta:
                continue
            if value.is_cuda and torch.cuda.is_current_stream_capturing():
                return
            if bool(value.isnan().any()):
                raise ValueError(
                    f"{name} of {type(self).__name__} holds NaN; after to_empty, call "
                    "reset_parameters() or load a state_dict"
                )
        self._is_set = True

    def look_at(self, x: Tensor, period: float) -> None:
        """Warn at the first forward of coordinates that look like pixel indices.

        Args:
            x: coordinates, which are looked at on the CPU alone, where nothing waits for them.
            period: interval that the coordinates are meant to lie in.
        """
        if not x.is_cpu or not x.numel() or is_recorded() or inside_transform():
            return
        self._is_looked_at = True
        low, high = (float(end) for end in x.detach().aminmax())
        if high - low > _MOST_PERIODS * period:
            warnings.warn(
                f"the coordinates go from {low:g} to {high:g}, where {type(self).__name__} is "
                f"meant for an interval of {period:g}. Scale pixel indices to [-1, 1] first, as "
                "grid_positions(shape, units='longer') does",
                stacklevel=5,
            )

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
        dtype = self._device_tracker.dtype
        super()._apply(fn, recurse)
        if self._device_tracker.dtype != dtype:
            self._cast_dtype = self._device_tracker.dtype
        self.move_constants(self.device)
        for name, value in before.items():
            tensor = getattr(self, name)
            if value.is_meta and not tensor.is_meta:
                # Memory holds anything after to_empty: `require_set` finds what stays undefined.
                tensor.data = torch.full_like(tensor, math.nan, dtype=value.dtype)
                self._is_set = False
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
        self._is_set = False
        for name in self.uncast:
            value, own = state_dict.get(prefix + name), getattr(self, name)
            if isinstance(value, Tensor) and own is not None:
                state_dict[prefix + name] = value.to(own.dtype)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def _require_own(cls: type[Encoder], name: str, value: object) -> None:
    """Refuse an argument that only other libraries have, with the word for it here."""
    inits = [vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base)]
    known = {parameter for init in inits for parameter in inspect.signature(init).parameters}
    if name in known:
        return
    number = repr(value) if isinstance(value, int | float) else ""
    hints = [f"give {word}={number}" for word in _SYNONYMS[name] if word in known]
    hints += [f"call {word}({number})" for word in _SYNONYMS[name] if callable(vars(cls).get(word))]
    # Of bands, a number is a count, and all else a list.
    hint = hints[-1 if name == "bands" and not number else 0] if hints else "there is none like it"
    raise TypeError(f"{cls.__name__} got an unexpected keyword argument {name!r}; {hint}")


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
        return x.to(self.features_dtype(x))

    def extra_repr(self) -> str:
        """Show the width."""
        return f"in_dim={self.in_dim}"
