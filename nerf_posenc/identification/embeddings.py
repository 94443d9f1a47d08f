"""Sinusoidal embeddings and Fourier encodings to compare an output with."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nerf_posenc.core.columns import LAYOUTS, column_labels
from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.identification.position_transforms import (
    CLOSE,
    NOISE,
    UNNAMED,
    Bands,
    Candidate,
    Counted,
    Motion,
    Slots,
    counted,
    find_bases,
    find_motion,
    nice,
    shown,
    values_of,
    words,
)
from nerf_posenc.identification.tables import sinusoid_columns
from nerf_posenc.identification.waves import Waves, measure_embedding
from nerf_posenc.positional.sinusoidal import SinusoidalEncoder
from nerf_posenc.positional.sinusoidal_grid import GridSinusoidalEncoder
from nerf_posenc.presets.catalog import PRESETS, encoder_of, preset
from nerf_posenc.presets.fourier import FOURIER
from nerf_posenc.presets.grid import GRID
from nerf_posenc.presets.row import PresetTable
from nerf_posenc.presets.sequence import SEQUENCE

_MOST_OCTAVES = 64
_PHASES: tuple[tuple[str, str], ...] = (("sin", "cos"), ("cos", "sin"))


class _Made(NamedTuple):
    """An encoder, how it was made, and the same with another base."""

    name: str
    changes: tuple[str, ...]
    code: str
    encoder: Any
    rebased: Callable[[float], "_Made"] | None = None
    handicap: float = 0.0


class _Arrangement(NamedTuple):
    """Order of the columns, and the bands ``(num_bands, num_axes)`` that they have."""

    layout: str
    phases: tuple[str, str]
    include_input: str | None
    order: tuple[int, ...]
    bands: Tensor


def embedding_candidates(
    output: Tensor,
    shape: Sequence[int] | None,
    positions: Tensor | None,
    expected: str | None,
    tolerance: float,
) -> Iterator[Candidate]:
    """Presets as they are and with what was measured to differ, then what was measured."""
    if expected is not None:
        expected = PresetTable({**FOURIER, **GRID, **SEQUENCE}).canonical(expected)
    plain = counted(shape, positions)
    width, num_axes = output.shape[1], plain.axes.shape[1]
    waves = measure_embedding(output, plain.axes, tolerance)
    if waves is not None and not waves.raw and abs(waves.amplitude - 1) > tolerance:
        # Some libraries multiply by a constant, as by 1 / sqrt(width).
        factor = nice(waves.amplitude, waves.near)
        rest = embedding_candidates(output / factor, shape, positions, expected, tolerance)
        yield from (candidate.times(factor) for candidate in rest)
        return
    arranged = [] if waves is None else _arrangements(waves, width, num_axes)
    for made in _presets(width, num_axes, expected, arranged):
        if shape is not None and isinstance(made.encoder, GridSinusoidalEncoder):
            # Tables have positions of their own, which depend on the size of the grid.
            yield _table(made, tuple(shape))
            own = made.encoder.positions(shape).flatten(0, -2)
            at = Counted(own, f"{made.code}.positions({tuple(shape)}).flatten(0, -2)")
            found = measure_embedding(output, at.axes, tolerance)
        else:
            yield _moved(made, Motion.none(num_axes), plain)
            at, found = plain, waves
        if found is not None:
            yield from _changed(made, found, at)
    if expected is None:
        yield from _unnamed(arranged, plain)
        if waves is not None and not arranged:
            yield from _reordered(waves, width, plain)


def _table(made: _Made, shape: tuple[int, ...]) -> Candidate:
    table = made.encoder.table(shape).flatten(0, -2).double()
    line = f"{made.code}.table({shape}).flatten(0, -2)"
    return Candidate(made.name, made.changes, line, lambda rows: table[rows])


def _moved(made: _Made, motion: Motion, own: Counted) -> Candidate:
    """An encoder at moved positions."""
    at, encoder = motion.moved(own), made.encoder
    positions, code = at.axes, at.code
    if isinstance(encoder, SinusoidalEncoder):
        positions = positions[:, 0]
        code += "[:, 0]" if at.positions.ndim == 2 else ""
    elif at.positions.ndim == 1:
        code += "[:, None]"
    if isinstance(encoder, FourierEncoder) and not own.positions.is_floating_point():
        code += ".float()"
    code = f"({at.code}){code[len(at.code) :]}" if code != at.code else code
    return Candidate(
        made.name,
        made.changes + motion.changes,
        f"{made.code}({code})",
        lambda rows: encoder(positions[rows]),
        made.handicap,
    )


def _presets(
    width: int, num_axes: int, expected: str | None, arranged: list[_Arrangement]
) -> Iterator[_Made]:
    """Presets of this width and number of axes; Fourier ones also with the measured columns."""
    for name, row in FOURIER.items():
        if expected not in (None, name) or row.arguments.get("bands", 0) is None:
            continue
        own = {"layout": "akp", "phases": ("sin", "cos"), "include_input": None}
        own |= {key: row.arguments[key] for key in own if key in row.arguments}
        measured = [{key: getattr(other, key) for key in own} for other in arranged]
        for columns in [own, *(measured[:1] if own not in measured else [])]:
            raw = num_axes if columns["include_input"] else 0
            num_bands, rest = divmod(width - raw, 2 * num_axes)
            # Octaves beyond float32's are no encoding of coordinates.
            if rest == 0 and 0 < num_bands <= _MOST_OCTAVES:
                changed = {key: value for key, value in columns.items() if value != own[key]}
                yield _made(name, (num_axes, num_bands), changed)
    for name in GRID if num_axes > 1 else ():
        if expected in (None, name):
            try:
                yield _made(name, (width, num_axes), {})
            except ValueError:
                # The model's grid has another number of axes.
                continue
    for name in SEQUENCE if num_axes == 1 and width >= 4 else ():
        if expected in (None, name):
            yield _made(name, (width, num_axes), {})


def _made(name: str, sizes: tuple[int, int], arguments: dict[str, Any]) -> _Made:
    """The encoder of a preset, with what differs from it."""
    kind, own = encoder_of(name), PRESETS[name].arguments
    given = sizes[:1] if kind is SinusoidalEncoder else sizes

    def rebased(base: float) -> _Made:
        # Bands of a Fourier encoder are multiples of the base.
        base = base * own.get("base", math.pi) if kind is FourierEncoder else base
        return _made(name, sizes, {**arguments, "base": float(base)})

    return _Made(
        name,
        words(arguments),
        f'{kind.__name__}.preset("{name}", {", ".join(map(str, given))}{shown(arguments)})',
        preset(name, *given, **arguments),
        None if "bands" in own else rebased,
    )


def _changed(made: _Made, waves: Waves, own: Counted) -> Iterator[Candidate]:
    """An encoder at moved positions and with another base, as measured."""
    reference = Slots.of(sinusoid_columns(made.encoder))
    # Positions may also be counted backwards.
    backwards = _measured(waves, len(reference.axis), is_signed=True)
    motion = find_motion(reference, backwards, own, waves.near)
    if motion is not None and min(motion.factor) < 0:
        yield _moved(made, motion, own)
    measured = _measured(waves, len(reference.axis))
    motion = find_motion(reference, measured, own, waves.near)
    if motion is not None:
        yield _moved(made, motion, own)
    if made.rebased is None or motion is None:
        return
    if not isinstance(made.encoder, FourierEncoder):
        bases = find_bases(reference, measured, own.extent, getattr(made.encoder, "base", 10_000.0))
        for base in bases:
            yield from _changed(made.rebased(base)._replace(rebased=None), waves, own)
    elif len(set(motion.factor)) == 1 and motion.factor[0] != 1:
        yield _moved(
            made.rebased(motion.factor[0]),
            Motion(motion.order, Motion.none(len(motion.order)).factor, motion.offset),
            own,
        )


def _measured(waves: Waves, width: int, *, is_signed: bool = False) -> Slots:
    """The sine that each column was measured to be, of a positive band if not signed."""
    slots = Slots.unknown(width)
    parts = (waves.axis, waves.band, waves.phase)
    for (a, b), axis, band, phase in zip(waves.pairs, *map(Tensor.tolist, parts), strict=True):
        # cos(t) = sin(t + pi / 2); a wave that runs backwards: sin(t) = sin(pi - t).
        for column, angle in ((a, phase), (b, phase + math.pi / 2)):
            if column < width:
                is_reversed = band < 0 and not is_signed
                slots.fill(
                    column,
                    axis,
                    -band if is_reversed else band,
                    math.pi - angle if is_reversed else angle,
                )
    return slots


def _arrangements(waves: Waves, width: int, num_axes: int) -> list[_Arrangement]:
    """Layouts in which a Fourier encoder has the measured columns."""
    raw = tuple(sorted(column for column, axis in waves.raw.items() if axis >= 0))
    sides = {(): None, tuple(range(num_axes)): "front", tuple(range(width))[-num_axes:]: "back"}
    num_bands, rest = divmod(width - len(raw), 2 * num_axes)
    if float(waves.error.max()) > NOISE or raw not in sides or rest:
        return []
    first = num_axes if sides[raw] == "front" else 0
    columns = _phases(waves)
    found = []
    for layout, phases in itertools.product(LAYOUTS, _PHASES):
        bands = torch.full((num_bands, num_axes), math.nan, dtype=torch.float64)
        order: dict[int, int] = {}
        for column, (k, phase, a) in enumerate(column_labels(num_axes, num_bands, layout, phases)):
            axis, band, measured = columns.get(first + column, (0, 0.0, ""))
            known = float(bands[k, a])
            is_same = math.isnan(known) or abs(known - band) <= CLOSE * max(abs(known), CLOSE)
            if measured != phase or order.setdefault(a, axis) != axis or not is_same:
                break
            bands[k, a] = band
        else:
            axes = tuple(order[a] for a in range(num_axes))
            if len(set(axes)) == num_axes:
                found.append(_Arrangement(layout, phases, sides[raw], axes, bands))
    return found


def _phases(waves: Waves) -> dict[int, tuple[int, float, str]]:
    """Axis, band and phase of each column.

    A cosine first is a wave that runs backwards from pi / 2. Where positions begin elsewhere, so
    that phases do not tell, all bands are taken to be positive.
    """
    quarters = (waves.phase / (math.pi / 2)).remainder(4)
    tells = bool(((quarters.round() - quarters).abs() < NOISE).all())
    tells &= bool((quarters.round().remainder(4) <= 1).all())
    columns = {}
    parts = (waves.axis, waves.band, quarters.round())
    for pair, axis, band, quarter in zip(waves.pairs, *map(Tensor.tolist, parts), strict=True):
        is_cosine_first = quarter == 1 if tells else band < 0
        for column, phase in zip(pair, _PHASES[is_cosine_first], strict=True):
            columns[column] = (axis, -band if is_cosine_first else band, phase)
    return columns


def _unnamed(arranged: list[_Arrangement], own: Counted) -> Iterator[Candidate]:
    """A Fourier encoder with the measured bands, in the layout that comes first."""
    num_axes = own.axes.shape[1]
    still = Motion.none(num_axes)
    for layout, phases, include_input, order, bands in arranged[:1]:
        is_same = torch.allclose(bands, bands[:, :1].expand_as(bands), rtol=CLOSE)
        arguments: dict[str, Any] = {"layout": layout, "phases": phases}
        arguments |= {"include_input": include_input} if include_input else {}
        arguments["bands"] = Bands(bands[:, 0] if is_same else bands)
        code = f"FourierEncoder({num_axes}{shown(arguments)})"
        encoder = FourierEncoder(num_axes, **values_of(arguments))
        made = _Made("FourierEncoder", (), code, encoder, None, UNNAMED)
        yield _moved(made, Motion(order, still.factor, still.offset), own)


def _reordered(waves: Waves, width: int, own: Counted) -> Iterator[Candidate]:
    """One band for each pair of columns, where no layout has their order."""
    if waves.raw or width % 2 or float(waves.error.max()) > NOISE:
        return
    columns = _phases(waves)
    sines = [a if columns[a][2] == "sin" else b for a, b in waves.pairs]
    cosines = [a + b - sine for (a, b), sine in zip(waves.pairs, sines, strict=True)]
    axes, bands, _ = zip(*(columns[sine] for sine in sines), strict=True)
    # The encoder has the sine and the cosine of each pair side by side.
    position = {
        column: i for i, column in enumerate(itertools.chain(*zip(sines, cosines, strict=True)))
    }
    order = [position[column] for column in range(width)]
    arguments = {"bands": Bands(torch.tensor([bands], dtype=torch.float64)), "layout": "apk"}
    encoder = FourierEncoder(len(axes), **values_of(arguments))
    code = f"FourierEncoder({len(axes)}{shown(arguments)})"
    positions = own.axes[:, list(axes)]
    at = own.code if own.positions.ndim == 2 else f"{own.code}[:, None]"
    at += "" if own.positions.is_floating_point() else ".float()"
    yield Candidate(
        "FourierEncoder",
        ("columns in another order",),
        f"{code}({at}[:, {list(axes)}])[:, {order}]",
        lambda rows: encoder(positions[rows])[:, order],
        UNNAMED,
    )
