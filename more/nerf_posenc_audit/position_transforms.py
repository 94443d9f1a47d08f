"""Where tokens are, and how a known encoding's positions and base differ from what was measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from nerf_posenc.core.grids import grid_positions
from nerf_posenc_audit.measurement import Waves

# Simple fractions that factors and offsets are taken for.
_LARGEST_DENOMINATOR = 64
# Share of the tolerance by which measured factors and offsets may be off.
_NEAR = 0.02
# Relative difference of the factors of several axes that are one.
_SAME_FACTOR = 1e-6
# Relative difference of a measured base from one of two digits that it is taken for.
_NEAR_BASE = 5e-3
# Relative difference from the encoder's own base that is none.
_SAME_BASE = 1e-6


@dataclass(frozen=True, eq=False)
class Positions:
    """Positions of the tokens, and how they are written.

    Attributes:
        values: ``(length,)`` or ``(length, num_axes)``.
        code: Python that gives them.
    """

    values: Tensor
    code: str

    @classmethod
    def of(cls, shape: Sequence[int] | None, positions: Tensor | None) -> "Positions":
        """The given positions, or else indices on a grid of this shape."""
        if positions is not None or shape is None:
            return cls(torch.as_tensor(positions), "positions")
        if len(shape) == 1:
            return cls(torch.arange(shape[0]), f"torch.arange({shape[0]})")
        code = f"grid_positions({tuple(shape)}).flatten(0, -2)"
        return cls(grid_positions(shape).flatten(0, -2), code)

    @property
    def axes(self) -> Tensor:
        """The same in float64, ``(length, num_axes)``."""
        return self.values.double().reshape(len(self.values), -1)

    @property
    def extent(self) -> Tensor:
        """Largest less smallest position of each axis, ``(num_axes,)``."""
        return self.axes.amax(dim=0) - self.axes.amin(dim=0)


@dataclass(frozen=True)
class PositionTransform:
    """Positions ``own[:, order] * factor + offset``."""

    order: tuple[int, ...]
    factor: tuple[float, ...]
    offset: tuple[float, ...]

    @classmethod
    def none(cls, num_axes: int) -> "PositionTransform":
        """The positions as they are."""
        return cls(tuple(range(num_axes)), (1.0,) * num_axes, (0.0,) * num_axes)

    @property
    def is_in_order(self) -> bool:
        """Whether no axes are exchanged."""
        return self.order == tuple(range(len(self.order)))

    def of(self, own: Positions) -> Positions:
        """The transformed positions, in the shape of ``own``."""
        axes = own.axes[:, list(self.order)]
        axes = axes * torch.tensor(self.factor, dtype=torch.float64)
        axes += torch.tensor(self.offset, dtype=torch.float64)
        if set(self.factor) == {1.0} and not any(self.offset):
            axes = axes.to(own.values.dtype)  # Integers stay integers in the code as well.
        code = own.code + ("" if self.is_in_order else f"[:, {list(self.order)}]")
        code += f" * {_number_or_tensor(self.factor)}" if set(self.factor) != {1.0} else ""
        code += f" + {_number_or_tensor(self.offset)}" if any(self.offset) else ""
        return Positions(axes.reshape(own.values.shape), code)

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


def find_transform(
    own: Waves, measured: Waves, at: Positions, tolerance: float
) -> PositionTransform | None:
    """Find the transform of the positions with which an encoder gives the measured waves.

    Args:
        own: waves of the encoder.
        measured: measured waves, in the same order; a negative band runs backwards.
        at: positions of the tokens.
        tolerance: largest difference of the output that rounding explains.

    Returns:
        The transform; None if two axes would be the same.
    """
    extent, num_axes = at.extent, len(at.extent)
    order, factor, offset = list(range(num_axes)), [1.0] * num_axes, [0.0] * num_axes
    for axis in range(num_axes):
        of_axis = (own.axis == axis) & (own.band > 0) & measured.band.isfinite()
        if not of_axis.any():
            continue
        band, found = own.band[of_axis], measured.band[of_axis]
        if extent[axis] > 0:
            # The wave of the largest angle has the surest axis and band.
            sure = int((found.abs() * extent[measured.axis[of_axis]]).argmax())
            order[axis] = int(measured.axis[of_axis][sure])
            ratio = float(found[sure] / band[sure])
            factor[axis] = simple_number(ratio, tolerance) or ratio
        # A phase tells where positions begin up to whole cycles. The slowest wave tells it
        # roughly, and each faster one more exactly.
        begin = 0.0
        phase = (measured.phase - own.phase)[of_axis]
        for wave in band.argsort().tolist():
            left = float(phase[wave]) - float(band[wave]) * begin
            begin += math.remainder(left, 2 * math.pi) / float(band[wave])
        # Where all positions of an axis are the same, the waves are measured as if it were 0.
        same = float(at.axes[0, axis]) if extent[axis] == 0 else 0.0
        offset[axis] = simple_number(begin, tolerance) - same
    if len(set(order)) < num_axes:
        return None
    # Measured on several axes, one and the same factor differs by the rounding of each.
    mean = sum(factor) / num_axes
    if all(math.isclose(each, mean, rel_tol=_SAME_FACTOR) for each in factor):
        factor = [simple_number(mean, tolerance) or mean] * num_axes
    return PositionTransform(tuple(order), tuple(factor), tuple(offset))


def find_bases(own: Waves, measured: Waves, at: Positions, base: float) -> list[float]:
    """Find the bases whose bands have the ratios of the measured ones.

    Args:
        own: waves of the encoder, whose bands are powers of its base.
        measured: measured waves, in the same order.
        at: positions of the tokens.
        base: the encoder's.

    Returns:
        The base, before it one of two digits if it is near; none if it is the encoder's own or
        no measured band tells.
    """
    known = (own.band > 0) & measured.band.isfinite() & (measured.band != 0)
    exponent = -own.band[known].log() / math.log(base)
    size, axis = measured.band[known].abs(), own.axis[known]
    # Waves of less than a radian over the extent are known the less the slower they are.
    weight = (size * at.extent[measured.axis[known]]).clamp(max=1).square()
    top = bottom = 0.0
    for part in axis.unique():
        # A weighted line through the logarithms, whose slope is minus the base's logarithm; one
        # slope for all axes, whose factors differ.
        w, e, y = (value[axis == part] for value in (weight, exponent, size.log()))
        away = e - (w * e).sum() / w.sum()
        top += float((w * away * y).sum())
        bottom += float((w * away.square()).sum())
    if bottom == 0:
        return []
    found = math.exp(max(min(-top / bottom, 50.0), -50.0))
    short = float(f"{found:.2g}")
    bases = [short] if abs(math.log(found / short)) < _NEAR_BASE else []
    bases.append(float(f"{found:.12g}"))
    return [b for b in dict.fromkeys(bases) if abs(math.log(b / base)) > _SAME_BASE and b != 1]


def simple_number(value: float, tolerance: float) -> float:
    """The simple fraction, or the simple multiple of pi, that a measured number is; else itself."""
    for unit in (1.0, math.pi):
        simple = unit * float(Fraction(value / unit).limit_denominator(_LARGEST_DENOMINATOR))
        if abs(simple - value) <= _NEAR * tolerance * max(1.0, abs(value)):
            return simple
    return float(f"{value:.10g}")


def _brief(values: Sequence[float], form: str = "g") -> str:
    if len(set(values)) == 1:
        return f"{values[0]:{form}}"
    return "(" + ", ".join(f"{value:g}" for value in values) + ")"


def _number_or_tensor(values: Sequence[float]) -> str:
    return (
        repr(values[0])
        if len(set(values)) == 1
        else f"torch.tensor({list(values)}, dtype=torch.float64)"
    )
