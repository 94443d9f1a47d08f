"""Find out which encoding another implementation computes."""

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Num
from torch import Tensor

from nerf_posenc.core.encoder import require_tensor
from nerf_posenc.identification.candidates import (
    Candidate,
    Moves,
    fourier_candidates,
    rotary_candidates,
    sinusoidal_candidates,
)

# Candidates are compared on this many tokens first.
_FEW = 12
# Differences that the rounding of a library explains: of float32 tables, of half precision.
_EXACT = {torch.bfloat16: 5e-2, torch.float16: 5e-3}
_EXACT_FLOAT32 = 1e-4


@dataclass(frozen=True)
class Match:
    """An encoding that could have given the output.

    Attributes:
        name: name of the preset that it is, or is nearest to.
        changes: what differs from the preset, in words; empty if nothing does.
        line: code that reproduces the output.
        error: largest difference from the output.
        tolerance: largest difference that rounding explains: 1e-4, and more for an output in half
            precision.
    """

    name: str
    changes: tuple[str, ...]
    line: str
    error: float
    tolerance: float = _EXACT_FLOAT32

    @property
    def is_exact(self) -> bool:
        """Whether rounding explains the error."""
        return self.error < self.tolerance

    def __str__(self) -> str:
        kind = self.name + (f" with {', '.join(self.changes)}" if self.changes else "")
        verdict = "is it" if self.is_exact else "is not it"
        return f"{kind}: {verdict}, largest difference {self.error:.1e}\n    {self.line}"


def identify(
    output: Float[Tensor, "length width"],
    *,
    before: Float[Tensor, "length width"] | None = None,
    shape: Sequence[int] | None = None,
    positions: Num[Tensor, "length *axes"] | None = None,
    expected: str | None = None,
    count: int = 5,
) -> list[Match]:
    """Find the preset, axis order, pairing, base and offset that reproduce an output.

    For a rotary embedding give a query before and after; for an embedding or encoding of
    coordinates the output alone. With real coordinates as ``positions`` the candidates are the
    Fourier encoders of `nerf_posenc.presets.FOURIER` in every layout, and sinusoidal embeddings;
    otherwise these and `GRID`, or `ROTARY`.

    Args:
        output: what the other implementation gave, ``(length, width)``: one head of one sequence.
            64 positions are enough to tell the presets apart; on a grid of as many rows as columns
            axis orders may look alike.
        before: the query that became ``output``.
        shape: sizes of the grid that the tokens come from, row by row: ``(length,)``,
            ``(rows, columns)`` or ``(frames, rows, columns)``.
        positions: positions of the tokens instead of a shape, ``(length,)`` or ``(length,
            num_axes)``.
        expected: name of a preset; the matches then say what differs from it.
        count: number of matches.

    Returns:
        Matches, the nearest first; of equals the one with the fewest changes.

    Raises:
        TypeError: If ``output`` is no tensor.
        ValueError: If shapes do not fit, a preset is unknown, or no candidate has this width.

    Examples:
        >>> from nerf_posenc import RotaryEncoder
        >>> queries = torch.randn(63, 64)
        >>> axes = torch.cartesian_prod(torch.arange(7), torch.arange(9))
        >>> output = RotaryEncoder(64, 2, base=100.0).rotate(queries, axes.flip(-1))
        >>> identify(output, before=queries, shape=(7, 9), expected="timm")[0].changes
        ('base 100', 'axes in the order (1, 0)')
    """
    require_tensor(output, "output")
    tolerance = _EXACT.get(output.dtype, _EXACT_FLOAT32)
    output = output.detach().to("cpu", torch.float64)
    if output.ndim != 2 or (before is not None and before.shape != output.shape):
        raise ValueError(
            "output, and before, must have shape (length, width), one head of one sequence; got "
            f"{tuple(output.shape)}" + (f" and {tuple(before.shape)}" if before is not None else "")
        )
    if (shape is None) == (positions is None):
        raise ValueError("give either shape, the sizes of the grid, or positions")
    length = math.prod(shape) if shape is not None else len(positions)  # type: ignore[arg-type]
    if length != len(output):
        raise ValueError(f"{length} positions for {len(output)} rows of output")
    if positions is not None:
        positions = positions.detach().cpu()
        positions = positions.double() if positions.is_floating_point() else positions
    if before is not None:
        before = before.detach().to("cpu", torch.float64)
        candidates = rotary_candidates(before, output, shape, positions, expected)
    elif positions is not None and positions.is_floating_point() and positions.ndim == 2:
        width = output.shape[-1]
        candidates = itertools.chain(
            fourier_candidates(width, positions, expected),
            sinusoidal_candidates(width, None, positions, expected),
        )
    else:
        candidates = sinusoidal_candidates(output.shape[-1], shape, positions, expected)
    return _nearest(output, candidates, count, tolerance)


def _nearest(
    output: Tensor, candidates: Iterator[Candidate], count: int, tolerance: float
) -> list[Match]:
    few = torch.linspace(0, len(output) - 1, min(_FEW, len(output))).round().long()
    scored: list[tuple[tuple[float, float], int, Candidate]] = []
    known: dict[Moves, list[tuple[float, float]]] = {}

    def score(candidate: Candidate) -> tuple[float, float]:
        """Largest and mean difference on the few tokens."""
        if candidate.moves is None:
            return _differences(candidate, output, few)
        if candidate.moves not in known:
            known[candidate.moves] = candidate.moves.differences(output, few)
        return known[candidate.moves][candidate.move]

    # Candidates with fewer changes rank before all others if they are exact: they end the search.
    by_changes: dict[float, list[tuple[int, Candidate]]] = {}
    for found in enumerate(candidates):
        by_changes.setdefault(_distance(found[1]), []).append(found)
    for _, group in sorted(by_changes.items()):
        scored += [(score(candidate), i, candidate) for i, candidate in group]
        if any(largest < tolerance for (largest, _), _, _ in scored):
            break
    if not scored:
        raise ValueError(
            f"no encoding of the presets has a width of {output.shape[-1]} and as many axes as "
            "these positions"
        )

    def rank(found: tuple[tuple[float, float], int, Candidate]) -> tuple[float, float, int]:
        """By the mean difference; those that are exact, by the number of changes."""
        (largest, mean), index, candidate = found
        return (0.0 if largest < tolerance else mean, _distance(candidate), index)

    rows = torch.arange(len(output))
    best = heapq.nsmallest(max(4 * count, 20), scored, key=rank)
    measured = [(_differences(c, output, rows), i, c) for _, i, c in best]
    return [
        Match(candidate.name, candidate.changes, candidate.line, largest, tolerance)
        for (largest, _), _, candidate in sorted(measured, key=rank)[:count]
    ]


def _differences(candidate: Candidate, output: Tensor, rows: Tensor) -> tuple[float, float]:
    """Largest and mean difference from the output."""
    difference = (candidate.evaluate(rows) - output[rows]).abs()
    return float(difference.max()), float(difference.mean())


def _distance(candidate: Candidate) -> float:
    """Number of changes from the preset; another width than the model's is half of one."""
    return len(candidate.changes) + 0.5 * (not candidate.is_own_width)
