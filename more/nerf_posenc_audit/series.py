"""Names of series of bands: base, scaling with its parameters, rounding.

A rotary embedding of a language model has one series of bands, and what is done to it for longer
sequences has a name. `name_bands` fits these names to measured bands, the simplest first.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nerf_posenc.core.bands import geometric_bands
from nerf_posenc_attention.rope_scaling import llama3_bands, p_rope_bands, yarn_bands

# Relative difference of bands that float32 explains, in its arithmetic and in the measurement.
SAME = 5e-6
# Largest relative difference of a band that is rounded to bfloat16 or float16.
_ROUNDED = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-10}
# Lengths that models are trained with.
_LENGTHS = tuple(step * 2**k for k in range(3, 15) for step in (64, 96))
# Bands of the fast end that tell the base.
_FEW = 4


@dataclass(frozen=True)
class Series:
    """A series of bands by name.

    Attributes:
        kind: ``default``, ``linear``, ``yarn``, ``llama3``, ``proportional`` or ``last wavelength
            reached``.
        base: ratio of the longest wavelength to the shortest.
        bands: its exact bands, ``(num_bands,)``.
        parameters: parameters of the scaling, under the names of transformers.
        rounded: ``bfloat16`` or ``float16`` if the bands are rounded to it.
    """

    kind: str
    base: float
    bands: Tensor = field(repr=False, compare=False)
    parameters: dict[str, float] = field(default_factory=dict)
    rounded: str = ""

    @property
    def code(self) -> str:
        """Code that gives its exact bands."""
        dim, given = 2 * len(self.bands), self.parameters
        scaled = f"factor={given.get('factor', 1)!r}, base={self.base!r}"
        scaled += f", trained_length={int(given.get('original_max_position_embeddings', 0))}"
        if self.kind == "yarn":
            fast = given.get("beta_fast", 32.0)
            is_whole = given.get("truncate", 1) == 1
            return f"yarn_bands({dim}, {scaled}, fast_cycles={fast!r}, truncate={is_whole})"
        if self.kind == "llama3":
            return f"llama3_bands({dim}, {scaled}, fast_cycles={given['high_freq_factor']!r})"
        if self.kind == "proportional":
            share = given["partial_rotary_factor"]
            return f"p_rope_bands({dim}, fraction={share!r}, base={self.base!r})"
        if self.kind == "linear":
            return f"geometric_bands({dim // 2}, base={self.base!r}) / {given['factor']!r}"
        ends = ", shift=1" if self.kind.startswith("last") else ""
        return f"geometric_bands({dim // 2}, base={self.base!r}{ends})"

    def __str__(self) -> str:
        words = [] if self.kind == "default" else [self.kind]
        words += [f"{name} {value:g}" for name, value in self.parameters.items()]
        words.append(f"base {self.base:,.10g}")
        words += [f"rounded to {self.rounded}"] if self.rounded else []
        return ", ".join(words)


def same_bands(measured: Tensor, bands: Tensor, slack: float = 0.0) -> bool:
    """Whether two series are equal up to rounding in float32.

    Args:
        measured: measured bands, ``(num_bands,)``.
        bands: bands that they may be.
        slack: absolute error of the measurement, in radians per position.
    """
    if measured.shape != bands.shape:
        return False
    return bool(((measured - bands).abs() <= SAME * bands.abs() + slack).all())


def rounding_of(measured: Tensor, bands: Tensor, slack: float = 0.0) -> str:
    """Type that bands were rounded to: ``bfloat16``, ``float16`` or none, an empty text.

    Args:
        measured: measured bands.
        bands: bands before they were rounded.
        slack: absolute error of the measurement.
    """
    if measured.shape != bands.shape or same_bands(measured, bands, slack):
        return ""
    for dtype in _ROUNDED:
        # Denormal numbers of float16 have fewer digits still, and some devices none of them.
        if same_bands(measured, bands.to(dtype).double(), slack):
            return str(dtype).removeprefix("torch.")
    return ""


def name_bands(bands: Tensor, slack: float = 0.0, *, is_scaled: bool = False) -> Series | None:
    """Name a series of bands.

    Args:
        bands: measured bands in the order of the pairs, ``(num_bands,)``, in float64.
        slack: absolute error of the measurement, in radians per position.
        is_scaled: whether cosines and sines have a factor, which Llama 3's have not.

    Returns:
        The simplest series with these bands; None if none has them.
    """
    if len(bands) < 2 or not bool((bands > -slack - 1e-9).all()) or float(bands.max()) <= slack:
        return None
    for found in _candidates(bands, slack):
        if same_bands(bands, found.bands, slack) and not (is_scaled and found.kind == "llama3"):
            return found
    for plain in _rounded_candidates(bands):
        rounded = rounding_of(bands, plain.bands, slack)
        if rounded:
            return Series(plain.kind, plain.base, plain.bands, plain.parameters, rounded)
    return None


def _candidates(bands: Tensor, slack: float) -> Iterator[Series]:
    """Series that bands without rounding may have."""
    count, dim = len(bands), 2 * len(bands)
    turning = bands > slack
    num_turning = int(turning.sum())
    if num_turning < 2 or not bool(turning[:num_turning].all()):
        return
    if num_turning < count:
        # The last pairs are not rotated; the others have bands as if all were.
        base = _base(bands[:num_turning], count)
        share = num_turning / count
        for one in _short_forms(base):
            exact = p_rope_bands(dim, fraction=share, base=one)
            yield Series("proportional", one, exact, {"partial_rotary_factor": share})
        return
    first = float(bands[0])
    for base in _short_forms(_base(bands, count)):
        plain = geometric_bands(dim // 2, base=base)
        if abs(first - 1) < SAME:
            yield Series("default", base, plain)
        elif first < 1:
            factor = float(f"{1 / first:.6g}")
            yield Series("linear", base, plain / factor, {"factor": factor})
    if abs(first - 1) < SAME and count > 2:
        # The longest wavelength is reached: the exponents of count bands end at 1.
        for base in _short_forms(_base(bands, count - 1)):
            exact = geometric_bands(count, base=base, shift=1)
            yield Series("last wavelength reached", base, exact)
    yield from _ramps(bands, slack)


def _base(bands: Tensor, count: int) -> float:
    """Base of a series by its slope, to which slow bands, known less exactly, add little."""
    steps = torch.arange(len(bands), dtype=torch.float64)
    weight = bands.clamp(max=1)
    weight = weight / weight.sum()
    away = steps - (weight * steps).sum()
    logs = bands.log()
    slope = (weight * away * logs).sum() / (weight * away.square()).sum()
    return math.exp(min(-float(slope) * count, 100.0))


def _short_forms(value: float) -> Iterator[float]:
    """Numbers of few digits that a measured one may be, the shortest first."""
    yield from dict.fromkeys(float(f"{value:.{digits}g}") for digits in (1, 2, 3, 4, 6, 12))


def _ramps(bands: Tensor, slack: float) -> Iterator[Series]:
    """YaRN and Llama 3: fast bands are kept, slow ones divided, with a ramp between."""
    count, dim = len(bands), 2 * len(bands)
    if count <= _FEW or abs(float(bands[0]) - 1) > SAME:
        return
    for base in _short_forms(_base(bands[:_FEW], count)):
        plain = geometric_bands(dim // 2, base=base)
        ratio = bands / plain
        if bool(((ratio[:_FEW] - 1).abs() > SAME).any()):
            continue
        # The slowest bands that are divided; the very slowest are measured the least exactly.
        divided = ratio[(ratio - ratio.min()).abs() <= 2 * slack / plain + SAME]
        for factor in _short_forms(1 / float(divided.max())):
            if not factor > 1 + SAME:
                continue
            # Share of each band that is kept, from 1 down to 0.
            kept = (ratio - 1 / factor) / (1 - 1 / factor)
            unsure = 1e-3 + 4 * slack / plain
            inside = (kept > unsure) & (kept < 1 - unsure)
            yield from _llama3(plain, kept, inside, factor, base)
            yield from _yarn(factor, base, dim)


def _line(x: Tensor, y: Tensor) -> tuple[float, float]:
    """Slope and value at 0 of the line through points."""
    away = x - x.mean()
    slope = float((away * y).sum() / away.square().sum())
    return slope, float(y.mean()) - slope * float(x.mean())


def _llama3(
    plain: Tensor, kept: Tensor, inside: Tensor, factor: float, base: float
) -> Iterator[Series]:
    """The ramp is linear in the cycles over the trained length, of which 1 is the usual end."""
    dim = 2 * len(plain)
    pairs: list[tuple[int, float]] = [(8192, 4.0)]
    if int(inside.sum()) > 1:
        slope, at_zero = _line(plain[inside], kept[inside])
        if slope > 0 > at_zero:
            fast = 1 - 1 / at_zero
            fast = float(f"{fast:.3g}")
            length = 2 * math.pi * slope * (fast - 1)
            nearest = min(_LENGTHS, key=lambda one: abs(one - length))
            pairs += [(nearest, fast), (round(length), fast)]
    elif not inside.any():
        pairs = [(length, 1.0) for length in _LENGTHS]  # Llama 4 has a step.
    for length, fast in pairs:
        if length < 1 or fast < 1:
            continue
        exact = llama3_bands(dim, factor=factor, trained_length=length, base=base, fast_cycles=fast)
        yield Series("llama3", base, exact, _parameters(factor, length, high_freq_factor=fast))


def _yarn(factor: float, base: float, dim: int) -> Iterator[Series]:
    """The ramp is linear in the index; the trained length says where, up to whole bands."""
    ramps = ((32.0, True), (32.0, False), (1.0, True), (16.0, True), (8.0, True))
    for length in _LENGTHS:
        for fast, truncate in ramps:
            exact = yarn_bands(
                dim,
                factor=factor,
                trained_length=length,
                base=base,
                fast_cycles=fast,
                truncate=truncate,
            )
            given = {} if fast == 32 else {"beta_fast": fast}
            given |= {} if truncate else {"truncate": 0}
            yield Series("yarn", base, exact, _parameters(factor, length, **given))


def _parameters(factor: float, length: float, **others: float) -> dict[str, float]:
    return {"factor": factor, "original_max_position_embeddings": length, **others}


def _rounded_candidates(bands: Tensor) -> Iterator[Series]:
    """Series that rounded bands may come from: usual bases, unscaled or as Llama 3.1 has them."""
    count, dim = len(bands), 2 * len(bands)
    positive = bands[bands > 0]
    if len(positive) < _FEW:
        return
    measured = _base(positive, count)
    bases = dict.fromkeys(
        float(f"{measured * (1 + step / 100):.{digits}g}")
        for digits in (1, 2)
        for step in range(-20, 21)
    )
    for base in sorted(bases, key=lambda one: abs(math.log(one / measured))):
        yield Series("default", base, geometric_bands(dim // 2, base=base))
    base = 500_000.0
    parameters: dict[str, Any] = _parameters(8.0, 8192, high_freq_factor=4.0)
    yield Series("llama3", base, llama3_bands(dim), parameters)
