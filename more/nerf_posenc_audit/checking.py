"""Where a module differs from a preset or a configuration.

`check` compares under the conditions that models meet: near and far positions or coordinates,
casts, autocast, and the way over the meta device.
"""

import contextlib
import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nerf_posenc import FourierEncoder, GaussianEncoder, GridSinusoidalEncoder, contract
from nerf_posenc.presets.fourier import FOURIER
from nerf_posenc.presets.grid import GRID
from nerf_posenc_attention.presets.rotary import ROTARY
from nerf_posenc_attention.rotary import RotaryEncoder
from nerf_posenc_attention.rotary_config import image_preset, rope_parameters
from nerf_posenc_audit.asking import SAME_SCALE
from nerf_posenc_audit.grid_asking import compare
from nerf_posenc_audit.probe import SINE_FIRST, Measured, NotAskableError, Probe
from nerf_posenc_audit.search import Match, identify
from nerf_posenc_audit.series import Series, name_bands, rounding_of, same_bands

NEAR, FAR = 4_095, 131_071
"""Last position of the two ranges at which errors are measured."""
# Positions in each of them.
_RANGE = 8
# A length below every trained length, where scalings by length are off.
_SHORT = 512
# The same for coordinates: in the box, and far outside of it.
_BOXES = (1, 100)
_NUM_POINTS = 64
# Differences that rounding of float32 explains at twice the box, and no other encoding.
_ROUGH = 1e-2

# Relative difference of bands that is no rounding, and one below which they are meant to be equal.
_SAME_RATIO, _NEAR_SHARE = 1e-5, 1e-2
# Patches of a grid.
_PATCHES = 35

# Largest error at the far position that float32 explains; the 163 classes of transformers that
# were measured have 0.0085 at most.
_ROUNDED = 0.03

Against = (
    RotaryEncoder
    | FourierEncoder
    | GaussianEncoder
    | GridSinusoidalEncoder
    | Mapping[str, Any]
    | str
    | Path
)

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

    def off(prepared: Callable[..., Any], end: int) -> Tensor:
        positions = torch.arange(end - _RANGE + 1, end + 1)
        probe = Probe(prepared, layer_type=layer_type)
        angles = positions.double()[:, None] * bands
        exact = torch.polar(torch.full_like(angles, scale), angles)
        return torch.view_as_real(probe.waves(positions) - exact)

    return _under_conditions(module, off, last)


def _under_conditions(
    module: Callable[..., Any],
    off: Callable[[Callable[..., Any], int], Tensor],
    last: Sequence[int],
) -> dict[str, dict[int, float | str]]:
    """The largest of the differences ``off`` for each range, under each of `CONDITIONS`."""
    found: dict[str, dict[int, float | str]] = {}
    for name, prepare in CONDITIONS.items():
        if name != "as built" and not isinstance(module, nn.Module):
            continue
        found[name] = {}
        for end in last:
            try:
                largest = float(off(prepare(module), end).abs().max())
                nothing = "not rebuilt" if prepare is _over_meta else "not finite"
                found[name][end] = largest if math.isfinite(largest) else nothing
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
        errors: largest errors by condition and position, or by the size of the coordinates.
        farthest: the last position that was compared, where the module goes no farther.
    """

    differences: tuple[str, ...]
    errors: dict[str, dict[int, float | str]]
    farthest: int | None = None

    @property
    def is_right(self) -> bool:
        """Whether no difference is found."""
        return not self.differences

    def __str__(self) -> str:
        end = "" if self.farthest is None else f" up to position {self.farthest:,}"
        lines = list(self.differences) or [f"right{end}"]
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
    """Say where a module differs from a preset or a configuration.

    Args:
        module: module or function that gives cosines and sines, angles or rotated queries of
            positions, features ``(n, width)`` of coordinates ``(n, in_dim)``, or the same of the
            patches of an image: called with rows and columns, a shape, positions ``(n, 2)``, pixels
            or ``grid_thw``.
        against: name of a preset, with its sizes for coordinates and grids, as
            ``"nerf-pytorch 3 10"`` or ``"mae 768"``; a configuration or its path; or an encoder.
        layer_type: type of the layers, where each has parameters of its own.

    Returns:
        The differences in words, and errors at far positions and after casts.

    Raises:
        ValueError: If what is expected is unknown.
        NotAskableError: If no usual way to call the module gives waves of the position.

    Examples:
        >>> from nerf_posenc_attention import RotaryEncoder
        >>> verdict = check(RotaryEncoder(128, pairing="half"), against="mistral")
        >>> verdict.differences
        ('the base is 10,000 instead of 1,000,000',)
    """
    name, _, sizes = against.strip().partition(" ") if isinstance(against, str) else ("", "", "")
    if name in FOURIER:
        against = _preset_of_coordinates(name, sizes.split())
    if isinstance(against, FourierEncoder | GaussianEncoder):
        return _check_coordinates(module, against, name or None)
    if name in GRID:
        against = GridSinusoidalEncoder.preset(name, *map(int, sizes.split()))
    if isinstance(against, GridSinusoidalEncoder):
        return _check_grid(module, against, name or None)
    expected = expected_encoder(against, layer_type=layer_type)
    if expected.in_dim > 1:
        return _check_grid(module, expected, _counting(against))
    probe = Probe(module, layer_type=layer_type)
    reach = probe.measure()
    found: list[str] = []
    for length in dict.fromkeys((_SHORT, reach.farthest)):
        expected = expected_encoder(against, layer_type=layer_type, length=length + 1)
        measured = probe.measure(min(length, reach.farthest))
        found += _differences(measured, expected, _unscaled(against, layer_type))
    expected = expected_encoder(against, layer_type=layer_type)
    bands = expected.frequency_bands[:, 0]
    if len(reach.bands) != len(bands):
        return Verdict(tuple(dict.fromkeys(found)), {})
    table = errors(module, bands, expected.scale, layer_type=layer_type, last=(NEAR,))
    far = expected_encoder(against, layer_type=layer_type, length=FAR + 1)
    bands = far.frequency_bands[:, 0]
    further = errors(module, bands, far.scale, layer_type=layer_type, last=(FAR,))
    off = further["as built"][FAR]
    if not found and isinstance(off, float) and off > _ROUNDED * far.scale:
        found.append(f"cosines are {off:.2g} off at position {FAR:,}, where rounding gives 0.01")
    table = {name: row | further[name] for name, row in table.items()}
    farthest = reach.farthest - 1 if isinstance(off, str) else None
    return Verdict(tuple(dict.fromkeys(found)), table, farthest)


def _counting(against: Against) -> str | None:
    """Name of the preset that says how patches are counted."""
    if isinstance(against, RotaryEncoder):
        return None
    if isinstance(against, str) and not Path(against).exists():
        return ROTARY.canonical(against)
    return image_preset(against)


def _check_grid(
    module: Callable[..., Any], expected: RotaryEncoder | GridSinusoidalEncoder, name: str | None
) -> Verdict:
    """Differences of a module of the patches of an image."""
    found, off = compare(module, expected, name)
    if found:
        return Verdict(tuple(found), {})
    return Verdict((), _under_conditions(module, lambda asked, _: off(asked), (_PATCHES,)))


def _preset_of_coordinates(name: str, sizes: Sequence[str]) -> FourierEncoder:
    if not 1 <= len(sizes) <= 2 or not all(size.isdecimal() for size in sizes):
        raise ValueError(
            f"give {name} with its coordinates and bands, as '{name} 3 10'; got {' '.join(sizes)!r}"
        )
    return FourierEncoder.preset(name, *map(int, sizes))


def _features(module: Callable[..., Any], points: Tensor) -> Tensor:
    try:
        with torch.no_grad():
            output = module(points)
    except Exception as error:  # Whatever the code of others raises.
        raise NotAskableError(f"{type(error).__name__}: {str(error)[:80]}") from None
    if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != len(points):
        raise NotAskableError(f"it gives no features (n, width) of points (n, {points.shape[1]})")
    return output


def _merf_contract(x: Tensor) -> Tensor:
    """MERF's contraction: the largest coordinate as ``contract``, the others divided by it."""
    size = x.abs().amax(-1, keepdim=True)
    shrunk = torch.where(x.abs() == size, (2 - 1 / size) * x.sign(), x / size)
    return torch.where(size > 1, shrunk, x)


_SPACES: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda x: x,
    "mip-NeRF 360 does: contract(x)": contract,
    "Nerfstudio does: contract(x, order=math.inf)": lambda x: contract(x, order=math.inf),
    "MERF does, which no line here computes": _merf_contract,
}


def _contraction(module: Callable[..., Any], encoder: nn.Module, points: Tensor) -> list[str]:
    """How a module contracts points outside of the unit box before it encodes them, in words."""
    with contextlib.suppress(NotAskableError):
        output = _features(module, points)
        for words, contracted in _SPACES.items():
            exact = encoder(contracted(points).double())
            if output.shape == exact.shape and float((output - exact).abs().max()) < _ROUGH:
                return [f"it contracts far coordinates as {words}"] if words else []
    return []


def _columns_beside(output: Tensor, exact: Tensor, points: Tensor) -> list[str]:
    """What stands before and behind the expected columns, in words; none if they are not there."""
    width = exact.shape[1]
    for first in range(output.shape[1] - width + 1):
        if float((output[:, first : first + width] - exact).abs().max()) < _ROUGH:
            beside = torch.cat([output[:, :first], output[:, first + width :]], dim=1)
            is_constant = (beside == beside[:1]).all(0)
            is_raw = (beside[..., None] == points[:, None]).all(0).any(-1)
            counts = {"constants": is_constant, "coordinates": is_raw & ~is_constant}
            counts["others"] = ~is_constant & ~is_raw
            parts = [f"{what} ({int(are.sum())})" for what, are in counts.items() if are.any()]
            return [f"beside the expected columns, from column {first}, are {', '.join(parts)}"]
    return []


def _check_coordinates(
    module: Callable[..., Any], encoder: FourierEncoder | GaussianEncoder, name: str | None
) -> Verdict:
    """Differences of features of coordinates; with the name of a preset, from its arguments."""
    generator = torch.Generator().manual_seed(0)
    points = 2 * torch.rand(_NUM_POINTS, encoder.in_dim, generator=generator) - 1
    output = _features(module, points)
    exact = encoder(points.double()).detach()
    contraction = _contraction(module, encoder, 2 * points)
    if contraction:
        return Verdict(tuple(contraction), {})
    found, is_as_wide = [], output.shape == exact.shape
    if not is_as_wide:
        found.append(f"there are {output.shape[1]} columns instead of {exact.shape[1]}")
        beside = _columns_beside(output, exact, points)
        if beside:
            return Verdict((*found, *beside), {})
    best, tolerance = None, Match.tolerance
    if isinstance(encoder, FourierEncoder):  # A sampled matrix is of no preset.
        try:
            best = identify(output, positions=points, expected=name)[0]
        except ValueError as error:  # Nothing has this width, or there are no numbers to compare.
            return Verdict(tuple(found or [str(error)]), {})
        tolerance = best.tolerance
    if is_as_wide and float((output - exact).abs().max()) < tolerance:

        def off(prepared: Callable[..., Any], boxes: int) -> Tensor:
            difference: Tensor = prepared(boxes * points) - encoder((boxes * points).double())
            return difference

        return Verdict((), _under_conditions(module, off, _BOXES))
    shares = (one / one.norm() for one in (output, exact))
    if is_as_wide and float(torch.sub(*shares).abs().max()) < tolerance:
        found.append(f"features are times {float(output.norm() / exact.norm()):.6g}")
    if best is not None and best.is_exact:
        found += [f"it has {change}" for change in best.changes]
        found.append(f"it computes {best.line}")
    return Verdict(tuple(found or ["it is another encoding"]), {})


def assert_encoding(
    module: Callable[..., Any], against: Against, *, layer_type: str | None = None
) -> None:
    """Raise if a module does not compute the encoding of a preset or a configuration.

    Args:
        module: module or function, as of `check`.
        against: name of a preset, a configuration or its path, or an encoder, likewise.
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
    if abs(shift) > SAME_SCALE:
        found.append(f"positions begin at {shift:.6g} instead of 0")
    found += _band_differences(bands, exact, plain, measured.slack)
    if abs(measured.scale - expected.scale) > SAME_SCALE:
        missing = abs(measured.scale - 1) < SAME_SCALE
        found.append(
            f"the attention factor {expected.scale:.6g} is missing"
            if missing
            else f"cosines and sines are times {measured.scale:.6g} instead of {expected.scale:.6g}"
        )
    pairing = {"tiled": "", "axis-half": "half"}.get(expected.pairing, expected.pairing)
    # Code that rotates neighbors may take tables of halves and repeat them itself.
    is_table = measured.form != "rotated queries"
    may_be = ("", pairing, *(("half",) if is_table and pairing == "interleaved" else ()))
    if measured.form == "features, sines first":
        found.append("sines come first in one table, as in an embedding that is added")
    elif measured.pairing not in may_be and not measured.form.startswith("features"):
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
        if ratio > 1 + SAME_SCALE and same_bands(bands, plain[0] / ratio, slack):
            if plain[1] == "linear":
                return [f"linear scaling is by {ratio:.6g} instead of {plain[0][0] / exact[0]:.6g}"]
            return [f"{title} is taken as linear by {ratio:.6g}"]
        rounded = rounding_of(bands, plain[0], slack)
        if rounded:
            return [f"{title} is not applied", f"frequencies were rounded to {rounded}"]
    if same_bands(bands.sort()[0], exact.sort()[0], slack):
        return ["the pairs are in another order"]
    ratio = float(bands[0] / exact[0])
    if abs(ratio - 1) > _SAME_RATIO and same_bands(bands, exact * ratio, slack):
        return [f"positions are times {ratio:.6g}"]
    share = float(((bands - exact).abs() / exact.abs().clamp(min=1e-12)).max())
    if share < _NEAR_SHARE:
        return [f"the bands are off by up to {share:.1e} of themselves"]
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
