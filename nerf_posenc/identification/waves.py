"""Measure a rotation or an embedding: which columns form pairs, their axes, bands and phases.

The two columns of a pair are the sine and the cosine of one angle, or are rotated by it. Either
way they give one complex wave over the tokens, exp(i (band * position + phase)), whose band and
phase are found without any assumption about their series.
"""

import itertools
import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

# Candidate bands that are tried for all waves, at most: one step of a quarter cycle each.
_FEW_BANDS = 1 << 13
# Candidate bands for the waves that none of the few explains, such as those of far positions.
_MOST_BANDS = 1 << 18
_CHUNK = 1 << 12
# A position this many median distances from the next is far: it makes interference fringes.
_FAR = 8
# Fringes that are searched on each side of a candidate band.
_FRINGES = 128
# Mean square that a right band leaves over, of waves of length 1: rounding of float32 alone.
_RIGHT = 1e-10
# Positions further than this from a multiple of their distance are at no equal ones.
_IRREGULAR = 1e-2
_MOST_ROWS = 512
# Share of the tolerance by which measured bands and positions may be off.
_NEAR = 0.02
# A column that differs by no more than this share of the tolerance hardly moves.
_STILL = 1e-2
# Gauss-Newton steps from the best candidate band, whose phase is off by pi / 8 at most.
_STEPS = 6


@dataclass(frozen=True)
class Waves:
    """Measured pairs of columns.

    Attributes:
        pairs: columns of each pair, the first one the sine (of a rotation: its first column).
        axis: axis of each pair's positions, ``(num_pairs,)``.
        band: radians per unit of position, ``(num_pairs,)``.
        phase: angle at position 0 in radians, ``(num_pairs,)``.
        error: largest difference from the output, of each pair.
        near: difference of bands and positions that rounding of the output explains.
        raw: axis of each column that is a coordinate itself; -1 for one that is 0.
        amplitude: amplitude of all waves of an embedding; 1 where they differ.
    """

    pairs: list[tuple[int, int]]
    axis: Tensor
    band: Tensor
    phase: Tensor
    error: Tensor
    near: float
    raw: dict[int, int] = field(default_factory=dict)
    amplitude: float = 1.0


def measure_rotation(
    before: Tensor, after: Tensor, positions: Tensor, scale: float, tolerance: float
) -> Waves | None:
    """Measure a rotation of pairs of columns.

    Args:
        before: query, ``(length, width)``, in float64.
        after: the same, rotated.
        positions: ``(length, num_axes)``, in float64.
        scale: factor of the lengths.
        tolerance: largest difference that rounding explains.

    Returns:
        What was measured; None if the columns are no rotated pairs.
    """
    rows = _some_rows(len(after))
    before, after, positions = before[rows], after[rows], positions[rows]
    # What a column gained in squared length, its partner has lost.
    gained = after.square() - scale**2 * before.square()
    slack = 4 * tolerance * float(before.abs().max())
    moved = (after - before).abs().amax(dim=0)
    still = torch.nonzero(moved <= _STILL * tolerance)[:, 0].tolist()
    pairs = _pairs(gained, slack, set(), set(still))
    if not pairs:
        return None
    a, b = (torch.tensor(columns) for columns in zip(*pairs, strict=True))
    first = torch.complex(before[:, a], before[:, b])
    second = torch.complex(after[:, a], after[:, b])
    length = first.abs().clamp(min=1e-12)
    waves = second * first.conj() / (length.square() * scale)
    return _measured(waves, length * scale, positions, pairs, tolerance)


def measure_embedding(output: Tensor, positions: Tensor, tolerance: float) -> Waves | None:
    """Measure sines and cosines, beside which the coordinates themselves may be.

    Args:
        output: embedding, ``(length, width)``, in float64.
        positions: ``(length, num_axes)``, in float64.
        tolerance: largest difference that rounding explains.

    Returns:
        What was measured; None if the columns are no sines and cosines of single axes.
    """
    rows = _some_rows(len(output))
    output, positions = output[rows], positions[rows]
    raw: dict[int, int] = {}
    for column in range(output.shape[1]):
        values = output[:, column]
        if not values.any():
            raw[column] = -1
        for axis in range(positions.shape[1]):
            if _largest(values - positions[:, axis]) <= tolerance and _largest(values) > 0:
                raw[column] = axis
    # The sum of both squares is the same at every token.
    squares = output.square()
    pairs = _pairs(squares - squares.mean(dim=0), 4 * tolerance, set(raw), set())
    if not pairs:
        return None
    a, b = (torch.tensor(columns) for columns in zip(*pairs, strict=True))
    waves = torch.complex(output[:, b], output[:, a])
    amplitude = waves.abs().mean(dim=0)
    found = _measured(waves / amplitude, amplitude, positions, pairs, tolerance, raw)
    common = float(amplitude.median())
    return replace(found, amplitude=common) if _largest(amplitude - common) < tolerance else found


def _some_rows(length: int) -> Tensor:
    """Rows at random, which are enough to measure with, and tell apart what a step would not."""
    return torch.randperm(length, generator=torch.Generator().manual_seed(0))[:_MOST_ROWS]


def _largest(values: Tensor) -> float:
    return float(values.abs().max())


def _pairs(parts: Tensor, slack: float, alone: set[int], still: set[int]) -> list[tuple[int, int]]:
    """Pairs of columns whose parts cancel at every token; none if a column has no partner.

    Columns that stand alone have no partner, and those that hardly move only one that moves more.
    """
    width = parts.shape[1]
    pairs: list[tuple[int, int]] = []
    paired = set(alone)
    step = 1
    for column in range(width):
        if column in paired:
            continue
        # Neighbors mostly have the same step; slow waves have many partners that would do.
        steps = [step] if column in still else [step, *range(1, width - column)]
        fitting = (
            step
            for step in steps
            if column + step < width
            and column + step not in paired
            and (column not in still or column + step not in still)
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


def _measured(
    waves: Tensor,
    lengths: Tensor,
    positions: Tensor,
    pairs: list[tuple[int, int]],
    tolerance: float,
    raw: dict[int, int] | None = None,
) -> Waves:
    """Measure complex waves ``(length, num_pairs)``, each on the axis that explains it best."""
    length, count = waves.shape
    lengths = lengths.expand(length, count)
    best_error = torch.full((count,), math.inf, dtype=torch.float64)
    axis = torch.zeros(count, dtype=torch.long)
    band, phase = torch.zeros(2, count, dtype=torch.float64)
    axes = [a for a in range(positions.shape[1]) if positions[:, a].min() < positions[:, a].max()]
    for most, number in itertools.product((_FEW_BANDS, _MOST_BANDS), axes):
        at = positions[:, number]
        # All waves on few candidate bands; on many, those that none of the few explains.
        is_wanted = (best_error > 1e-3 * lengths.amax(dim=0)) | (most == _FEW_BANDS)
        if not is_wanted.any() or (most == _MOST_BANDS and _num_candidates(at, most) <= _FEW_BANDS):
            continue
        todo = torch.nonzero(is_wanted)[:, 0]
        omega, angle = _band_and_phase(waves[:, todo], lengths[:, todo], at, most)
        model = _unit(at[:, None] * omega + angle)
        error = ((waves[:, todo] - model).abs() * lengths[:, todo]).amax(dim=0)
        better = error < best_error[todo]
        chosen = todo[better]
        best_error[chosen], axis[chosen] = error[better], number
        band[chosen], phase[chosen] = omega[better], angle[better]
    # Half a cycle from each position to the next is the same forwards and backwards.
    half_cycles = positions[:, axis] * band / math.pi
    apart = math.pi * (half_cycles - half_cycles.round()).abs().amax(dim=0)
    band = torch.where(apart < tolerance, band.abs(), band)
    return Waves(pairs, axis, band, phase, best_error, _NEAR * tolerance, raw or {})


def _num_candidates(at: Tensor, most: int) -> int:
    """Number of candidate bands, four for each that the positions can tell apart.

    Positions at equal distances tell no more bands apart than there are of them; others do.
    """
    values = at.unique() - at.min()
    cells = values / values.diff().min()
    if float((cells - cells.round()).abs().max()) > _IRREGULAR:
        return most
    return min(math.ceil(4 * float(cells[-1])) + 1, most)


def _band_and_phase(waves: Tensor, lengths: Tensor, at: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """The band that a wave correlates with most, and its phase at position 0."""
    extent, middle = float(at.max() - at.min()), float(at.mean())
    centered, weighted = (at - middle)[:, None], waves * lengths.square()
    candidates = _num_candidates(at, most)
    omegas = (torch.arange(candidates).double() - (candidates - 1) / 2) * math.pi / (2 * extent)
    coarse = torch.zeros(waves.shape[1], dtype=torch.float64)
    highest = torch.full_like(coarse, -1.0)
    for part in omegas.split(_CHUNK):
        height, index = (_unit(-part[:, None] * centered.T) @ weighted).abs().max(dim=0)
        coarse = torch.where(height > highest, part[index], coarse)
        highest = torch.maximum(highest, height)
    band, phase, error = _refined(waves, weighted, centered, coarse)
    # A position far from all others makes fringes, of which a candidate may have met another.
    gaps = at.unique().diff()
    is_far = float(gaps.max()) > max(extent / 4, _FAR * float(gaps.median()))
    for fringe in range(1, _FRINGES + 1) if is_far else ():
        for start in (
            coarse + fringe * 2 * math.pi / extent,
            coarse - fringe * 2 * math.pi / extent,
        ):
            if float(error.max()) < _RIGHT:
                break
            other, angle, left = _refined(waves, weighted, centered, start)
            # Waves that are equal at every position are one and the same: the nearest is kept.
            better = left < error / 2
            band, phase = torch.where(better, other, band), torch.where(better, angle, phase)
            error = torch.where(better, left, error)
    return band, phase - band * middle


def _refined(
    waves: Tensor, weighted: Tensor, centered: Tensor, band: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gauss-Newton steps from a candidate: band, phase, and the weighted mean square left over."""
    weights = (weighted * waves.conj()).real
    mean = (weights * centered).sum(dim=0) / weights.sum(dim=0)
    away = centered - mean
    for _ in range(_STEPS):
        phase = (weighted * _unit(-centered * band)).sum(dim=0).angle()
        # Angles that are left over have a slope along the positions: what the band lacks.
        left = (waves * _unit(-centered * band - phase)).angle()
        band = band + (weights * away * left).sum(dim=0) / (weights * away.square()).sum(dim=0)
    phase = (weighted * _unit(-centered * band)).sum(dim=0).angle()
    apart = (waves - _unit(centered * band + phase)).abs().square()
    return band, phase, (weights * apart).sum(dim=0) / weights.sum(dim=0)


def _unit(angle: Tensor) -> Tensor:
    """Complex numbers of length 1."""
    return torch.polar(torch.ones_like(angle), angle)
