"""Encodings that could have given an output, looked for in this order.

1. Units: a constant factor of all columns, and which columns form pairs (`measurement`).
2. Every preset that can have this width, with its own order of columns and the measured one.
3. The positions as the preset's model counts them, and as the caller does; at both, axis, band and
   phase of each pair are measured (`measurement`).
4. The base, the order of the axes, and the factor and offset of the positions with which the
   preset has these waves (`position_transforms`).
5. Without a preset: the measured bands.
"""

import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nerf_posenc.core.columns import LAYOUTS, column_labels
from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.encoders.sinusoidal import SinusoidalEncoder
from nerf_posenc.encoders.sinusoidal_grid import GridSinusoidalEncoder
from nerf_posenc.presets.fourier import FOURIER
from nerf_posenc.presets.grid import GRID
from nerf_posenc.presets.row import PresetTable
from nerf_posenc.presets.sequence import SEQUENCE
from nerf_posenc_attention.presets.rotary import ROTARY
from nerf_posenc_attention.rotary import RotaryEncoder
from nerf_posenc_audit.catalog.presets import PRESETS, preset
from nerf_posenc_audit.lines import SAME_BAND, arguments_code, bracketed
from nerf_posenc_audit.measurement import Waves, find_rotated_pairs, find_sine_pairs
from nerf_posenc_audit.position_transforms import (
    Positions,
    PositionTransform,
    find_bases,
    find_transform,
    simple_number,
)
from nerf_posenc_audit.series import name_bands
from nerf_posenc_audit.tables import rotation_pairs, sinusoid_columns

# Differences with which pairs are found although far positions are rounded.
_ROUGH = 0.01
# Largest difference from the output of a column whose band is right.
_NOISE = 0.05
# Differences of the lengths from one factor of all of them that rounding of float32 explains; of
# half precision, a tenth of its tolerance.
_SCALE_NOISE = 1e-4
# A preset with this many changes is still a better answer than an encoder without a name.
_WORTH_A_NAME = 2.5
# A model with heads of this width is a better answer than one with others.
_OTHER_WIDTH = 0.5
# Octaves beyond float32's are no encoding of coordinates.
_MOST_OCTAVES = 64
# Base of the encoders that take one, where a preset gives none.
_BASE = 10_000.0
_SIN_COS = ("sin", "cos")


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


class _Encoder(NamedTuple):
    """An encoder and the code that makes it; with a preset, how it differs from it."""

    name: str
    encoder: Any
    code: str
    handicap: float
    sizes: tuple[int, ...] = ()
    changed: dict[str, Any] = {}  # noqa: RUF012

    @classmethod
    def of_preset(
        cls, name: str, sizes: tuple[int, ...], changed: dict[str, Any], handicap: float = 0.0
    ) -> "_Encoder":
        """Raises ValueError if the preset does not have these sizes."""
        made = preset(name, *sizes, **changed)
        given = "".join(f", {size}" for size in sizes) + arguments_code(changed)
        code = f'{type(made).__name__}.preset("{name}"{given})'
        return cls(name, made, code, handicap, sizes, changed)

    @classmethod
    def without_preset(cls, kind: type, *sizes: int, **arguments: Any) -> "_Encoder":
        """Made from arguments alone."""
        code = f"{kind.__name__}({', '.join(map(str, sizes))}{arguments_code(arguments)})"
        return cls(kind.__name__, kind(*sizes, **arguments), code, _WORTH_A_NAME)

    def with_base(self, base: float) -> "_Encoder":
        """The same preset with another base."""
        changed = {**self.changed, "base": base}
        return self.of_preset(self.name, self.sizes, changed, self.handicap)

    @property
    def series_base(self) -> float | None:
        """The base that its bands are powers of; None if they have another series."""
        own = PRESETS[self.name].arguments
        is_series = "frequencies" not in own and not isinstance(self.encoder, FourierEncoder)
        return own.get("base", _BASE) if is_series else None

    @property
    def waves(self) -> Waves | None:
        """Waves of its pairs, or of its columns where it rotates nothing; None if it has none."""
        if isinstance(self.encoder, RotaryEncoder):
            if self.encoder.pairing == "tiled":
                return None
            table = [(pair.axis, pair.band, 0.0) for pair in rotation_pairs(self.encoder)]
        else:
            # A column that is a coordinate has no band.
            table = [
                (column.axis, math.nan if column.band is None else column.band, column.phase)
                for column in sinusoid_columns(self.encoder)
            ]
        axis, *rest = torch.tensor(table, dtype=torch.float64).T
        return Waves(axis.long(), *rest)


class CandidateSearch:
    """The search for the encodings that could have given an output.

    Args:
        output: ``(length, width)``, in float64.
        before: the query of a rotary embedding, likewise; None for an embedding.
        shape: sizes of the grid of tokens; None if positions are given.
        positions: ``(length,)`` or ``(length, num_axes)``.
        tolerance: largest difference that rounding explains.
    """

    def __init__(
        self,
        output: Tensor,
        before: Tensor | None,
        shape: Sequence[int] | None,
        positions: Tensor | None,
        tolerance: float,
    ) -> None:
        self._output, self._before, self._tolerance = output, before, tolerance
        self._shape = None if shape is None else tuple(shape)
        self._plain = Positions.of(shape, positions)
        self._width, self._num_axes = output.shape[1], self._plain.axes.shape[1]
        self._known: dict[bytes, tuple[Waves, float]] = {}
        # YaRN and LongRoPE scale what they rotate; some libraries multiply embeddings by a
        # constant, as by 1 / sqrt(width).
        self._factor, self._scale = 1.0, 1.0
        if before is not None:
            is_moved = ((output - before).abs() > tolerance).any(dim=0)
            ratio = output[:, is_moved].norm(dim=-1) / before[:, is_moved].norm(dim=-1)
            scale = float(ratio.mean())
            spread = float((ratio - scale).abs().max())
            if spread < max(_SCALE_NOISE, tolerance / 10) < abs(scale - 1):
                self._scale = scale
            self._pairs = find_rotated_pairs(before, output, self._scale, tolerance)
        elif (found := find_sine_pairs(output, self._plain.axes, tolerance)) is not None:
            self._pairs, amplitude = found
            if not self._pairs.coordinates and abs(amplitude - 1) > tolerance:
                self._factor = simple_number(amplitude, tolerance)
        else:
            self._pairs = None

    def candidates(self, expected: str | None) -> Iterator[Candidate]:
        """Presets as they are and with what was measured to differ, then the bands themselves.

        Args:
            expected: name of the only preset to look at; None for all.

        Raises:
            ValueError: If there is no such preset of this kind.
        """
        arranged = self._fourier_arrangement() if self._before is None else None
        found = (
            self._rotary(expected) if self._before is not None else self._sines(expected, arranged)
        )
        for made in found:
            for at, counting in self._countings(made):
                none = PositionTransform.none(at.axes.shape[1])
                for changed, transform in ((made, none), *self._differing(made, at)):
                    yield self._candidate(changed, transform, at, counting)
        if expected is None:
            yield from self._measured(arranged)

    def _measured(self, arranged: dict[str, Any] | None) -> Iterator[Candidate]:
        """Encoders without a preset, from what was measured."""
        if self._before is not None and self._pairs is not None:
            yield from self._measured_rotation()
        elif arranged is not None:
            yield self._measured_fourier(arranged)

    def largest_band(self) -> float:
        """Largest band of an embedding, 1 or more, in radians per unit; 1 if it is none.

        Measured with room for the rounding of far positions, which it is asked for.
        """
        found = find_sine_pairs(self._output, self._plain.axes, _ROUGH)
        waves = found[0].waves(self._plain.axes)[0] if found else None
        return 1.0 if waves is None else max(1.0, float(waves.band.abs().max()))

    def _waves(self, at: Positions) -> tuple[Waves, float] | None:
        """Measure once for all presets that count alike."""
        if self._pairs is None:
            return None
        key = at.axes.numpy().tobytes()
        if key not in self._known:
            self._known[key] = self._pairs.waves(at.axes)
        return self._known[key]

    def _candidate(
        self, made: _Encoder, transform: PositionTransform, own: Positions, counting: str
    ) -> Candidate:
        """An encoder at transformed positions."""
        encoder, before, factor = made.encoder, self._before, self._factor
        at = transform.of(own)
        changes = [
            f"{k} {v:g}" if isinstance(v, float) else f"{k} {v!r}" for k, v in made.changed.items()
        ]
        changes += [*transform.changes, *([counting] if counting else [])]
        if before is not None:
            line = f"{made.code}.rotate(before, {at.code})"
            return Candidate(
                made.name,
                tuple(changes),
                line,
                lambda rows: encoder.rotate(before[rows], at.values[rows]),
                made.handicap,
            )
        # A sequence has positions (length,), coordinates are real numbers (length, num_axes).
        is_sequence = isinstance(encoder, SinusoidalEncoder)
        positions = at.axes[:, 0] if is_sequence else at.axes
        form = {(1, False): "[:, None]", (2, True): "[:, 0]"}.get((at.values.ndim, is_sequence), "")
        is_real = isinstance(encoder, FourierEncoder)
        if is_real and not at.values.is_floating_point():
            form += ".float()"
        line = f"{made.code}({bracketed(at.code) if form else at.code}{form})"
        table = own.code.replace(f"{made.code}.positions(", f"{made.code}.table(")
        if at.code == own.code != table:
            line = table
        if factor != 1:
            line = f"{factor:.10g} * {line}"
            changes.append(f"a factor of {factor:.6g}")
        return Candidate(
            made.name,
            tuple(changes),
            line,
            lambda rows: factor * _encoded(encoder, positions[rows]),
            made.handicap,
        )

    # Which presets, and where they count

    def _rotary(self, expected: str | None) -> Iterator[_Encoder]:
        """Rotary presets at this width, also with the measured pairing and scale."""
        scales = [{}, {"scale": self._scale}] if self._scale != 1 else [{}]
        for name in ROTARY if expected is None else [ROTARY.canonical(expected)]:
            own = ROTARY[name].arguments.get("pairing", "interleaved")
            is_its_width = ROTARY[name].dim == self._width
            sizes, handicap = ((), 0.0) if is_its_width else ((self._width,), _OTHER_WIDTH)
            pairings = dict.fromkeys((own, self._pairing or own))
            for pairing, scale in itertools.product(pairings, scales):
                changed = {} if pairing == own else {"pairing": pairing}
                try:
                    yield _Encoder.of_preset(name, sizes, {**changed, **scale}, handicap)
                except ValueError:
                    # The model's axes do not divide this width, or its pairs of single axes form
                    # no blocks.
                    continue

    def _sines(self, expected: str | None, arranged: dict[str, Any] | None) -> Iterator[_Encoder]:
        """Presets of embeddings of this width; of Fourier encoders also with measured columns."""
        width, num_axes = self._width, self._num_axes
        if expected is not None:
            expected = PresetTable({**FOURIER, **GRID, **SEQUENCE}).canonical(expected)
        for name, row in FOURIER.items():
            if expected not in (None, name):
                continue
            if row.arguments.get("frequencies", 0) is None:
                if expected is not None:
                    raise ValueError(f"the bands of {name} are the caller's: leave out expected")
                continue
            own = {"layout": "akp", "phases": _SIN_COS, "include_input": None}
            own |= {key: row.arguments[key] for key in own if key in row.arguments}
            measured = own if arranged is None else {key: arranged[key] for key in own}
            for columns in [own, measured] if measured != own else [own]:
                raw = num_axes if columns["include_input"] else 0
                num_bands, rest = divmod(width - raw, 2 * num_axes)
                if rest == 0 and 0 < num_bands <= _MOST_OCTAVES:
                    changed = {key: value for key, value in columns.items() if value != own[key]}
                    yield _Encoder.of_preset(name, (num_axes, num_bands), changed)
        for name in GRID if num_axes > 1 else ():
            if expected in (None, name):
                try:
                    yield _Encoder.of_preset(name, (width, num_axes), {})
                except ValueError:
                    # The model's grid has another number of axes.
                    continue
        for name in SEQUENCE if num_axes == 1 and width >= 4 else ():
            if expected in (None, name):
                yield _Encoder.of_preset(name, (width,), {})
                own = SEQUENCE[name].arguments.get("phases", _SIN_COS)
                yield _Encoder.of_preset(name, (width,), {"phases": own[::-1]})

    def _countings(self, made: _Encoder) -> Iterator[tuple[Positions, str]]:
        """Positions as the preset's model counts them and as the caller does, with words for it."""
        encoder, shape, plain = made.encoder, self._shape, self._plain
        if shape is not None and isinstance(encoder, GridSinusoidalEncoder):
            # Tables have positions of their own, which depend on the size of the grid.
            # Backwards as in Ultralytics' RT-DETR, whose tokens go along rows nevertheless.
            for sizes, words in {shape[::-1]: "columns counted before rows", shape: ""}.items():
                positions = encoder.positions(sizes).flatten(0, -2)
                yield Positions(positions, f"{made.code}.positions({sizes}).flatten(0, -2)"), words
            return
        counting = ""
        if shape is not None and isinstance(encoder, RotaryEncoder):
            try:
                own = Positions(
                    ROTARY[made.name].positions(shape), f'ROTARY["{made.name}"].positions({shape})'
                )
            except ValueError:
                # The model's grid has other sizes.
                own = plain
            if not torch.equal(own.axes, plain.axes):
                counting = "positions counted as indices"
            if own is not plain and own.axes.shape[1] == encoder.in_dim:
                yield own, ""
                if not counting:
                    return
        if plain.axes.shape[1] == encoder.in_dim:
            yield plain, counting

    # What a preset would have to differ in

    def _differing(
        self, made: _Encoder, at: Positions
    ) -> Iterator[tuple[_Encoder, PositionTransform]]:
        """The preset, and with another base, at the positions where it has the measured waves."""
        measured, own = self._waves(at), made.waves
        if own is None or measured is None:
            return
        for placed in self._placed(made, measured[0], len(own.axis)):
            bases = find_bases(own, placed, at, made.series_base) if made.series_base else []
            for changed in (made, *map(made.with_base, bases)):
                transform = find_transform(changed.waves or own, placed, at, self._tolerance)
                if transform is None:
                    continue
                yield changed, transform
                arguments, factor = PRESETS[made.name].arguments, transform.factor[0]
                is_common = len(set(transform.factor)) == 1
                is_fourier = (
                    isinstance(made.encoder, FourierEncoder) and "frequencies" not in arguments
                )
                if is_fourier and is_common and 0 < factor != 1:
                    # The base of a Fourier encoder is its first band, and leaves the coordinates
                    # that are among its columns as they are.
                    base = float(f"{factor * arguments.get('base', math.pi):.8g}")
                    none = PositionTransform.none(self._num_axes)
                    yield made.with_base(base), replace(transform, factor=none.factor)

    def _placed(self, made: _Encoder, waves: Waves, count: int) -> list[Waves]:
        """The measured waves in the order of the encoder's own; none if it has other pairs."""
        columns = self._pairs.columns if self._pairs is not None else []
        if isinstance(made.encoder, RotaryEncoder):
            place = {(p.a, p.b): slot for slot, p in enumerate(rotation_pairs(made.encoder))}
            if not set(columns) <= place.keys():
                return []
            return [waves.spread(torch.tensor([place[pair] for pair in columns]), count)]
        slots = torch.cat(list(torch.tensor(columns).T))
        # cos(t) = sin(t + pi / 2).
        phase = torch.cat([waves.phase, waves.phase + math.pi / 2])
        both = Waves(waves.axis.repeat(2), waves.band.repeat(2), phase)
        # A wave that runs backwards is one of a positive band: sin(t) = sin(pi - t).
        is_backwards = both.band < 0
        forwards = both._replace(
            band=both.band.abs(), phase=torch.where(is_backwards, math.pi - phase, phase)
        )
        is_own = slots < count
        # Or its positions are counted backwards.
        orders = (forwards, both) if is_backwards.any() else (forwards,)
        return [
            Waves(*(part[is_own] for part in order)).spread(slots[is_own], count)
            for order in orders
        ]

    # Without a preset: the measured bands

    @property
    def _pairing(self) -> str | None:
        """The measured pairing of a rotation, axis-half if neither of neighbors nor of halves."""
        if self._pairs is None:
            return None
        columns = self._pairs.columns
        if all(b == a + 1 for a, b in columns):
            return "interleaved"
        first, second = zip(*columns, strict=True)
        is_one_step = len({b - a for a, b in columns}) == 1
        return "half" if is_one_step and max(first) < min(second) else "axis-half"

    def _measured_rotation(self) -> Iterator[Candidate]:
        """A rotary encoder with the measured bands, and 0 for columns that are not rotated."""
        waves, error = self._waves(self._plain) or (None, math.inf)
        pairing, width = self._pairing, self._width
        # Columns that are paired within the block of each axis are left to presets.
        if waves is None or self._pairs is None or error > _NOISE or pairing == "axis-half":
            return
        columns = self._pairs.columns
        lowest, highest = min(a for a, _ in columns), max(b for _, b in columns)
        # Of the first columns, or of the last ones, as many as are rotated.
        if pairing == "interleaved":
            first = lowest if highest == width - 1 else 0
            size = highest + 1 - first
            slots = [(a - first) // 2 for a, _ in columns]
            is_aligned = all((a - first) % 2 == 0 for a, _ in columns)
        else:
            size = 2 * (columns[0][1] - columns[0][0])
            first = 0 if highest < size else width - size
            slots = [a - first for a, _ in columns]
            is_aligned = first <= lowest
        if not is_aligned:
            return
        spread = waves.spread(torch.tensor(slots), size // 2)
        arguments: dict[str, Any] = {} if pairing == "interleaved" else {"pairing": pairing}
        if self._num_axes > 1:
            arguments["pair_axes"] = tuple(spread.axis.tolist())
        elif size < width:
            arguments["axis_dims"] = (size,)
        arguments |= {"trailing": True} if first else {}
        arguments["frequencies"] = spread.band.nan_to_num(0.0)
        arguments |= {} if self._scale == 1 else {"scale": self._scale}
        made = _Encoder.without_preset(RotaryEncoder, width, self._num_axes, **arguments)
        # Where positions begin, if the angle of all waves of an axis is 0 there.
        wave = Waves(waves.axis, waves.band.abs(), waves.phase * waves.band.sign())
        zero = wave._replace(phase=torch.zeros_like(wave.phase))
        none = PositionTransform.none(self._num_axes)
        found = find_transform(zero, wave, self._plain, self._tolerance) or none
        transform = PositionTransform(none.order, found.factor, found.offset)
        candidate = self._candidate(made, transform, self._plain, "")
        if self._num_axes == 1:
            slack = self._tolerance / 100 / float(self._plain.extent[0])
            series = name_bands(arguments["frequencies"], slack, is_scaled=self._scale != 1)
            if series is not None:
                candidate = candidate._replace(name=f"{candidate.name}, {series}")
        yield candidate

    def _sines_and_cosines(self) -> tuple[Waves, list[tuple[int, int]]] | None:
        """The measured waves, and the columns of the sine and the cosine of each.

        A cosine first is a wave that runs backwards from pi / 2. Where positions begin elsewhere,
        so that phases do not tell, all bands are taken to be positive.
        """
        waves, error = self._waves(self._plain) or (None, math.inf)
        if waves is None or self._pairs is None or error > _NOISE:
            return None
        quarters = (waves.phase / (math.pi / 2)).remainder(4)
        nearest = quarters.round()
        tells = bool(((nearest - quarters).abs() < _NOISE).all() and (nearest % 4 <= 1).all())
        is_cosine_first = nearest % 4 == 1 if tells else waves.band < 0
        band = torch.where(is_cosine_first, -waves.band, waves.band)
        columns = [
            (b, a) if is_swapped else (a, b)
            for (a, b), is_swapped in zip(
                self._pairs.columns, is_cosine_first.tolist(), strict=True
            )
        ]
        return waves._replace(band=band), columns

    def _fourier_arrangement(self) -> dict[str, Any] | None:
        """Arguments with which a Fourier encoder has the measured columns, and the axes' order."""
        measured = self._sines_and_cosines()
        if measured is None or self._pairs is None:
            return None
        width, num_axes = self._width, self._num_axes
        raw = tuple(sorted(c for c, axis in self._pairs.coordinates.items() if axis >= 0))
        sides = {(): None, tuple(range(num_axes)): "front", tuple(range(width))[-num_axes:]: "back"}
        num_bands, rest = divmod(width - len(raw), 2 * num_axes)
        if raw not in sides or rest:
            return None
        first = num_axes if sides[raw] == "front" else 0
        # Axis, band and phase of each column.
        known: dict[int, tuple[int, float, str]] = {}
        waves, pairs = measured
        for pair, axis, band in zip(pairs, waves.axis.tolist(), waves.band.tolist(), strict=True):
            known |= {c: (axis, band, phase) for c, phase in zip(pair, _SIN_COS, strict=True)}
        for layout, phases in itertools.product(LAYOUTS, (_SIN_COS, _SIN_COS[::-1])):
            bands = torch.full((num_bands, num_axes), math.nan, dtype=torch.float64)
            order: dict[int, int] = {}
            labels = column_labels(num_axes, num_bands, layout, phases)
            for column, (k, phase, a) in enumerate(labels, start=first):
                axis, band, is_measured = known.get(column, (0, 0.0, ""))
                # Each cell of the table has one band, not known (NaN) at first, which differs from
                # none; and each of its axes is one of the positions'.
                have = float(bands[k, a])
                differs = abs(have - band) > SAME_BAND * max(abs(have), SAME_BAND)
                if is_measured != phase or order.setdefault(a, axis) != axis or differs:
                    break
                bands[k, a] = band
            else:
                if len(set(order.values())) == num_axes:
                    axes = tuple(order[a] for a in range(num_axes))
                    columns = dict(layout=layout, phases=phases, include_input=sides[raw])
                    return {**columns, "order": axes, "frequencies": bands}
        return None

    def _measured_fourier(self, arrangement: dict[str, Any]) -> Candidate:
        """A Fourier encoder with the measured bands, in the layout that comes first."""
        arguments = {k: v for k, v in arrangement.items() if k != "order" and v is not None}
        bands = arguments["frequencies"]
        if torch.allclose(bands, bands[:, :1].expand_as(bands), rtol=SAME_BAND):
            arguments["frequencies"] = bands[:, 0]
        made = _Encoder.without_preset(FourierEncoder, self._num_axes, **arguments)
        none = PositionTransform.none(self._num_axes)
        transform = PositionTransform(arrangement["order"], none.factor, none.offset)
        return self._candidate(made, transform, self._plain, "")


def _encoded(encoder: Any, positions: Tensor) -> Tensor:
    """Features of positions, which are measured in whatever unit they have."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the coordinates go from", UserWarning)
        features: Tensor = encoder(positions)
    return features
