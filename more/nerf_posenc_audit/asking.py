"""What a module computes, and where it differs from a preset or a configuration.

`ask` measures and names; `check` compares with what is expected, under the conditions that models
meet: short and long positions, a batch, casts, autocast, and the way over the meta device.
"""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nerf_posenc.positional.rotary import RotaryEncoder
from nerf_posenc.positional.rotary_config import rope_parameters
from nerf_posenc.presets.rotary import ROTARY
from nerf_posenc_audit.probe import SINE_FIRST, Measured, NotAskableError, Probe
from nerf_posenc_audit.series import Series, name_bands, rounding_of, same_bands

# Ends of the ranges at which errors are measured, and how many positions before each.
NEAR, FAR = 4_095, 131_071
_RANGE = 8
# A length below every trained length, where scalings by length are off.
_SHORT = 512
# Positions that no measurement uses, to check an answer with.
_UNSEEN = torch.tensor([3, 5, 11, 77, 113, 211, 333, 499])
# What float32 angles may be off at a position, and what a right table may be off beside that.
_FLOAT32 = 4 * torch.finfo(torch.float32).eps
_RIGHT = 1e-5
_SCALE = 1e-3

Against = RotaryEncoder | Mapping[str, Any] | str | Path


@dataclass(frozen=True)
class Answer:
    """What a module computes.

    Attributes:
        name: the series of its bands, in words.
        presets: presets with these bands and this scale.
        series: the series; None if it has no name.
        measured: cosines, sines and bands, measured at positions up to the farthest.
        num_axes: number of axes of positions that share the series.
        unseen: largest difference from the module at positions that the measurement did not use.
    """

    name: str
    presets: tuple[str, ...]
    series: Series | None = field(repr=False)
    measured: Measured = field(repr=False)
    num_axes: int
    unseen: float

    @property
    def bands(self) -> Tensor:
        """Exact bands of all pairs, before any rounding; measured ones without a name."""
        if self.series is None or self.num_axes > 1:
            return self.measured.bands
        return self.series.bands

    @property
    def line(self) -> str:
        """Code of the encoder with these bands; without a name, with the measured ones."""
        dim = 2 * len(self.measured.bands)
        bands = f"torch.tensor({self.measured.bands.tolist()}, dtype=torch.float64)"
        if self.series is not None and self.num_axes == 1:
            bands = self.series.code
            if self.series.rounded:
                bands = f"({bands}).to(torch.{self.series.rounded}).double()"
        scale = "" if abs(self.measured.scale - 1) <= _SCALE else f", scale={self.measured.scale!r}"
        pairing = self.measured.pairing or "half"
        return f"RotaryEncoder({dim}, bands={bands}, pairing={pairing!r}{scale})"

    def __str__(self) -> str:
        known = f" ({', '.join(self.presets)})" if self.presets else ""
        return f"{self.name}{known}; {self.measured.form}, {len(self.measured.bands)} pairs"


def ask(module: Callable[..., Any], *, layer_type: str | None = None) -> Answer:
    """Measure a module of sines and cosines of positions, and name what it computes.

    Args:
        module: module or function that gives cosines and sines, angles or rotated queries.
        layer_type: argument ``layer_type`` where it takes one.

    Returns:
        The answer, which is checked at positions that the measurement did not use.

    Raises:
        NotAskableError: If no usual way to call it gives waves of the position.
    """
    probe = Probe(module, layer_type=layer_type)
    measured = probe.measure()
    is_scaled = abs(measured.scale - 1) > _SCALE
    series = name_bands(measured.bands, measured.slack, is_scaled=is_scaled)
    blocks = [] if series is None else [series]
    bands = measured.bands if series is None else _rounded(series)
    for axes in (2, 3, 4):
        if not blocks and len(measured.bands) % axes == 0 and len(measured.bands) > axes:
            blocks, bands = _shared(measured, axes)
    blocks = blocks or _blocks(measured.bands, measured.slack)
    if len(blocks) > 1:
        bands = torch.cat([_rounded(one) for one in blocks]) if bands is measured.bands else bands
    words = str(blocks[0]) if blocks else "bands of its own"
    if len({len(one.bands) for one in blocks}) > 1:
        words += f", on axes of {', '.join(str(2 * len(one.bands)) for one in blocks)} columns"
    elif len(blocks) > 1:
        words += f", on {len(blocks)} axes"
    words += f", scale {measured.scale:.6g}" if is_scaled else ""
    unseen = _difference(probe, bands, measured, _UNSEEN)
    if blocks and unseen > 10 * _SCALE:
        words, blocks = "bands of its own, which depend on the length", []
    series = blocks[0] if blocks else None
    return Answer(words, _presets(measured), series, measured, max(len(blocks), 1), unseen)


def _rounded(series: Series) -> Tensor:
    dtype = getattr(torch, series.rounded) if series.rounded else torch.float64
    return series.bands.to(dtype).double()


def _shared(measured: Measured, axes: int) -> tuple[list[Series], Tensor]:
    """The series that all axes have, one after the other or in turn, and the bands of all."""
    bands = measured.bands
    for one, repeat in (
        (bands[: len(bands) // axes], Tensor.repeat),
        (bands[::axes], Tensor.repeat_interleave),
    ):
        series = name_bands(one, measured.slack)
        made = bands if series is None else repeat(_rounded(series), axes)
        if series is not None and same_bands(bands, made, 2 * measured.slack):
            return [series] * axes, made
    return [], bands


def _blocks(bands: Tensor, slack: float) -> list[Series]:
    """The series of each axis, one after the other; none if one has no name or another base."""
    starts = [0, *((bands.diff() > slack).nonzero()[:, 0] + 1).tolist()]
    if not 2 <= len(starts) <= 4:
        return []
    ends = [*starts[1:], len(bands)]
    blocks = [name_bands(bands[a:b], slack) for a, b in zip(starts, ends, strict=True)]
    named = [one for one in blocks if one is not None]
    same = len({(one.kind, one.base) for one in named}) == 1
    return named if len(named) == len(blocks) and same else []


def _presets(measured: Measured) -> tuple[str, ...]:
    """Names of presets of sequences with the measured bands and scale."""
    found = []
    for name, row in ROTARY.items():
        if row.arguments.get("num_axes", 1) == 1:
            encoder = RotaryEncoder.preset(name)
            same = same_bands(measured.bands, encoder.frequency_bands[:, 0], measured.slack)
            if same and abs(measured.scale - encoder.scale) < _SCALE:
                found.append(name)
    return tuple(found[:3])


def _waves(bands: Tensor, measured: Measured, positions: Tensor) -> Tensor:
    """Exact waves of bands, with the measured scale and phases that are whole quarters."""
    angles = positions.double()[:, None] * bands
    return torch.polar(torch.full_like(angles, measured.scale), angles)


def _difference(probe: Probe, bands: Tensor, measured: Measured, positions: Tensor) -> float:
    """Largest difference of cosines and sines from exact ones."""
    off = torch.view_as_real(probe.waves(positions) - _waves(bands, measured, positions))
    return float(off.abs().max())


# Errors under conditions

Prepare = Callable[[Callable[..., Any]], Callable[..., Any]]


def _cast(dtype: torch.dtype) -> Prepare:
    return lambda module: copy.deepcopy(module).to(dtype)  # type: ignore[attr-defined]


def _autocast(module: Callable[..., Any]) -> Callable[..., Any]:
    return torch.autocast("cpu", dtype=torch.bfloat16)(module.forward)  # type: ignore[attr-defined,no-any-return]


def _over_meta(module: Callable[..., Any]) -> Callable[..., Any]:
    assert isinstance(module, nn.Module)
    moved = copy.deepcopy(module).to("meta").to_empty(device="cpu")
    # What nobody rebuilds has any numbers, also the right ones by chance.
    for left in (*moved.parameters(), *moved.buffers()):
        if left.is_floating_point():
            left.detach().fill_(math.nan)
    return moved


CONDITIONS: dict[str, Prepare] = {
    "as built": lambda module: module,
    "after .half()": _cast(torch.float16),
    "after .to(bfloat16)": _cast(torch.bfloat16),
    "under autocast": _autocast,
    "after meta": _over_meta,
}
"""How a module is prepared before it is asked, by name."""


def errors(
    module: Callable[..., Any],
    bands: Tensor,
    scale: float,
    *,
    layer_type: str | None = None,
    last: tuple[int, ...] = (NEAR, FAR),
) -> dict[str, dict[int, float | str]]:
    """Largest errors of cosines and sines up to positions, under each of `CONDITIONS`.

    Args:
        module: module or function.
        bands: exact bands, in float64.
        scale: factor of exact cosines and sines.
        layer_type: argument ``layer_type`` where it takes one.
        last: last position of each range of 8.

    Returns:
        For each condition the error at each position, or the reason why there is none.
    """
    found: dict[str, dict[int, float | str]] = {}
    for name, prepare in CONDITIONS.items():
        if name != "as built" and not isinstance(module, nn.Module):
            continue
        found[name] = {}
        for end in last:
            positions = torch.arange(end - _RANGE + 1, end + 1)
            try:
                probe = Probe(prepare(module), layer_type=layer_type)
                angles = positions.double()[:, None] * bands
                exact = torch.polar(torch.full_like(angles, scale), angles)
                off = torch.view_as_real(probe.waves(positions) - exact).abs().max()
                found[name][end] = float(off) if math.isfinite(float(off)) else "not finite"
            except NotAskableError as error:
                found[name][end] = "not rebuilt" if prepare is _over_meta else str(error)
            except Exception as error:  # Whatever the code of others raises.
                found[name][end] = f"{type(error).__name__}: {str(error)[:60]}"
    return found


# Differences from what is expected


@dataclass(frozen=True)
class Verdict:
    """How a module differs from what is expected.

    Attributes:
        differences: each difference in words; empty if it is right.
        errors: largest errors by condition and position.
    """

    differences: tuple[str, ...]
    errors: dict[str, dict[int, float | str]]

    @property
    def is_right(self) -> bool:
        """Whether no difference is found."""
        return not self.differences

    def __str__(self) -> str:
        lines = list(self.differences) or ["right"]
        for name, row in self.errors.items():
            cells = (
                f"{end:,}: {value:.1e}" if isinstance(value, float) else f"{end:,}: {value}"
                for end, value in row.items()
            )
            lines.append(f"    {name:<20} {';  '.join(cells)}")
        return "\n".join(lines)


def expected_encoder(
    against: Against, *, layer_type: str | None = None, length: int | None = None
) -> RotaryEncoder:
    """The encoder that a preset's name, a configuration or its path stands for.

    Args:
        against: name of a preset, configuration, path of one, or the encoder itself.
        layer_type: type of the layers, of a configuration.
        length: length of the sequences, of a configuration.

    Raises:
        ValueError: If the name is unknown or the configuration is not understood.
    """
    if isinstance(against, RotaryEncoder):
        return against
    if isinstance(against, str) and not Path(against).exists():
        return RotaryEncoder.preset(against)
    return RotaryEncoder.from_config(against, layer_type=layer_type, length=length)


def check(
    module: Callable[..., Any], *, against: Against, layer_type: str | None = None
) -> Verdict:
    """Say where a module's rotary embedding differs from a preset's or a configuration's.

    Args:
        module: module or function that gives cosines and sines, angles or rotated queries.
        against: name of a preset, a configuration or its path, or an encoder.
        layer_type: type of the layers, where each has parameters of its own.

    Returns:
        The differences in words, and errors at far positions and after casts.

    Raises:
        ValueError: If what is expected is unknown.
        NotAskableError: If no usual way to call the module gives waves of the position.

    Examples:
        >>> from nerf_posenc import RotaryEncoder
        >>> verdict = check(RotaryEncoder(128, pairing="half"), against="mistral")
        >>> verdict.differences
        ('the base is 10,000 instead of 1,000,000',)
    """
    probe = Probe(module, layer_type=layer_type)
    reach = probe.measure()
    found: list[str] = []
    lengths = dict.fromkeys((_SHORT, reach.farthest))
    for length in lengths:
        expected = expected_encoder(against, layer_type=layer_type, length=length + 1)
        measured = probe.measure(min(length, reach.farthest))
        plain = _unscaled(against, layer_type)
        if expected.in_dim > 1:
            raise ValueError("a rotation on several axes is compared by identify, from arrays")
        found += _differences(measured, expected, plain)
    expected = expected_encoder(against, layer_type=layer_type)
    bands = expected.frequency_bands[:, 0]
    if len(reach.bands) != len(bands):
        return Verdict(tuple(dict.fromkeys(found)), {})
    table = errors(module, bands, expected.scale, layer_type=layer_type, last=(NEAR,))
    far = expected_encoder(against, layer_type=layer_type, length=FAR + 1)
    bands = far.frequency_bands[:, 0]
    further = errors(module, bands, far.scale, layer_type=layer_type, last=(FAR,))
    return Verdict(tuple(dict.fromkeys(found)), {k: v | further[k] for k, v in table.items()})


def assert_encoding(
    module: Callable[..., Any], against: Against, *, layer_type: str | None = None
) -> None:
    """Raise if a module's rotary embedding is not that of a preset or a configuration.

    Args:
        module: module or function.
        against: name of a preset, a configuration or its path, or an encoder.
        layer_type: type of the layers, where each has parameters of its own.

    Raises:
        AssertionError: If it differs; the message says where, with a table of errors.
    """
    verdict = check(module, against=against, layer_type=layer_type)
    if not verdict.is_right:
        raise AssertionError(str(verdict))


def _unscaled(against: Against, layer_type: str | None) -> tuple[Tensor, str] | None:
    """Bands of a configuration without its scaling, and the scaling's name."""
    if isinstance(against, RotaryEncoder):
        return None
    if isinstance(against, str) and not Path(against).exists():
        encoder = RotaryEncoder.preset(against)
        bands = encoder.frequency_bands[:, 0]
        named = name_bands(bands, is_scaled=encoder.scale != 1)
        if named is None or named.kind == "default":
            return None
        base = named.base
        return RotaryEncoder(2 * len(bands), base=base).frequency_bands[:, 0], named.kind
    parameters = rope_parameters(against, layer_type=layer_type)
    kind, base = parameters["rope_type"], parameters["rope_theta"]
    if kind in ("default", "axial"):
        return None
    encoder = expected_encoder(against, layer_type=layer_type)
    return RotaryEncoder(2 * len(encoder.frequency_bands), base=base).frequency_bands[:, 0], kind


_TITLES = {
    "yarn": "YaRN",
    "llama3": "Llama 3's scaling",
    "longrope": "LongRoPE",
    "linear": "linear scaling",
    "dynamic": "dynamic NTK scaling",
}


def _differences(
    measured: Measured, expected: RotaryEncoder, plain: tuple[Tensor, str] | None
) -> list[str]:
    """Differences in words, at one length."""
    bands, exact = measured.bands, expected.frequency_bands[:, 0]
    found = []
    if measured.form == SINE_FIRST:
        found.append("cosine and sine are exchanged: the sine comes first")
    if len(bands) != len(exact):
        found.append(f"{2 * len(bands)} columns are rotated instead of {2 * len(exact)}")
        share = min(len(bands), len(exact))
        if same_bands(bands[:share], exact[:share], measured.slack):
            return found
        named, wanted = name_bands(bands, measured.slack), name_bands(exact)
        return found + _base_difference(named, wanted)
    turning = exact != 0
    if bool((bands * exact)[turning].sum() < 0):
        found.append("it rotates the other way")
        bands = -bands
    known = bands[0] != 0 and measured.form != SINE_FIRST
    shift = float(measured.phases[0] / measured.bands[0]) if known else 0.0
    if abs(shift) > _SCALE:
        found.append(f"positions begin at {shift:.6g} instead of 0")
    found += _band_differences(bands, exact, plain, measured.slack)
    if abs(measured.scale - expected.scale) > _SCALE:
        missing = abs(measured.scale - 1) < _SCALE
        found.append(
            f"the attention factor {expected.scale:.6g} is missing"
            if missing
            else f"cosines and sines are times {measured.scale:.6g} instead of {expected.scale:.6g}"
        )
    pairing = {"tiled": "", "axis-half": "half"}.get(expected.pairing, expected.pairing)
    if measured.form == "rotated queries" and measured.pairing != pairing:
        found.append(f"columns are paired as {measured.pairing!r} instead of {pairing!r}")
    return found


def _band_differences(
    bands: Tensor, exact: Tensor, plain: tuple[Tensor, str] | None, slack: float
) -> list[str]:
    """Differences of the bands in words."""
    if same_bands(bands, exact, slack):
        return []
    rounded = rounding_of(bands, exact, slack)
    if rounded:
        off = float((exact.to(getattr(torch, rounded)).double() - exact).abs().max()) * NEAR
        return [f"frequencies were rounded to {rounded}: {off:.1g} rad at position {NEAR:,}"]
    if plain is not None:
        title = _TITLES.get(plain[1], plain[1])
        if same_bands(bands, plain[0], slack):
            return [f"{title} is not applied"]
        ratio = float(plain[0][0] / bands[0])
        if ratio > 1 + _SCALE and same_bands(bands, plain[0] / ratio, slack):
            if plain[1] == "linear":
                return [f"linear scaling is by {ratio:.6g} instead of {plain[0][0] / exact[0]:.6g}"]
            return [f"{title} is taken as linear by {ratio:.6g}"]
        rounded = rounding_of(bands, plain[0], slack)
        if rounded:
            return [f"{title} is not applied", f"frequencies were rounded to {rounded}"]
    if same_bands(bands.sort()[0], exact.sort()[0], slack):
        return ["the pairs are in another order"]
    ratio = float(bands[0] / exact[0])
    if abs(ratio - 1) > _SCALE and same_bands(bands, exact * ratio, slack):
        return [f"positions are times {ratio:.6g}"]
    return _base_difference(name_bands(bands, slack), name_bands(exact))


def _base_difference(found: Series | None, wanted: Series | None) -> list[str]:
    """Difference of two series by name."""
    if found is None:
        return [f"the bands are others, without a name; expected {wanted or 'its own'}"]
    if wanted is not None and found.kind == wanted.kind and found.parameters == wanted.parameters:
        rounded = f", and rounded to {found.rounded}" if found.rounded else ""
        if found.base == wanted.base:
            return [f"frequencies were rounded to {found.rounded}"] if found.rounded else []
        return [f"the base is {found.base:,.10g} instead of {wanted.base:,.10g}{rounded}"]
    return [f"the bands are {found} instead of {wanted or 'its own'}"]
