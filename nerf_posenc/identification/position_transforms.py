"""How the positions and bands of a known encoding differ from measured waves, as words and code."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nerf_posenc.core.bands import linear_bands, ratio_bands
from nerf_posenc.core.grids import grid_positions

CLOSE = 1e-3
"""Relative difference of measured bands that are meant to be equal."""

NOISE = 0.05
"""Largest difference from the output of a column whose band is right."""

UNNAMED = 2.5
"""Changes that a preset may have and still be a better answer than an encoder without a name."""

# Simple fractions that factors and offsets are taken for.
_LARGEST_DENOMINATOR = 64


class Candidate(NamedTuple):
    """An encoding to compare.

    Attributes:
        name: name of the preset, or of the encoder.
        changes: words for each difference from the preset.
        line: code that reproduces the output.
        evaluate: function from the rows that are wanted to their output.
        handicap: added to the number of changes when equals are ranked.
    """

    name: str
    changes: tuple[str, ...]
    line: str
    evaluate: Callable[[Tensor], Tensor]
    handicap: float = 0.0

    def times(self, factor: float) -> "Candidate":
        """The same, multiplied by a constant."""
        return self._replace(
            changes=(*self.changes, f"a factor of {factor:.6g}"),
            line=f"{factor:.10g} * {self.line}",
            evaluate=lambda rows: factor * self.evaluate(rows),
        )


@dataclass(frozen=True, eq=False)
class Counted:
    """Positions as somebody counts them.

    Attributes:
        positions: ``(length,)`` or ``(length, num_axes)``.
        code: code for them.
    """

    positions: Tensor
    code: str

    @property
    def axes(self) -> Tensor:
        """The same in float64, ``(length, num_axes)``."""
        return self.positions.double().reshape(len(self.positions), -1)

    @property
    def extent(self) -> Tensor:
        """Length of each axis."""
        return self.axes.amax(dim=0) - self.axes.amin(dim=0)


def counted(shape: Sequence[int] | None, positions: Tensor | None) -> Counted:
    """The given positions, or indices on the grid."""
    if positions is not None:
        return Counted(positions, "positions")
    assert shape is not None
    if len(shape) == 1:
        return Counted(torch.arange(shape[0]), f"torch.arange({shape[0]})")
    code = f"grid_positions({tuple(shape)}).flatten(0, -2)"
    return Counted(grid_positions(shape).flatten(0, -2), code)


class Slots(NamedTuple):
    """Axis, band and phase of each pair or column; NaN where they are not known."""

    axis: Tensor
    band: Tensor
    phase: Tensor

    @classmethod
    def unknown(cls, count: int) -> "Slots":
        """Slots to be filled."""
        unknown = torch.full((count,), math.nan, dtype=torch.float64)
        return cls(torch.zeros(count, dtype=torch.long), unknown, unknown.clone())

    @classmethod
    def of(cls, waves: Sequence[tuple[int, float | None, float]]) -> "Slots":
        """Those of an encoder."""
        axis, band, phase = zip(*waves, strict=True)
        known = [math.nan if value is None else value for value in band]
        doubles = torch.tensor([known, phase], dtype=torch.float64)
        return cls(torch.tensor(axis), *doubles)

    def fill(self, slot: int, axis: float, band: float, phase: float) -> None:
        """Set what is known of a slot."""
        self.axis[slot], self.band[slot], self.phase[slot] = int(axis), band, phase


@dataclass(frozen=True)
class Motion:
    """Positions ``own[:, order] * factor + offset``."""

    order: tuple[int, ...]
    factor: tuple[float, ...]
    offset: tuple[float, ...]

    @classmethod
    def none(cls, num_axes: int) -> "Motion":
        """The positions as they are."""
        return cls(tuple(range(num_axes)), (1.0,) * num_axes, (0.0,) * num_axes)

    @property
    def is_in_order(self) -> bool:
        """Whether no axes are exchanged."""
        return self.order == tuple(range(len(self.order)))

    def moved(self, own: Counted) -> Counted:
        """The positions, ``(length,)`` or ``(length, num_axes)``, and the code for them."""
        axes = own.axes[:, list(self.order)]
        axes = axes * torch.tensor(self.factor, dtype=torch.float64)
        axes += torch.tensor(self.offset, dtype=torch.float64)
        code = own.code + ("" if self.is_in_order else f"[:, {list(self.order)}]")
        code += f" * {_number_or_tensor(self.factor)}" if set(self.factor) != {1.0} else ""
        code += f" + {_number_or_tensor(self.offset)}" if any(self.offset) else ""
        return Counted(axes.reshape(own.positions.shape), code)

    @property
    def changes(self) -> tuple[str, ...]:
        """Words for each difference."""
        words = [] if self.is_in_order else [f"axes in the order {self.order}"]
        if set(self.factor) == {-1.0}:
            backwards = "positions counted backwards"
            words.append(backwards if any(self.offset) else "rotations the other way")
        elif set(self.factor) != {1.0}:
            words.append(f"positions times {_brief(self.factor)}")
        if len(self.offset) == 3 and self.offset[0] == 0 and self.offset[1] == self.offset[2] != 0:
            words.append(f"rows and columns {self.offset[1]:+g}")
        elif any(self.offset):
            words.append(f"positions {_brief(self.offset, '+g')}")
        return tuple(words)


def find_motion(own: Slots, measured: Slots, at: Counted, near: float) -> Motion | None:
    """Motion of the positions with which an encoder would give the measured waves.

    Args:
        own: waves of the encoder.
        measured: measured waves, in the same order; a negative band runs backwards.
        at: positions of the tokens.
        near: difference from a simple fraction that rounding explains.

    Returns:
        The motion; None if two axes would be the same.
    """
    extent, num_axes = at.extent, len(at.extent)
    order, factor, offset = (list(part) for part in Motion.none(num_axes).__dict__.values())
    for axis in range(num_axes):
        slots = (own.axis == axis) & (own.band > 0) & measured.band.isfinite()
        if not slots.any():
            continue
        band, ratio = own.band[slots], measured.band[slots] / own.band[slots]
        if extent[axis] > 0:
            # The wave of the largest angle has the surest axis and band.
            sure = int((measured.band[slots].abs() * extent[measured.axis[slots]]).argmax())
            order[axis] = int(measured.axis[slots][sure])
            factor[axis] = nice(float(ratio[sure]), near) or float(ratio[sure])
        # From the slowest wave to the fastest, each says more exactly where positions begin.
        begins = 0.0
        phase = (measured.phase - own.phase)[slots]
        for slot in band.argsort().tolist():
            left = float(phase[slot]) - float(band[slot]) * begins
            begins += math.remainder(left, 2 * math.pi) / float(band[slot])
        # Positions that are all the same tell their sum with the offset, as if they began at 0.
        offset[axis] = nice(begins, near) - (float(at.axes[0, axis]) if extent[axis] == 0 else 0)
    if len(set(order)) < num_axes:
        return None
    return Motion(tuple(order), tuple(factor), tuple(offset))


def find_bases(own: Slots, measured: Slots, extent: Tensor, base: float) -> list[float]:
    """Bases that give the measured bands the exponents of an encoder with another base.

    Returns:
        Two digits of the base, if it is near them, and the base itself; none if it is the
        encoder's own, or no measured band tells.
    """
    known = (own.band > 0) & measured.band.isfinite() & (measured.band != 0)
    exponent = -own.band[known].log() / math.log(base)
    size, axis = measured.band[known].abs(), own.axis[known]
    weight = (size * extent[measured.axis[known]]).clamp(max=1).square()
    top = bottom = 0.0
    for part in axis.unique():
        # A weighted line through the logarithms, whose slope is minus the base's logarithm.
        w, e, y = (value[axis == part] for value in (weight, exponent, size.log()))
        away = e - (w * e).sum() / w.sum()
        top += float((w * away * y).sum())
        bottom += float((w * away.square()).sum())
    if bottom == 0:
        return []
    found = math.exp(max(min(-top / bottom, 50.0), -50.0))
    short = float(f"{found:.2g}")
    bases = [short] if abs(math.log(found / short)) < 5e-3 else []
    bases.append(float(f"{found:.6g}"))
    return [b for b in dict.fromkeys(bases) if abs(math.log(b / base)) > 1e-6 and b != 1]


def nice(value: float, near: float) -> float:
    """The simple fraction that a measured number is, or is of pi, or ten digits of it."""
    for unit in (1.0, math.pi):
        simple = unit * float(Fraction(value / unit).limit_denominator(_LARGEST_DENOMINATOR))
        if abs(simple - value) <= near * max(1.0, abs(value)):
            return simple
    return float(f"{value:.10g}")


@dataclass(frozen=True)
class Bands:
    """Measured bands: one series, or one for each axis.

    Attributes:
        value: the argument of an encoder.
    """

    value: Tensor

    def __repr__(self) -> str:
        """Code for them."""
        if len(self.value) == 1:
            return f"torch.tensor({self.value.tolist()}, dtype=torch.float64)"
        if self.value.ndim == 2:
            return f"torch.stack([{', '.join(map(_series_code, self.value.unbind(-1)))}], -1)"
        return _series_code(self.value)


def _series_code(bands: Tensor) -> str:
    """A series of bands as code: by ratio, at equal distances, or one by one."""
    count, first, last = len(bands), float(bands[0]), float(bands[-1])
    if count > 2 and first > 0 and last > 0:
        ratio = (last / first) ** (1 / (count - 1))
        by_ratio = ratio_bands(count, first=first, ratio=ratio)
        if torch.allclose(bands, by_ratio, rtol=CLOSE, atol=0):
            return f"ratio_bands({count}, first={first!r}, ratio={ratio!r})"
        if torch.allclose(bands, linear_bands(count, first=first, last=last), rtol=CLOSE, atol=0):
            return f"linear_bands({count}, first={first!r}, last={last!r})"
    return f"torch.tensor({bands.tolist()}, dtype=torch.float64)"


def values_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments of an encoder, with the bands themselves."""
    return {k: v.value if isinstance(v, Bands) else v for k, v in arguments.items()}


def shown(arguments: dict[str, Any]) -> str:
    """Code of further arguments."""
    return "".join(f", {key}={value!r}" for key, value in arguments.items())


def words(arguments: dict[str, Any]) -> tuple[str, ...]:
    """Words for arguments that differ from a preset's."""
    return tuple(
        f"other {key}"
        if isinstance(value, Bands)
        else (f"{key} {value:g}" if isinstance(value, float) else f"{key} {value!r}")
        for key, value in arguments.items()
    )


def _brief(values: Sequence[float], form: str = "g") -> str:
    if len(set(values)) == 1:
        return f"{values[0]:{form}}"
    return "(" + ", ".join(f"{value:g}" for value in values) + ")"


def _number_or_tensor(values: Sequence[float]) -> str:
    return repr(values[0]) if len(set(values)) == 1 else f"torch.tensor({list(values)})"
