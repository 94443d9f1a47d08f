"""``identify``: check its arguments, collect the candidates, and rank them by their differences."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Num
from torch import Tensor

from nerf_posenc.core.checks import require_tensor
from nerf_posenc_audit.asking import ask
from nerf_posenc_audit.candidates import Candidate, CandidateSearch
from nerf_posenc_audit.catalog.index import imports_of

# Positions at which a module is asked.
_ASKED = 64
# Candidates are compared on this many tokens first.
_FEW = 12
# Differences that the rounding of a library explains: of float32 tables, of half precision.
_HALF_TOLERANCE = {torch.bfloat16: 5e-2, torch.float16: 5e-3}
_TOLERANCE = 1e-4
_FAR_CLOSER = 4


@dataclass(frozen=True)
class Match:
    """An encoding that could have given the output.

    Attributes:
        name: name of the preset or the encoder that it is, or is nearest to.
        changes: differences from the preset, in words; empty if there are none.
        line: code that reproduces the output.
        error: largest difference from the output.
        tolerance: largest difference that rounding explains: 1e-4, and more for an output in half
            precision or at positions that float32 hardly resolves.
    """

    name: str
    changes: tuple[str, ...]
    line: str
    error: float
    tolerance: float = _TOLERANCE

    @property
    def is_exact(self) -> bool:
        """Whether rounding explains the error."""
        return self.error < self.tolerance

    def __str__(self) -> str:
        kind = self.name + (f" with {', '.join(self.changes)}" if self.changes else "")
        verdict = "is the encoding" if self.is_exact else "is not the encoding"
        lines = [self.line, *(f"# {statement}" for statement in imports_of(self.line))]
        code = "".join(f"\n    {line}" for line in lines)
        return f"{kind}: {verdict}, largest difference {self.error:.1e}{code}"


def identify(
    output: Float[Tensor, "length width"] | npt.NDArray[Any] | Callable[[Tensor], Tensor],
    *,
    before: Float[Tensor, "length width"] | npt.NDArray[Any] | None = None,
    shape: Sequence[int] | None = None,
    positions: Num[Tensor, "length *axes"] | None = None,
    expected: str | None = None,
    count: int = 5,
) -> list[Match]:
    """Find the encoding that reproduces an output: a preset, what differs from it, or its bands.

    For a rotary embedding give a query before and after; for an embedding or encoding of
    coordinates the output alone. Axis, band and phase of every pair of columns are measured from
    the output. They say in which axis order, pairing, base, scale and offset a preset gives it, and
    without a preset they are the arguments of an encoder. What depends on several axes at once,
    such as learned frequencies, is not found; nor is, without a preset, a rotation of columns in
    the middle of a head.

    Args:
        output: output of the other implementation, ``(length, width)``: one head of one sequence.
            20 positions are enough; on a grid of as many rows as columns axis orders may look
            alike. Or a module or function that gives it for positions, which are 0 to 63 if none
            are given; one that takes more or returns cosines and sines is called as `ask` does.
        before: the query that became ``output``.
        shape: sizes of the grid that the tokens come from, row by row: ``(length,)``,
            ``(rows, columns)`` or ``(frames, rows, columns)``; None with neither positions nor
            ``before`` is that of a sequence.
        positions: positions of the tokens instead of a shape, ``(length,)`` or ``(length,
            num_axes)``.
        expected: name of a preset; the matches then say what differs from it.
        count: number of matches.

    Returns:
        Matches, the nearest first; of equals the one with the fewest changes.

    Raises:
        TypeError: If ``output`` or ``before`` is no tensor.
        ValueError: If shapes do not fit, numbers are not finite, a preset is unknown, or no
            candidate has this width.

    Examples:
        >>> from nerf_posenc_attention import RotaryEncoder
        >>> queries = torch.randn(63, 64)
        >>> axes = torch.cartesian_prod(torch.arange(7), torch.arange(9))
        >>> output = RotaryEncoder(64, 2, base=100.0).rotate(queries, axes.flip(-1))
        >>> identify(output, before=queries, shape=(7, 9), expected="timm-rope")[0].changes
        ('base 100', 'axes in the order (1, 0)')
    """
    if callable(output) and not isinstance(output, Tensor):
        positions = torch.arange(_ASKED) if positions is None else positions
        output = _called(output, positions)
        if isinstance(output, Match):
            return [output]
    output = _as_tensor(output, "output")
    before = None if before is None else _as_tensor(before, "before")
    if shape is None and positions is None and before is None:
        # A table of positions, the most usual of all.
        shape = (len(output),)
    tolerance = _HALF_TOLERANCE.get(output.dtype, _TOLERANCE)
    output = output.detach().to("cpu", torch.float64)
    if output.ndim != 2 or (before is not None and before.shape != output.shape):
        raise ValueError(
            "output, and before, must have shape (length, width), one head of one sequence; got "
            f"{tuple(output.shape)}" + (f" and {tuple(before.shape)}" if before is not None else "")
        )
    if len(output) < 2:
        raise ValueError(f"output must have two rows or more; got {len(output)}")
    for name, given in (("output", output), ("before", before), ("positions", positions)):
        if given is not None and not bool(torch.as_tensor(given).isfinite().all()):
            raise ValueError(f"{name} must hold finite numbers")
        if name != "positions" and given is not None and not given.any():
            raise ValueError(f"{name} is 0 everywhere, from which nothing can be told")
    if isinstance(shape, int):
        shape = (shape,)
    if (shape is None) == (positions is None):
        raise ValueError("give either shape, the sizes of the grid, or positions, one for each row")
    length = math.prod(shape) if shape is not None else len(positions)  # type: ignore[arg-type]
    if length != len(output):
        raise ValueError(f"{length} positions for {len(output)} rows of output")
    if positions is not None:
        positions = torch.as_tensor(positions).detach().cpu()
        if bool((positions == positions[:1]).all()):
            raise ValueError("all positions are the same, from which nothing can be told")
        positions = positions.double() if positions.is_floating_point() else positions
    if before is not None:
        before = before.detach().to("cpu", torch.float64)
    search = CandidateSearch(output, before, shape, positions, tolerance)
    candidates = list(search.candidates(expected))
    # Angles in float32 are the less exact the further the position.
    if positions is not None:
        size = search.largest_band() if before is None else float(before.abs().max())
        tolerance += torch.finfo(torch.float32).eps * float(positions.abs().max()) * size
    return _nearest(output, candidates, count, tolerance)


def _as_tensor(values: Any, name: str) -> Tensor:
    """An array as a tensor."""
    values = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
    require_tensor(values, name)
    assert isinstance(values, Tensor)
    return values


def _called(module: Callable[..., Any], positions: Tensor) -> Any:
    """What a module gives for positions; a match where it takes or returns something else."""
    try:
        with torch.no_grad():
            output = module(positions)
    except Exception:
        output = None
    if isinstance(output, Tensor | np.ndarray):
        return output
    answer = ask(module)
    return Match(answer.name, (), answer.line, answer.unseen)


def _nearest(
    output: Tensor, candidates: list[Candidate], count: int, tolerance: float
) -> list[Match]:
    if not candidates:
        raise ValueError(
            f"no encoding of the presets has a width of {output.shape[-1]} and as many axes as "
            "these positions"
        )

    def ranked(rows: Tensor, found: list[Candidate]) -> list[tuple[Candidate, float]]:
        """By the mean difference; those that are exact, by the number of changes."""
        errors = [(candidate.evaluate(rows) - output[rows]).abs() for candidate in found]
        # Where the tolerance is large, one that is far closer than another is not its equal.
        least = min(float(error.max()) for error in errors)
        equal = min(tolerance, max(_TOLERANCE, _FAR_CLOSER * least))
        scored = []
        for index, (candidate, error) in enumerate(zip(found, errors, strict=True)):
            largest, mean = float(error.max()), float(error.mean())
            distance = len(candidate.changes) + candidate.handicap
            rank = (0.0 if largest < equal else mean, distance, index)
            scored.append((rank, candidate, largest))
        return [
            (candidate, largest) for _, candidate, largest in sorted(scored, key=lambda s: s[0])
        ]

    few = torch.linspace(0, len(output) - 1, min(_FEW, len(output))).round().long()
    best = [candidate for candidate, _ in ranked(few, candidates)[: max(4 * count, 20)]]
    matches: dict[str, Match] = {}
    for found, largest in ranked(torch.arange(len(output)), best):
        match = Match(found.name, found.changes, found.line, largest, tolerance)
        matches.setdefault(found.line, match)
    return list(matches.values())[:count]
