"""Find out which encoding another implementation computes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Num
from torch import Tensor

from nerf_posenc.core.encoder import require_tensor
from nerf_posenc.identification.candidates import (
    Candidate,
    fourier_candidates,
    rotary_candidates,
    sinusoidal_candidates,
)

# Candidates are compared on this many tokens first.
_FEW = 12
_EXACT = 1e-4


@dataclass(frozen=True)
class Match:
    """An encoding that could have given the output.

    Attributes:
        name: of the preset that it is, or is nearest to.
        changes: what differs from the preset, in words; empty if nothing does.
        line: code that reproduces the output.
        error: largest difference from the output.
    """

    name: str
    changes: tuple[str, ...]
    line: str
    error: float

    @property
    def is_exact(self) -> bool:
        """Whether the error is below 1e-4, which float32 tables of a library explain."""
        return self.error < _EXACT

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
    Fourier encoders of `PRESETS` in every layout; otherwise the sinusoidal embeddings and
    `GRID_PRESETS`, or `ROTARY_PRESETS`.

    Args:
        output: of the other implementation, ``(length, width)``: one head of one sequence. 64
            positions are enough to tell the presets apart; on a grid of as many rows as columns
            axis orders may look alike.
        before: the query that became ``output``.
        shape: sizes of the grid that the tokens come from, row by row: ``(length,)``,
            ``(rows, columns)`` or ``(frames, rows, columns)``.
        positions: of the tokens instead of a shape, ``(length,)`` or ``(length, num_axes)``.
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
        candidates = fourier_candidates(output.shape[-1], positions, expected)
    else:
        candidates = sinusoidal_candidates(output.shape[-1], shape, positions, expected)
    return _nearest(output, candidates, count)


def _nearest(output: Tensor, candidates: Iterator[Candidate], count: int) -> list[Match]:
    few = torch.linspace(0, len(output) - 1, min(_FEW, len(output))).round().long()
    wanted = output[few]
    scored = [
        (float((candidate.evaluate(few) - wanted).abs().max()), _distance(candidate), i, candidate)
        for i, candidate in enumerate(candidates)
    ]
    if not scored:
        raise ValueError(
            f"no encoding of the presets has a width of {output.shape[-1]} on these positions"
        )
    rows = torch.arange(len(output))
    best = sorted(scored, key=_rank)[: max(4 * count, 20)]
    found = [
        (float((candidate.evaluate(rows) - output).abs().max()), changes, i, candidate)
        for _, changes, i, candidate in best
    ]
    return [
        Match(candidate.name, candidate.changes, candidate.line, error)
        for error, _, _, candidate in sorted(found, key=_rank)[:count]
    ]


def _distance(candidate: Candidate) -> float:
    """Number of changes from the preset; another width than the model's is half of one."""
    return len(candidate.changes) + 0.5 * (not candidate.is_own_width)


def _rank(scored: tuple[float, float, int, Candidate]) -> tuple[float, float, float, int]:
    """By error; those that are exact, by the number of changes."""
    error, changes, index, _ = scored
    return (0.0 if error < _EXACT else error, changes, error, index)
