"""The bands of each ``rope_type`` of a configuration: unscaled, linear, YaRN and the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nerf_posenc.core.bands import bands_of_width
from nerf_posenc_attention.rope_scaling import (
    dynamic_ntk_bands,
    llama3_bands,
    longrope_bands,
    longrope_scale,
    ntk_bands,
    p_rope_bands,
    yarn_bands,
    yarn_scale,
)

TRAINED = "original_max_position_embeddings"
YARN = frozenset({"beta_fast", "beta_slow", "mscale", "mscale_all_dim"})


@dataclass(frozen=True)
class Series:
    """What the bands of a model depend on.

    Attributes:
        parameters: the model's rope parameters.
        head_dim: width of a head.
        dim: number of its columns that are rotated, which may be odd.
        base: ratio of the longest wavelength to the shortest.
        trained_length: length used in training, before any scaling; None if not given.
        max_length: longest sequence that the model is meant for; None if not given.
        length: length of the sequences to encode; None is the trained length.
    """

    parameters: Mapping[str, Any]
    head_dim: int
    dim: int
    base: float
    trained_length: int | None
    max_length: int | None
    length: int | None

    def required(self, key: str) -> Any:
        """A parameter that the scaling cannot do without."""
        value = self.parameters.get(key)
        if value is None:
            raise ValueError(f"the rope parameters have no {key!r}, which this scaling needs")
        return value

    def number(self, key: str) -> float:
        """A required parameter that is a positive number."""
        return positive(self.required(key), key)

    def number_or(self, key: str, default: float) -> float:
        """A parameter that is a number of 0 or more; the default where it is missing or 0."""
        value = self.parameters.get(key)
        return positive(value, key) if value else default

    @property
    def before_scaling(self) -> int:
        """Length used in training, which YaRN, Llama 3 and LongRoPE need."""
        found = self.trained_length or self.parameters.get(TRAINED) or self.max_length
        if found is None:
            raise ValueError(f"the config needs {TRAINED!r} or 'max_position_embeddings'")
        return whole(found, TRAINED)

    @property
    def factor(self) -> float:
        """Ratio of the longest sequence to the trained length."""
        given = self.parameters.get("factor")
        if given is not None:
            return positive(given, "factor")
        if self.trained_length is None and self.parameters.get(TRAINED) is None:
            raise ValueError(f"the rope parameters need 'factor' or {TRAINED!r}")
        return (self.max_length or self.before_scaling) / self.before_scaling


def _unscaled(series: Series) -> tuple[Tensor, float]:
    return bands_of_width(series.dim, base=series.base), 1.0


def _linear(series: Series) -> tuple[Tensor, float]:
    return bands_of_width(series.dim, base=series.base) / series.number("factor"), 1.0


def _dynamic(series: Series) -> tuple[Tensor, float]:
    if series.parameters.get("alpha"):  # HunYuan: a fixed factor, by the name of the growing one.
        return ntk_bands(series.dim, factor=series.number("alpha"), base=series.base), 1.0
    trained = series.max_length or series.before_scaling
    length = max(series.length or trained, trained)
    factor = series.number("factor")
    return dynamic_ntk_bands(
        series.dim, length=length, trained_length=trained, factor=factor, base=series.base
    ), 1.0


def _yarn(series: Series) -> tuple[Tensor, float]:
    given, factor = series.parameters, series.factor
    bands = yarn_bands(
        series.dim,
        factor=factor,
        trained_length=series.before_scaling,
        base=series.base,
        fast_cycles=series.number_or("beta_fast", 32.0),
        slow_cycles=series.number_or("beta_slow", 1.0),
        truncate=given.get("truncate", True),
    )
    if given.get("attention_factor") is not None:
        return bands, series.number("attention_factor")
    over, under = (series.number_or(key, 0.0) for key in ("mscale", "mscale_all_dim"))
    if over and under:
        return bands, yarn_scale(factor, strength=over) / yarn_scale(factor, strength=under)
    return bands, yarn_scale(factor)


def _llama3(series: Series) -> tuple[Tensor, float]:
    return llama3_bands(
        series.dim,
        factor=series.number("factor"),
        trained_length=series.before_scaling,
        base=series.base,
        slow_cycles=series.number("low_freq_factor"),
        fast_cycles=series.number("high_freq_factor"),
    ), 1.0


def _longrope(series: Series) -> tuple[Tensor, float]:
    trained = series.before_scaling
    is_long = series.length is not None and series.length > trained
    key = "long_factor" if is_long else "short_factor"
    factors = series.required(key)
    if not isinstance(factors, list | tuple):
        raise ValueError(f"{key} must be a list of numbers; got {factors!r}")
    factors = [positive(factor, key) for factor in factors]
    # Phi-3.5 MoE has a scale for each list.
    keys = ("attention_factor", "long_mscale" if is_long else "short_mscale")
    given = next((key for key in keys if series.parameters.get(key) is not None), None)
    own = longrope_scale(max(series.factor, 1.0), trained) if given is None else 1.0
    scale = own if given is None else series.number(given)
    return longrope_bands(series.dim, factors, base=series.base), scale


def _proportional(series: Series) -> tuple[Tensor, float]:
    share = series.number_or("partial_rotary_factor", 1.0)
    bands = p_rope_bands(series.head_dim, fraction=share, base=series.base)
    return bands / series.number_or("factor", 1.0), 1.0


# The bands and the factor of cosines and sines of each scaling, and the keys that it reads.
SCALINGS: dict[str, tuple[Callable[[Series], tuple[Tensor, float]], frozenset[str]]] = {
    "default": (_unscaled, frozenset()),
    "linear": (_linear, frozenset({"factor"})),
    "dynamic": (_dynamic, frozenset({"factor", "alpha"})),
    "yarn": (_yarn, YARN | {"factor", TRAINED, "attention_factor", "truncate"}),
    "llama3": (_llama3, frozenset({"factor", TRAINED, "low_freq_factor", "high_freq_factor"})),
    "longrope": (
        _longrope,
        frozenset({"factor", TRAINED, "attention_factor", "short_factor", "long_factor"})
        | {"short_mscale", "long_mscale"},
    ),
    "proportional": (_proportional, frozenset({"factor"})),
}


def positive(value: Any, key: str) -> float:
    """A positive number; a ValueError for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:
        raise ValueError(f"{key!r} must be a positive number; got {value!r}")
    return float(value)


def whole(value: Any, key: str) -> int:
    """A positive integer, which a config may write with a point."""
    if positive(value, key) != int(value):
        raise ValueError(f"{key!r} must be an integer; got {value!r}")
    return int(value)
