"""Find out which encoding another implementation computes."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Num
from torch import Tensor

from nerf_posenc.core.columns import LAYOUTS
from nerf_posenc.core.encoder import require_tensor
from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.encoders.presets import PRESETS
from nerf_posenc.positional.grids import grid_positions, patch_centers
from nerf_posenc.positional.rotary import RotaryEncoder
from nerf_posenc.positional.rotary_presets import ROTARY_PRESETS, RotaryPreset, rotary_preset
from nerf_posenc.positional.sinusoidal import SinusoidalEncoder
from nerf_posenc.positional.sinusoidal_grid import GRID_PRESETS, GridSinusoidalEncoder

_BASES = (10_000.0, 100.0, 10.0, 256.0, 2000.0, 5e5, 1e6, 5e6)
_OFFSETS = (0.0, 1.0, 0.5, -1.0)
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
        >>> queries = torch.randn(63, 64)
        >>> axes = torch.cartesian_prod(torch.arange(7), torch.arange(9))
        >>> output = RotaryEncoder(64, 2, base=100.0).rotate(queries, axes.flip(-1))
        >>> best = identify(output, before=queries, shape=(7, 9))[0]
        >>> best.name, best.changes
        ('rope-vit-axial', ())
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
        candidates = _rotary_candidates(before, output, shape, positions, expected)
    elif positions is not None and positions.is_floating_point() and positions.ndim == 2:
        candidates = _fourier_candidates(output.shape[-1], positions, expected)
    else:
        candidates = _sinusoidal_candidates(output.shape[-1], shape, positions, expected)
    return _nearest(output, candidates, count)


@dataclass(frozen=True)
class _Candidate:
    """An encoding to compare: ``evaluate`` is given the rows that are wanted."""

    name: str
    changes: tuple[str, ...]
    line: str
    evaluate: Callable[[Tensor], Tensor]
    is_own_width: bool = True


def _nearest(output: Tensor, candidates: Iterator[_Candidate], count: int) -> list[Match]:
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


def _distance(candidate: _Candidate) -> float:
    """Number of changes from the preset; another width than the model's is half of one."""
    return len(candidate.changes) + 0.5 * (not candidate.is_own_width)


def _rank(scored: tuple[float, float, int, _Candidate]) -> tuple[float, float, float, int]:
    """By error; those that are exact, by the number of changes."""
    error, changes, index, _ = scored
    return (0.0 if error < _EXACT else error, changes, error, index)


def _rotary_candidates(
    before: Tensor,
    output: Tensor,
    shape: Sequence[int] | None,
    positions: Tensor | None,
    expected: str | None,
) -> Iterator[_Candidate]:
    names = ROTARY_PRESETS if expected is None else {expected: rotary_preset(expected)}
    dim = before.shape[-1]
    # YaRN and LongRoPE scale what they rotate.
    ratio = output.norm(dim=-1) / before.norm(dim=-1)
    scale = float(ratio.mean())
    is_scaled = bool((ratio - scale).abs().max() < 1e-4) and abs(scale - 1) > 1e-4
    for name, preset in names.items():
        for counted, own in _ways_to_count(preset, shape, positions):
            for arguments, words in _variations(preset, dim, scale if is_scaled else 1.0):
                try:
                    encoder = preset.encoder(**arguments)
                except ValueError:
                    continue
                if encoder.in_dim != (1 if own.ndim == 1 else own.shape[-1]):
                    continue
                called = ", ".join(
                    [f'"{name}"'] + [f"{key}={value!r}" for key, value in arguments.items()]
                )
                line = f"RotaryEncoder.preset({called})"
                is_own_width = dim == preset.dim
                yield from _moved(before, name, counted + words, line, encoder, own, is_own_width)


def _ways_to_count(
    preset: RotaryPreset, shape: Sequence[int] | None, positions: Tensor | None
) -> Iterator[tuple[tuple[str, ...], Tensor]]:
    """Positions as the preset's model counts them, then other ways."""
    if positions is not None:
        yield (), positions
        return
    assert shape is not None
    own = None
    try:
        own = preset.positions(shape)
        yield (), own
    except ValueError:
        pass
    if len(shape) == 1:
        return
    indices = grid_positions(shape).flatten(0, -2)
    centers = patch_centers(shape, dtype=torch.float64).flatten(0, -2)
    for words, other in (("positions counted by index", indices), ("patch centers", centers)):
        if own is None or own.shape != other.shape or not torch.equal(own.double(), other.double()):
            yield (words,), other


def _variations(
    preset: RotaryPreset, dim: int, scale: float
) -> Iterator[tuple[dict[str, object], tuple[str, ...]]]:
    """Arguments that differ from the preset's, with words for them."""
    own = preset.arguments(dim)
    pairings = [own.get("pairing", "interleaved")]
    pairings += [p for p in ("interleaved", "half", "axis-half") if p != pairings[0]]
    bases: list[float | None] = [None]
    if "bands" not in own:
        bases += [base for base in _BASES if base != own.get("base", 10_000.0)]
    for pairing, base in itertools.product(pairings, bases):
        arguments: dict[str, object] = {} if dim == preset.dim else {"dim": dim}
        words: list[str] = []
        if pairing != pairings[0]:
            arguments["pairing"] = pairing
            words.append(f"pairing {pairing!r}")
        if base is not None:
            arguments["base"] = base
            words.append(f"base {base:g}")
        if scale != 1:
            arguments["scale"] = scale
            words.append(f"scale {scale:g}")
        yield arguments, tuple(words)


def _moved(
    before: Tensor,
    name: str,
    words: tuple[str, ...],
    line: str,
    encoder: RotaryEncoder,
    positions: Tensor,
    is_own_width: bool,
) -> Iterator[_Candidate]:
    """The encoder at the positions with their axes in every order, and with offsets."""
    num_axes = 1 if positions.ndim == 1 else positions.shape[-1]
    for order in itertools.permutations(range(num_axes)):
        swapped = positions if num_axes == 1 else positions[:, list(order)]
        is_swapped = list(order) != sorted(order)
        for offset in _OFFSETS:
            changes = words
            code = "positions"
            if is_swapped:
                changes = (*changes, f"axes in the order {order}")
                code += f"[:, {list(order)}]"
            if offset:
                changes = (*changes, f"positions {offset:+g}")
                code += f" + {offset:g}"
            moved = swapped + offset if offset else swapped
            yield _Candidate(
                name,
                changes,
                f"{line}.rotate(before, {code})",
                lambda rows, encoder=encoder, moved=moved: encoder.rotate(  # type: ignore[misc]
                    before[rows], moved[rows].double()
                ),
                is_own_width,
            )


def _fourier_candidates(width: int, x: Tensor, expected: str | None) -> Iterator[_Candidate]:
    in_dim = x.shape[-1]
    names = [name for name in PRESETS if expected in (None, name)]
    ways = [(name, dict(PRESETS[name])) for name in names if PRESETS[name].get("bands", 0) == 0]
    if expected is None:
        ways += [
            ("FourierEncoder", dict(layout=layout, phases=phases, base=base))
            for layout in LAYOUTS
            for phases in (("sin", "cos"), ("cos", "sin"))
            for base in (math.pi, 1.0, 2 * math.pi)
        ]
    for name, arguments in ways:
        arguments.pop("variance_scale", None)
        for raw in dict.fromkeys((arguments.get("include_input"), None, "front", "back")):
            num_bands, rest = divmod(width - (in_dim if raw else 0), 2 * in_dim)
            if rest or num_bands < 1:
                continue
            changes: tuple[str, ...] = (
                () if raw == arguments.get("include_input") else (f"include_input {raw!r}",)
            )
            encoder = FourierEncoder(in_dim, num_bands, **{**arguments, "include_input": raw})
            if name == "FourierEncoder":
                shown = {**arguments, "include_input": raw}
                made = f"FourierEncoder({in_dim}, {num_bands}, " + _keywords(shown) + ")"
                changes = tuple(f"{key} {value!r}" for key, value in shown.items())
            else:
                more = {} if not changes else {"include_input": raw}
                made = f'FourierEncoder.preset("{name}", {in_dim}, {num_bands}' + "".join(
                    f", {key}={value!r}" for key, value in more.items()
                )
                made += ")"
            yield _Candidate(
                name,
                changes,
                f"{made}(x)",
                lambda rows, encoder=encoder: encoder(x[rows]),  # type: ignore[misc]
            )


def _keywords(arguments: dict[str, object]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in arguments.items())


def _sinusoidal_candidates(
    width: int, shape: Sequence[int] | None, positions: Tensor | None, expected: str | None
) -> Iterator[_Candidate]:
    if positions is None:
        assert shape is not None
        positions = grid_positions(shape).flatten(0, -2)
        positions = positions[:, 0] if len(shape) == 1 else positions
    if positions.ndim == 1:
        yield from _sequence_candidates(width, positions)
        return
    num_axes = positions.shape[-1]
    names = [name for name in GRID_PRESETS if expected in (None, name)]
    for name, order in itertools.product(names, itertools.permutations(range(num_axes))):
        swapped = positions[:, list(order)]
        for base in _BASES:
            try:
                encoder = GridSinusoidalEncoder.preset(name, width, num_axes, base=base)
            except ValueError:
                continue
            start = GRID_PRESETS[name].get("start", 0)
            for offset in dict.fromkeys((float(start), *_OFFSETS)):
                changes: list[str] = []
                if base != _BASES[0]:
                    changes.append(f"base {base:g}")
                if list(order) != sorted(order):
                    changes.append(f"axes in the order {order}")
                if offset != start:
                    changes.append(f"positions from {offset:g} on")
                code = f"positions[:, {list(order)}] + {offset:g}"
                yield _Candidate(
                    name,
                    tuple(changes),
                    f'GridSinusoidalEncoder.preset("{name}", {width}, {num_axes}, base={base:g})'
                    f"({code})",
                    lambda rows, encoder=encoder, at=swapped + offset: encoder(  # type: ignore[misc]
                        at[rows].double()
                    ),
                )


def _sequence_candidates(width: int, positions: Tensor) -> Iterator[_Candidate]:
    phase_orders = (("sin", "cos"), ("cos", "sin"))
    makers: list[tuple[str, tuple[str, ...], str, SinusoidalEncoder]] = []
    for base, split, phases in itertools.product(_BASES, (False, True), phase_orders):
        changes: tuple[str, ...] = (f"base {base:g}",) if base != _BASES[0] else ()
        changes += ("split",) if split else ()
        changes += ("cosines first",) if phases[0] == "cos" else ()
        line = f"SinusoidalEncoder({width}, base={base:g}, split={split}, phases={phases})"
        encoder = SinusoidalEncoder(width, base=base, split=split, phases=phases)  # type: ignore[arg-type]
        makers.append(("sinusoidal", changes, line, encoder))
    if width >= 4:
        for flip in (False, True):
            line = f"SinusoidalEncoder.timestep({width}, flip={flip})"
            changes = ("flip",) if flip else ()
            makers.append(("timestep", changes, line, SinusoidalEncoder.timestep(width, flip=flip)))
    for (name, changes, line, encoder), offset in itertools.product(makers, _OFFSETS):
        more = (f"positions {offset:+g}",) if offset else ()
        code = f"positions + {offset:g}" if offset else "positions"
        yield _Candidate(
            name,
            changes + more,
            f"{line}({code})",
            lambda rows, encoder=encoder, at=positions + offset: encoder(at[rows].double()),  # type: ignore[misc]
        )
