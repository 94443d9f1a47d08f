"""Measure an output: which columns form pairs, and the axis, band and phase of each pair.

The two columns of a pair are the sine and the cosine of one angle, or are rotated by it. Either
way they give one complex wave over the tokens, exp(i (band * position + phase)), whose band and
phase are found without any assumption about their series.
"""

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

# Candidate bands that are tried for all waves: a quarter of a cycle over the extent apart.
_FEW_BANDS = 1 << 13
# Candidate bands for the waves that none of the few explains, such as those of far positions.
_MOST_BANDS = 1 << 18
# Candidate bands that are correlated with the waves at once, which bounds the memory.
_BANDS_AT_ONCE = 1 << 12
# Share of a wave's length by which it may be off and yet need none of the many candidates.
_EXPLAINED = 1e-3
# Share of a step by which positions may miss multiples of it and still count as evenly spaced.
_UNEVEN = 1e-2
# Tokens that are measured with, at most.
_MOST_ROWS = 512
# Share of the tolerance by which a column may change and still count as not rotated.
_STILL = 1e-2
# A position this many median distances from the next is far from all others.
_FAR = 8
# Repetitions of the correlation that are searched on each side of the best band.
_FRINGES = 128
# Mean square that a right band leaves over, of waves of length 1: rounding of float32 alone.
_RIGHT = 1e-10
# Gauss-Newton steps from the best candidate band, whose phase is off by pi / 8 at most.
_STEPS = 6


class Waves(NamedTuple):
    """Waves ``sin(band * position[axis] + phase)``, of pairs of columns or of columns.

    Attributes:
        axis: axis of the positions, ``(num_waves,)``.
        band: radians per unit of position, ``(num_waves,)``; NaN where it is not known.
        phase: angle at position 0 in radians, ``(num_waves,)``.
    """

    axis: Tensor
    band: Tensor
    phase: Tensor

    def spread(self, slots: Tensor, count: int) -> "Waves":
        """The waves at ``slots`` of ``count``; the others are not known."""
        axis = torch.zeros(count, dtype=torch.long)
        band, phase = torch.full((2, count), math.nan, dtype=torch.float64)
        axis[slots], band[slots], phase[slots] = self
        return Waves(axis, band, phase)


@dataclass(frozen=True)
class Pairs:
    """Columns that form pairs, and the complex wave of each pair over the tokens.

    Attributes:
        columns: two columns of each pair, the first one the sine (of a rotation: its first).
        wave: complex numbers of length 1, ``(num_rows, num_pairs)``.
        weight: size of an error of 1 in the wave, in the units of the output; like ``wave``.
        rows: tokens that were measured with.
        tolerance: largest difference that rounding explains.
        coordinates: axis of each column that is a coordinate itself; -1 for one that is 0.
    """

    columns: list[tuple[int, int]]
    wave: Tensor
    weight: Tensor
    rows: Tensor
    tolerance: float
    coordinates: dict[int, int]

    def waves(self, positions: Tensor) -> tuple[Waves, float]:
        """Measure axis, band and phase of each pair: the axis that explains it best.

        Args:
            positions: positions of all tokens, ``(length, num_axes)``, in float64.

        Returns:
            The waves, and their largest difference from the output.
        """
        positions, count = positions[self.rows], len(self.columns)
        error = torch.full((count,), math.inf, dtype=torch.float64)
        axis = torch.zeros(count, dtype=torch.long)
        band, phase = torch.zeros(2, count, dtype=torch.float64)
        axes = [a for a, at in enumerate(positions.T) if at.min() < at.max()]
        for most, number in itertools.product((_FEW_BANDS, _MOST_BANDS), axes):
            at = positions[:, number]
            # All waves on few candidate bands; on many, those that none of the few explains.
            todo = error > (_EXPLAINED * self.weight.amax(dim=0) if most == _MOST_BANDS else -1.0)
            if not todo.any() or (most == _MOST_BANDS and _num_bands(at, most) <= _FEW_BANDS):
                continue
            wave, weight = self.wave[:, todo], self.weight[:, todo]
            omega, angle = _band_and_phase(wave, weight, at, most)
            off = ((wave - _unit(at[:, None] * omega + angle)).abs() * weight).amax(dim=0)
            better = off < error[todo]
            chosen = todo.nonzero()[:, 0][better]
            error[chosen], axis[chosen] = off[better], number
            band[chosen], phase[chosen] = omega[better], angle[better]
        # A wave of half a cycle from each position to the next is the same with a negative band:
        # of the two the positive one is taken.
        half_cycles = positions[:, axis] * band / math.pi
        apart = math.pi * (half_cycles - half_cycles.round()).abs().amax(dim=0)
        band = torch.where(apart < self.tolerance, band.abs(), band)
        return Waves(axis, band, phase), float(error.max())


def find_rotated_pairs(
    before: Tensor, output: Tensor, scale: float, tolerance: float
) -> Pairs | None:
    """Find the pairs of columns that a rotary embedding rotates.

    Args:
        before: query, ``(length, width)``, in float64.
        output: the same, rotated.
        scale: factor of the lengths.
        tolerance: largest difference that rounding explains.

    Returns:
        The pairs; None if columns change that form none.
    """
    rows = _some_rows(len(output))
    before, output = before[rows], output[rows]
    # What a column gains in squared length, its partner loses.
    gained = output.square() - scale**2 * before.square()
    slack = 4 * tolerance * float(before.abs().max())
    still = (output - before).abs().amax(dim=0) <= _STILL * tolerance
    columns = _pairs(gained, slack, set(), set(still.nonzero()[:, 0].tolist()))
    if not columns:
        return None
    a, b = torch.tensor(columns).T
    first = torch.complex(before[:, a], before[:, b])
    second = torch.complex(output[:, a], output[:, b])
    length = first.abs().clamp(min=1e-12)
    # The quotient of both has the angle of the rotation.
    wave = second * first.conj() / (length.square() * scale)
    return Pairs(columns, wave, length * scale, rows, tolerance, {})


def find_sine_pairs(
    output: Tensor, positions: Tensor, tolerance: float
) -> tuple[Pairs, float] | None:
    """Find the pairs of sines and cosines, beside which the coordinates themselves may be.

    Args:
        output: embedding, ``(length, width)``, in float64.
        positions: ``(length, num_axes)``, in float64.
        tolerance: largest difference that rounding explains.

    Returns:
        The pairs, and the amplitude of all waves (1 where they differ); None if the columns are
        no sines and cosines of single angles.
    """
    rows = _some_rows(len(output))
    output, positions = output[rows], positions[rows]
    coordinates: dict[int, int] = {}
    for column, values in enumerate(output.T):
        if not values.any():
            coordinates[column] = -1
            continue
        for axis, at in enumerate(positions.T):
            if _largest(values - at) <= tolerance:
                coordinates[column] = axis
    # The squares of a sine and its cosine have the same sum at every token.
    squares = output.square()
    columns = _pairs(squares - squares.mean(dim=0), 4 * tolerance, set(coordinates), set())
    if not columns:
        return None
    sine, cosine = torch.tensor(columns).T
    wave = torch.complex(output[:, cosine], output[:, sine])
    amplitude = wave.abs().mean(dim=0)
    pairs = Pairs(
        columns, wave / amplitude, amplitude.expand(wave.shape), rows, tolerance, coordinates
    )
    common = float(amplitude.median())
    return pairs, common if _largest(amplitude - common) < tolerance else 1.0


def _some_rows(length: int) -> Tensor:
    """Rows at random: rows at equal steps would take some bands for others."""
    return torch.randperm(length, generator=torch.Generator().manual_seed(0))[:_MOST_ROWS]


def _largest(values: Tensor) -> float:
    return float(values.abs().max())


def _pairs(parts: Tensor, slack: float, alone: set[int], still: set[int]) -> list[tuple[int, int]]:
    """Pair the columns whose parts cancel at every token.

    Args:
        parts: ``(num_rows, width)``.
        slack: largest sum of the parts of a pair.
        alone: columns that have no partner.
        still: columns that hardly change, whose partner must be one that changes.

    Returns:
        The pairs; none if a column lacks its partner, but for still ones and the last one of an
        odd width.
    """
    width = parts.shape[1]
    pairs: list[tuple[int, int]] = []
    paired = set(alone)
    step = 1
    for column in range(width):
        if column in paired:
            continue
        # Neighboring pairs mostly have the same step, which is tried first: slow waves have many
        # partners that would do.
        steps = [step] if column in still else [step, *range(1, width - column)]
        fitting = (
            step
            for step in steps
            if column + step < width
            and column + step not in paired
            and not {column, column + step} <= still
            and _largest(parts[:, column] + parts[:, column + step]) <= slack
        )
        found = next(fitting, 0)
        if found == 0 and (column in still or (column == width - 1 and pairs)):
            continue  # It is not rotated, or an odd width ends in a sine without its cosine.
        if found == 0:
            return []
        step = found
        pairs.append((column, column + step))
        paired |= {column, column + step}
    return pairs


def _num_bands(at: Tensor, most: int) -> int:
    """Number of candidate bands, four for each that the positions can tell apart.

    Evenly spaced positions tell no more bands apart than there are positions; others do.
    """
    values = at.unique() - at.min()
    steps = values / values.diff().min()
    if _largest(steps - steps.round()) > _UNEVEN:
        return most
    return min(math.ceil(4 * float(steps[-1])) + 1, most)


def _band_and_phase(wave: Tensor, weight: Tensor, at: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Band that each wave correlates with most, refined by least squares, and its phase at 0.

    Args:
        wave: ``(num_rows, num_waves)``, complex, of length 1.
        weight: size of an error in it.
        at: positions along one axis, ``(num_rows,)``.
        most: number of candidate bands, at most.
    """
    extent, middle = float(at.max() - at.min()), float(at.mean())
    centered, weighted = (at - middle)[:, None], wave * weight.square()
    count = _num_bands(at, most)
    # Bands of both signs, a quarter of a cycle over the extent apart.
    omegas = (torch.arange(count).double() - (count - 1) / 2) * math.pi / (2 * extent)
    coarse = torch.zeros(wave.shape[1], dtype=torch.float64)
    highest = torch.full_like(coarse, -1.0)
    for part in omegas.split(_BANDS_AT_ONCE):
        height, index = (_unit(-part[:, None] * centered.T) @ weighted).abs().max(dim=0)
        coarse = torch.where(height > highest, part[index], coarse)
        highest = torch.maximum(highest, height)
    band, phase, error = _refined(wave, weight, centered, coarse)
    # With a position far from all others the correlation nearly repeats once per cycle over the
    # extent (fringes), and the highest candidate may be a repetition.
    gaps = at.unique().diff()
    is_far = float(gaps.max()) > max(extent / 4, _FAR * float(gaps.median()))
    for fringe in itertools.chain(*((n, -n) for n in range(1, _FRINGES + 1))) if is_far else ():
        if float(error.max()) < _RIGHT:
            break
        start = coarse + fringe * 2 * math.pi / extent
        other, angle, left = _refined(wave, weight, centered, start)
        # Of bands that are equal at every position, the nearest is kept.
        better = left < error / 2
        band, phase = torch.where(better, other, band), torch.where(better, angle, phase)
        error = torch.where(better, left, error)
    return band, phase - band * middle


def _refined(
    wave: Tensor, weight: Tensor, centered: Tensor, band: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gauss-Newton steps from a candidate: band, phase, and the weighted mean square left over."""
    weights = weight.square()
    away = centered - (weights * centered).sum(dim=0) / weights.sum(dim=0)
    for _ in range(_STEPS):
        phase = (weights * wave * _unit(-centered * band)).sum(dim=0).angle()
        # Angles that are left over have a slope along the positions: what the band lacks.
        left = (wave * _unit(-centered * band - phase)).angle()
        band = band + (weights * away * left).sum(dim=0) / (weights * away.square()).sum(dim=0)
    phase = (weights * wave * _unit(-centered * band)).sum(dim=0).angle()
    apart = (wave - _unit(centered * band + phase)).abs().square()
    return band, phase, (weights * apart).sum(dim=0) / weights.sum(dim=0)


def _unit(angle: Tensor) -> Tensor:
    """Complex numbers of length 1."""
    return torch.polar(torch.ones_like(angle), angle)
