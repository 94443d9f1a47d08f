"""Call a module at chosen positions, and measure the bands of what it returns.

What modules take and return differs. `Probe` tries the usual ways to call one, and reduces cosines
and sines, complex numbers, angles, rotation matrices and rotated queries to one complex wave for
each pair of columns, ``scale * exp(i * band * position)``. `Probe.measure` doubles the position
from 1 on: each step halves the error of a band, whose whole cycles the step before has told.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

# Names of what modules take: positions, a length, features, and what no number depends on.
_POSITIONS = (
    "position_ids positions position pos pos_ids t ids indices seq timesteps timestep input_pos "
    "coords timestamps time_ids position_index token_positions steps offset offsets"
)
_LENGTHS = (
    "seq_len seqlen max_seq_len length end max_seqlen seq_length max_length num_positions n "
    "sequence_length seq_size"
)
_FEATURES = (
    "x hidden_states q query queries xq k key value states tensor emb inputs inputs_embeds "
    "embeddings input token_embeddings"
)
_WIDTH_NAMES = "dim head_dim d_model embed_dim channels org_channels hidden_size num_pos_feats"
_OTHERS = {"device": torch.device("cpu"), "dtype": torch.float32}
# The farthest positions to try, for modules that hold a table of fewer.
_FARTHEST = (131_072, 32_768, 4_096, 2_048, 1_024, 256, 64)
_NEAR = 512
# Difference of columns that are repeated, and of lengths that are one.
_EQUAL = 1e-3
_ROTATED_WIDTH = 64
SINE_FIRST = "sines and cosines"
"""Form of modules that return the sine before the cosine."""


class NotAskableError(Exception):
    """The module cannot be called at positions, or returns no waves of them."""


@dataclass(frozen=True)
class Measured:
    """What a module computes, measured.

    Attributes:
        bands: band of each pair in rad per position, negative if it runs backwards.
        phases: angle of each pair at position 0.
        scale: factor of cosines and sines.
        form: form of the output: "cosines and sines", "complex numbers", "angles", ...
        pairing: order of the columns, ``half`` or ``interleaved``; empty if each pair has one.
        farthest: the farthest position measured with.
        slack: absolute error of the bands.
    """

    bands: Tensor
    phases: Tensor
    scale: float
    form: str
    pairing: str
    farthest: int
    slack: float


class Probe:
    """A module or a function that can be asked for waves at positions.

    Args:
        module: the module or the function.
        layer_type: argument ``layer_type`` where it takes one.
        width: width of the features that it is given, where it takes some; None tries the usual.

    Raises:
        NotAskableError: If no way to call it gives waves.
    """

    def __init__(
        self, module: Callable[..., Any], *, layer_type: str | None = None, width: int | None = None
    ) -> None:
        self.module, self._layer_type = module, layer_type
        self._widths = [width] if width else _widths(module)
        self.form, self.pairing, self._call = "", "", None
        reasons: list[str] = []
        small = torch.tensor([0, 1, 2, 5, 7])
        for call in self._conventions():
            try:
                self._call = call
                waves = self.waves(small)
                if len(waves) == len(small) and _are_waves(waves):
                    return
            except NotAskableError as error:
                reasons.append(str(error))
            except Exception as error:  # Whatever the code of others raises at a wrong call.
                reasons.append(
                    f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
                    if str(error)
                    else type(error).__name__
                )
        raise NotAskableError(reasons[0] if reasons else "it takes no positions")

    def waves(self, positions: Tensor) -> Tensor:
        """Complex waves at integer positions, ``(num_positions, num_pairs)``, in complex128."""
        assert self._call is not None
        # Positions 0, 1 and 2 in front tell sines from cosines, and angles from both.
        asked = torch.cat([torch.arange(3), positions])
        with torch.no_grad():
            output = self._call(asked)
        waves, self.form, self.pairing = _waves_from(output, len(asked))
        return waves[3:]

    def measure(self, farthest: int | None = None) -> Measured:
        """Measure bands, phases and the scale.

        Args:
            farthest: the farthest position to call at; None is 131,072, or as far as it goes.

        Raises:
            NotAskableError: If the waves are no function of band times position.
        """
        for reach in _FARTHEST if farthest is None else (farthest,):
            positions = torch.tensor([0, *(2**k for k in range(int(math.log2(reach)) + 1))])
            try:
                waves = self.waves(positions)
                break
            except NotAskableError:
                raise
            except Exception:
                continue
        else:
            raise NotAskableError("it cannot be called at 64 positions")
        scale = float(waves.abs().median())
        if scale == 0 or float((waves.abs() / scale - 1).abs().max()) > 0.05:
            raise NotAskableError("lengths depend on the position or the column")
        turned = waves * waves[:1].conj()
        bands = turned[1].angle()
        for step, wave in zip(positions[2:].tolist(), turned[2:], strict=True):
            off = (wave * torch.polar(torch.ones_like(bands), -bands * step)).angle()
            if float(off.abs().max()) > 1.0:
                raise NotAskableError("angles are no multiples of the position")
            bands = bands + off / step
        return Measured(
            bands, waves[0].angle(), scale, self.form, self.pairing, reach, 1e-6 / reach
        )

    # Ways to call

    def _conventions(self) -> Iterator[Callable[[Tensor], Any]]:
        """Ways to call the module, the likely ones first."""
        called = self.module.forward if isinstance(self.module, nn.Module) else self.module
        parameters = [
            p
            for p in inspect.signature(called).parameters.values()
            if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        ]
        names = {
            kind: [p for p in parameters if p.name in text.split()]
            for kind, text in (
                ("positions", _POSITIONS),
                ("length", _LENGTHS),
                ("features", _FEATURES),
            )
        }
        needed = [p for p in parameters if p.default is p.empty]
        known = {p.name for group in names.values() for p in group} | {*_OTHERS, "layer_type"}
        if len(needed) == 1 and needed[0].name not in known:
            names["positions"] = needed
            known.add(needed[0].name)
        unknown = [p.name for p in needed if p.name not in known]
        if unknown:
            raise NotAskableError(f"the argument {unknown[0]!r} is not understood")
        fixed = {
            name: value for name, value in _OTHERS.items() if any(p.name == name for p in needed)
        }
        if self._layer_type is not None and any(p.name == "layer_type" for p in parameters):
            fixed["layer_type"] = self._layer_type
        features = [p.name for p in names["features"] if p.default is p.empty]
        if names["positions"]:
            yield from self._with_positions(names["positions"][0].name, features, fixed)
        for length in names["length"][:1]:
            yield from self._with_length(length.name, features, fixed)
        if names["features"]:
            yield from self._with_features(features or [names["features"][0].name], fixed)
            yield from self._as_positions(names["features"][0].name, fixed)

    def _with_positions(
        self, name: str, features: list[str], fixed: dict[str, Any]
    ) -> Iterator[Callable[[Tensor], Any]]:
        shapes: list[Callable[[Tensor], Tensor]] = [
            lambda p: p[None],
            lambda p: p,
            lambda p: p.expand(2, -1),
            lambda p: p.expand(3, -1),
            lambda p: p.expand(3, 1, -1),
            lambda p: p[:, None].expand(-1, 2),
            lambda p: p[None, :, None].expand(-1, -1, 2),
            lambda p: p[:, None].expand(-1, 3),
            lambda p: p[None, :, None].expand(-1, -1, 3),
            lambda p: p[:, None].expand(-1, 4),
        ]
        if features:
            for width in self._widths:
                for is_last in (False, True):  # Heads after the positions, or before them.
                    yield lambda p, w=width, last=is_last: self._rotated(  # type: ignore[misc]
                        features, w, {**fixed, name: p[None]}, p, is_last=last
                    )
        for shape in shapes:
            for convert in (lambda p: p, lambda p: p.float()):
                yield lambda p, s=shape, c=convert: self.module(  # type: ignore[misc]
                    **{f: torch.zeros(1, len(p), self._widths[0]) for f in features},
                    **fixed,
                    **{name: c(s(p))},
                )

    def _with_length(
        self, name: str, features: list[str], fixed: dict[str, Any]
    ) -> Iterator[Callable[[Tensor], Any]]:
        def call(positions: Tensor) -> Any:
            length = int(positions.max()) + 1
            if length * self._widths[0] > 1 << 24:
                raise ValueError("too many rows")
            given = {f: torch.zeros(1, length, self._widths[0]) for f in features}
            return _rows(self.module(**given, **fixed, **{name: length}), length, positions)

        yield call

    def _with_features(
        self, features: list[str], fixed: dict[str, Any]
    ) -> Iterator[Callable[[Tensor], Any]]:
        """Modules that count the rows of what they are given."""
        for width in self._widths:
            for lead in ((1,), (1, 1), ()):

                def call(positions: Tensor, w: int = width, lead: tuple[int, ...] = lead) -> Any:
                    length = int(positions.max()) + 1
                    if length * w > 1 << 24:
                        raise ValueError("too many rows")
                    zeros = torch.zeros(*lead, length, w)
                    output = self.module(**dict.fromkeys(features, zeros), **fixed)
                    is_same = isinstance(output, Tensor) and output.shape == zeros.shape
                    if is_same and not output.any():  # It rotates what it is given.
                        return self._rotated_rows(features, zeros, fixed, positions)
                    return _rows(output, length, positions)

                yield call

    def _as_positions(self, name: str, fixed: dict[str, Any]) -> Iterator[Callable[[Tensor], Any]]:
        for shape in (lambda p: p, lambda p: p[None], lambda p: p[:, None]):
            yield lambda p, s=shape: self.module(  # type: ignore[misc]
                **{name: s(p.float())}, **fixed
            )

    def _rotated(
        self,
        features: list[str],
        width: int,
        given: dict[str, Any],
        positions: Tensor,
        *,
        is_last: bool,
    ) -> Any:
        """Waves of a rotation of ``(1, length, 1, width)`` or ``(1, 1, length, width)``."""
        count = len(positions)
        shape = (1, 1, count, width) if is_last else (1, count, 1, width)

        def rotate(x: Tensor) -> Tensor:
            found = _first(self.module(**dict.fromkeys(features, x), **given), len(features))
            if not isinstance(found, Tensor) or found.shape != x.shape:
                raise ValueError("it does not rotate what it is given")
            return found

        return self._turned(rotate, shape, positions)

    def _rotated_rows(
        self, features: list[str], zeros: Tensor, fixed: dict[str, Any], positions: Tensor
    ) -> Any:
        turned = self._turned(
            lambda x: _first(self.module(**dict.fromkeys(features, x), **fixed), len(features)),
            zeros.shape,
            torch.arange(zeros.shape[-2]),
        )
        return ("rotated", turned[1][positions], turned[2])

    def _turned(
        self, rotate: Callable[[Tensor], Tensor], shape: Sequence[int], positions: Tensor
    ) -> tuple[str, Tensor, str]:
        """Waves of a rotation, from what it makes of the first column of each pair."""
        width = shape[-1]
        ones = torch.zeros(shape)
        ones[..., 0] = 1.0
        partner = rotate(ones).reshape(-1, width).abs().amax(0)
        partner[0] = 0
        if not partner.any():
            raise ValueError("nothing is rotated")
        step = int(partner.argmax())
        pairing = "interleaved" if step == 1 else "half"
        first = torch.arange(0, width, 2) if step == 1 else torch.arange(step)
        units = torch.zeros(shape)
        units[..., first] = 1.0
        output = rotate(units).reshape(-1, width).double()[: len(positions)]
        waves = torch.complex(output[:, first], output[:, first + step])
        if pairing == "interleaved":
            # Pairs at the end that never move are no part of a partial rotation.
            moving = (waves - 1).abs().amax(0) > 0
            waves = waves[:, : int(moving.nonzero().max()) + 1 if moving.any() else 1]
        return ("rotated", waves, pairing)


def _first(output: Any, count: int) -> Tensor:
    found: Tensor = output[0] if isinstance(output, tuple) and count > 1 else output
    return found


def _widths(module: Any) -> list[int]:
    """Widths of features that a module may take."""
    found = [getattr(module, name, None) for name in _WIDTH_NAMES.split()]
    known = [one for one in found if isinstance(one, int) and 1 < one <= 8192]
    return list(dict.fromkeys([*known, _ROTATED_WIDTH, 128]))


def _rows(output: Any, length: int, positions: Tensor) -> Any:
    """The rows of positions from tables of all positions."""
    if isinstance(output, Tensor):
        dims = [d for d, size in enumerate(output.shape) if size == length]
        if not dims:
            raise NotAskableError("the output has no row for each position")
        return output.index_select(dims[0], positions)
    if isinstance(output, tuple | list):
        return tuple(_rows(one, length, positions) for one in output if isinstance(one, Tensor))
    raise NotAskableError(f"it returns {type(output).__name__}")


def _table(output: Tensor, count: int) -> Tensor:
    """``(num_positions, width)`` of an output with further dimensions."""
    dims = [d for d, size in enumerate(output.shape) if size == count]
    if not dims or output.ndim < 2:
        raise NotAskableError(f"the output has shape {tuple(output.shape)}")
    output = output.movedim(dims[0], 0)
    while output.ndim > 2:
        if output.shape[1] not in (1, 2, 3) or (output.ndim == 3 and output.shape[1] != 1):
            return output.flatten(1)
        output = output[:, 0]
    return output


def _waves_from(output: Any, count: int) -> tuple[Tensor, str, str]:
    """Waves, their form and the order of the columns, of positions that begin with 0, 1 and 2."""
    if isinstance(output, tuple) and len(output) == 3 and isinstance(output[0], str):
        return output[1], "rotated queries", output[2]
    if isinstance(output, Mapping):
        output = tuple(output.values())
    if isinstance(output, tuple | list):
        tensors = [one for one in output if isinstance(one, Tensor)]
        if len(tensors) >= 2 and tensors[0].shape == tensors[1].shape:
            cosine, sine = (_table(one.detach(), count).double() for one in tensors[:2])
            if float(cosine[0].abs().max()) < _EQUAL:
                return (*_without_repeats(torch.complex(sine, cosine), SINE_FIRST),)
            return (*_without_repeats(torch.complex(cosine, sine), "cosines and sines"),)
        output = tensors[0] if tensors else None
    if not isinstance(output, Tensor):
        raise NotAskableError(f"it returns {type(output).__name__}")
    output = output.detach()
    if output.is_complex():
        return (*_without_repeats(_table(output, count).to(torch.complex128), "complex numbers"),)
    if output.ndim > 3 and output.shape[-2:] == (2, 2):
        matrices = output.double().flatten(0, -4).flatten(0, 0)
        table = _table(torch.complex(matrices[..., 0, 0], matrices[..., 1, 0]), count)
        return (*_without_repeats(table, "rotation matrices"),)
    table = _table(output, count).double()
    if _are_angles(table):
        waves = torch.polar(torch.ones_like(table), table)
        return (*_without_repeats(waves, "angles"),)
    return _from_columns(table)


def _are_angles(table: Tensor) -> bool:
    """Whether columns grow with the position, from 0 on."""
    if bool(table[0].abs().max() > _EQUAL):
        return False
    return bool(((table[2] - 2 * table[1]).abs() < _EQUAL).all() and table[1].any())


def _from_columns(table: Tensor) -> tuple[Tensor, str, str]:
    """Sines and cosines side by side, of which one has the value 0 at position 0."""
    width = table.shape[1] - table.shape[1] % 2
    table = table[:, :width]
    for name, (a, b) in {
        "half": (table[:, : width // 2], table[:, width // 2 :]),
        "interleaved": (table[:, ::2], table[:, 1::2]),
    }.items():
        lengths = a.square() + b.square()
        if width and bool((lengths - lengths.mean()).abs().max() < 10 * _EQUAL * lengths.mean()):
            cosine, sine = (b, a) if float(a[0].abs().max()) < _EQUAL else (a, b)
            waves, _, _ = _without_repeats(torch.complex(cosine, sine), "")
            order = "sines" if cosine is b else "cosines"
            return waves, f"features, {order} first", name
    raise NotAskableError("the columns are no pairs of sines and cosines")


def _without_repeats(waves: Tensor, form: str) -> tuple[Tensor, str, str]:
    """One wave for each pair, where a table repeats it at both of its columns."""
    width = waves.shape[1]
    if width % 2 == 0 and width:
        a, b = waves[:, : width // 2], waves[:, width // 2 :]
        if float((a - b).abs().max()) < _EQUAL * float(waves.abs().max()):
            return a, form, "half"
        if float((waves[:, ::2] - waves[:, 1::2]).abs().max()) < _EQUAL * float(waves.abs().max()):
            return waves[:, ::2], form, "interleaved"
    return waves, form, ""


def _are_waves(waves: Tensor) -> bool:
    """Whether numbers are finite, of one length and not all the same."""
    if waves.numel() == 0 or not bool(torch.view_as_real(waves).isfinite().all()):
        return False
    sizes = waves.abs()
    middle = float(sizes.median())
    return (
        middle > 0
        and bool((sizes / middle - 1).abs().max() < 0.05)
        and bool((waves - waves[:1]).abs().max() > _EQUAL)
    )
