"""Encodings to compare an output with: presets and what is near to them."""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nerf_posenc.core.columns import LAYOUTS
from nerf_posenc.core.grids import grid_positions, patch_centers
from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.positional.rotary import RotaryEncoder
from nerf_posenc.positional.sinusoidal import SinusoidalEncoder
from nerf_posenc.positional.sinusoidal_grid import GridSinusoidalEncoder
from nerf_posenc.presets.fourier import FOURIER
from nerf_posenc.presets.grid import GRID
from nerf_posenc.presets.preset import Preset, find_preset
from nerf_posenc.presets.rotary import ROTARY

# Those of known models; a search for any base would find one that fits noise.
_BASES = (1e4, 100.0, 10.0, 256.0, 500.0, 1000.0, 2000.0, 2e4, 5e4, 1.5e5, 5e5, 1e6, 5e6, 1e7)
# Orders of the axes that are tried: all of 4 axes.
_MOST_ORDERS = 24
_OFFSETS = (0.0, 1.0, 0.5, -1.0, 2.0)


@dataclass(frozen=True, eq=False)
class Moves:
    """A rotary embedding of a query at several positions, which are evaluated together.

    Attributes:
        encoder: the embedding.
        before: query, ``(length, width)``.
        positions: positions of each move, ``(moves, length)`` or ``(moves, length, num_axes)``.
    """

    encoder: RotaryEncoder
    before: Tensor
    positions: Tensor

    def evaluate(self, move: int, rows: Tensor) -> Tensor:
        """The query, rotated at the positions of one move."""
        return self.encoder.rotate(self.before[rows], self.positions[move, rows])

    def differences(self, output: Tensor, rows: Tensor) -> list[tuple[float, float]]:
        """Largest and mean difference from the output, of each move."""
        before = self.before[rows].expand(len(self.positions), -1, -1)
        rotated = self.encoder.rotate(before, self.positions[:, rows])
        difference = (rotated - output[rows]).abs().flatten(1)
        return list(zip(difference.amax(1).tolist(), difference.mean(1).tolist(), strict=True))


class Candidate(NamedTuple):
    """An encoding to compare.

    Attributes:
        name: name of the preset.
        changes: words for each difference from the preset.
        line: code that reproduces the output.
        evaluate: function from the rows that are wanted to their output.
        is_own_width: whether the width is that of the preset's model.
        moves: evaluation of this candidate together with others; None if it stands alone.
        move: index of this candidate among them.
    """

    name: str
    changes: tuple[str, ...]
    line: str
    evaluate: Callable[[Tensor], Tensor]
    is_own_width: bool = True
    moves: Moves | None = None
    move: int = 0


def rotary_candidates(
    before: Tensor,
    output: Tensor,
    shape: Sequence[int] | None,
    positions: Tensor | None,
    expected: str | None,
) -> Iterator[Candidate]:
    """Rotary presets, with every order of axes, pairing, base, offset and way to count."""
    names = ROTARY if expected is None else {expected: find_preset(ROTARY, expected)}
    dim = before.shape[-1]
    # YaRN and LongRoPE scale what they rotate.
    ratio = output.norm(dim=-1) / before.norm(dim=-1)
    scale = float(ratio.mean())
    is_scaled = bool((ratio - scale).abs().max() < 1e-4) and abs(scale - 1) > 1e-4
    for name, preset in names.items():
        try:
            RotaryEncoder.preset(name, dim=dim)
        except ValueError:
            # The model's axes do not divide such a width.
            continue
        # From the outside in: how positions are counted, pairing and base, order and offset; what
        # differs in the last alone is evaluated in one call.
        for counted, code, own in _ways_to_count(name, preset, shape, positions):
            num_axes, moved = (1 if own.ndim == 1 else own.shape[-1]), _moved_positions(own)
            for arguments, words in _variations(preset, dim, scale if is_scaled else 1.0):
                try:
                    encoder = RotaryEncoder.preset(name, **arguments)
                except ValueError:
                    continue
                if encoder.in_dim != num_axes:
                    continue
                called = ", ".join(
                    [f'"{name}"'] + [f"{key}={value!r}" for key, value in arguments.items()]
                )
                together = Moves(encoder, before, moved)
                for i, move in enumerate(_moves(num_axes)):
                    yield Candidate(
                        name,
                        counted + words + move.changes,
                        f"RotaryEncoder.preset({called}).rotate(before, {code}{move.code})",
                        functools.partial(together.evaluate, i),
                        dim == preset.dim,
                        together,
                        i,
                    )


def _ways_to_count(
    name: str, preset: Preset, shape: Sequence[int] | None, positions: Tensor | None
) -> Iterator[tuple[tuple[str, ...], str, Tensor]]:
    """Words, code and positions: as the preset's model counts them, then in other ways."""
    if positions is not None:
        yield (), "positions", positions
        return
    assert shape is not None
    own = None
    try:
        own = preset.positions(shape)
        yield (), f'ROTARY["{name}"].positions({tuple(shape)})', own
    except ValueError:
        pass
    if len(shape) == 1:
        return
    indices = grid_positions(shape).flatten(0, -2)
    centers = patch_centers(shape, dtype=torch.float64).flatten(0, -2)
    for words, function, other in (
        ("positions counted by index", "grid_positions", indices),
        ("patch centers", "patch_centers", centers),
    ):
        if own is None or own.shape != other.shape or not torch.equal(own.double(), other.double()):
            yield (words,), f"{function}({tuple(shape)}).flatten(0, -2)", other


def _variations(
    preset: Preset, dim: int, scale: float
) -> Iterator[tuple[dict[str, object], tuple[str, ...]]]:
    """Arguments that differ from the preset's, with words for them."""
    own = preset.arguments
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


class _Move(NamedTuple):
    """Another order of the axes, and another place to count from."""

    order: tuple[int, ...]
    offset: Tensor
    changes: tuple[str, ...]
    code: str


@functools.cache
def _moves(num_axes: int) -> list[_Move]:
    """The axes in every order, and with offsets."""
    # All axes may be counted from elsewhere, or those of the image alone.
    offsets = [(o, [o] * num_axes) for o in _OFFSETS]
    if num_axes == 3:
        offsets += [(o, [0.0, o, o]) for o in _OFFSETS if o]
    moves = []
    for order in itertools.islice(itertools.permutations(range(num_axes)), _MOST_ORDERS):
        is_swapped = list(order) != sorted(order)
        for offset, added in offsets:
            words: list[str] = [f"axes in the order {order}"] if is_swapped else []
            code = f"[:, {list(order)}]" if is_swapped else ""
            if added != [offset] * num_axes:
                words.append(f"rows and columns {offset:+g}")
                code += f" + torch.tensor({added})"
            elif offset:
                words.append(f"positions {offset:+g}")
                code += f" + {offset:g}"
            moves.append(_Move(order, torch.tensor(added, dtype=torch.float64), tuple(words), code))
    return moves


def _moved_positions(positions: Tensor) -> Tensor:
    """Positions of all moves, one after the other."""
    axes = positions.double().reshape(len(positions), -1)
    moved = torch.stack([axes[:, list(m.order)] + m.offset for m in _moves(axes.shape[1])])
    return moved[..., 0] if positions.ndim == 1 else moved


def fourier_candidates(width: int, x: Tensor, expected: str | None) -> Iterator[Candidate]:
    """Fourier presets of this width, then encoders of every layout and base."""
    in_dim = x.shape[-1]
    ways: list[tuple[str, dict[str, Any]]] = [
        (name, {})
        for name, preset in FOURIER.items()
        if expected in (None, name) and preset.arguments.get("bands", 0) is not None
    ]
    if expected is None:
        ways += [
            ("", dict(layout=layout, phases=phases, base=base))
            for layout in LAYOUTS
            for phases in (("sin", "cos"), ("cos", "sin"))
            for base in (math.pi, 1.0, 2 * math.pi)
        ]
    for name, arguments in ways:
        own = FOURIER[name].arguments.get("include_input") if name else None
        for raw in dict.fromkeys((own, None, "front", "back")):
            # As many bands as the width leaves for sines and cosines of every axis.
            num_bands, rest = divmod(width - (in_dim if raw else 0), 2 * in_dim)
            if rest or num_bands < 1:
                continue
            shown = {**arguments} if raw == own else {**arguments, "include_input": raw}
            more = "".join(f", {key}={value!r}" for key, value in shown.items())
            if name:
                encoder = FourierEncoder.preset(name, in_dim, num_bands, **shown)
                made = f'FourierEncoder.preset("{name}", {in_dim}, {num_bands}{more})'
            else:
                encoder = FourierEncoder(in_dim, num_bands, **shown)
                made = f"FourierEncoder({in_dim}, {num_bands}{more})"
            yield Candidate(
                name or "FourierEncoder",
                tuple(f"{key} {value!r}" for key, value in shown.items()),
                f"{made}(x)",
                lambda rows, encoder=encoder: encoder(x[rows]),  # type: ignore[misc]
            )


def sinusoidal_candidates(
    width: int, shape: Sequence[int] | None, positions: Tensor | None, expected: str | None
) -> Iterator[Candidate]:
    """Sinusoidal embeddings of a sequence or a grid, with every order, base and offset."""
    if shape is not None and len(shape) > 1:
        yield from _table_candidates(width, shape, expected)
    if positions is None:
        assert shape is not None
        positions = grid_positions(shape).flatten(0, -2)
        positions = positions[:, 0] if len(shape) == 1 else positions
    if positions.ndim == 1:
        yield from _sequence_candidates(width, positions)
    else:
        yield from _grid_candidates(width, positions, expected)


def _table_candidates(
    width: int, shape: Sequence[int], expected: str | None
) -> Iterator[Candidate]:
    """Tables of the grid presets, whose positions depend on the size of the grid."""
    for name in GRID:
        if expected not in (None, name):
            continue
        try:
            table = GridSinusoidalEncoder.preset(name, width, len(shape)).table(shape)
        except ValueError:
            continue
        line = (
            f'GridSinusoidalEncoder.preset("{name}", {width}, {len(shape)}).table({tuple(shape)})'
        )
        yield Candidate(
            name,
            (),
            f"{line}.flatten(0, -2)",
            lambda rows, table=table: table.flatten(0, -2)[rows].double(),  # type: ignore[misc]
        )


def _grid_candidates(width: int, positions: Tensor, expected: str | None) -> Iterator[Candidate]:
    """Grid presets at the positions themselves."""
    num_axes = positions.shape[-1]
    names = [name for name in GRID if expected in (None, name)]
    orders = list(itertools.permutations(range(num_axes)))[:_MOST_ORDERS]
    for name, base in itertools.product(names, _BASES):
        own_base = GRID[name].arguments.get("base", _BASES[0])
        try:
            encoder = GridSinusoidalEncoder.preset(name, width, num_axes, base=base)
        except ValueError:
            continue
        start = float(GRID[name].arguments.get("start", 0))
        for order, offset in itertools.product(orders, dict.fromkeys((start, *_OFFSETS))):
            changes: list[str] = [] if base == own_base else [f"base {base:g}"]
            if list(order) != sorted(order):
                changes.append(f"axes in the order {order}")
            if offset != start:
                changes.append(f"positions from {offset:g} on")
            yield Candidate(
                name,
                tuple(changes),
                f'GridSinusoidalEncoder.preset("{name}", {width}, {num_axes}, base={base:g})'
                f"(positions[:, {list(order)}] + {offset:g})",
                lambda rows, encoder=encoder, at=positions[:, list(order)] + offset: (  # type: ignore[misc]
                    encoder(at[rows].double())
                ),
            )


def _sequence_candidates(width: int, positions: Tensor) -> Iterator[Candidate]:
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
        yield Candidate(
            name,
            changes + more,
            f"{line}({code})",
            lambda rows, encoder=encoder, at=positions + offset: encoder(at[rows].double()),  # type: ignore[misc]
        )
