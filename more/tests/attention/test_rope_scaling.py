"""Bands of rotary embeddings beyond the trained length, against the libraries' float32 ones."""

import math

import pytest
import torch
from torch import Tensor

from more.tools.library_numbers import arrays
from nerf_posenc import geometric_bands
from nerf_posenc_attention import (
    dynamic_ntk_bands,
    llama3_bands,
    longrope_bands,
    longrope_scale,
    ntk_bands,
    p_rope_bands,
    yarn_bands,
    yarn_scale,
)


@pytest.mark.parametrize(
    ("entry", "bands", "scale"),
    [
        ("llama3", llama3_bands(128), 1.0),
        ("llama3-one-limit", llama3_bands(128, factor=16.0, fast_cycles=1.0), 1.0),
        (
            "yarn-one-limit",
            yarn_bands(128, factor=32.0, trained_length=4096, base=50_000.0, fast_cycles=1.0),
            1.0,
        ),
        ("dynamic-ntk", dynamic_ntk_bands(128, length=64, trained_length=32, factor=4.0), 1.0),
        ("yarn", yarn_bands(128, factor=4.0, trained_length=4096), yarn_scale(4.0)),
        (
            "yarn-mscale",
            yarn_bands(128, factor=40.0, trained_length=4096),
            yarn_scale(40.0) / yarn_scale(40.0, strength=0.5),
        ),
        (
            "yarn-no-truncate",
            yarn_bands(128, factor=32.0, trained_length=4096, base=150_000.0, truncate=False),
            yarn_scale(32.0),
        ),
        (
            "longrope-short",
            longrope_bands(128, [1 + 0.01 * i for i in range(64)]),
            longrope_scale(256 / 64, 64),
        ),
    ],
)
def test_they_are_those_of_transformers(entry: str, bands: Tensor, scale: float) -> None:
    stored = arrays()
    torch.testing.assert_close(bands, stored[f"{entry}/inv_freq"], rtol=1e-6, atol=0)
    assert scale == pytest.approx(float(stored[f"{entry}/attention_factor"]), rel=1e-6)


def test_dynamic_bands_are_the_plain_ones_up_to_the_trained_length() -> None:
    for length in (1, 32):
        bands = dynamic_ntk_bands(16, length=length, trained_length=32, factor=2.0)
        assert torch.equal(bands, geometric_bands(8))
    longer = dynamic_ntk_bands(16, length=64, trained_length=32)
    assert longer[-1] * 2 == pytest.approx(float(geometric_bands(8)[-1]))


def test_llama3_keeps_fast_bands_and_divides_slow_ones() -> None:
    plain, scaled = geometric_bands(64, base=5e5), llama3_bands(128)
    cycles = 8192 * plain / (2 * math.pi)
    assert torch.equal(scaled[cycles > 4], plain[cycles > 4])
    torch.testing.assert_close(scaled[cycles < 1], plain[cycles < 1] / 8, rtol=1e-12, atol=0)
    between = (cycles > 1) & (cycles < 4)
    assert bool(((scaled < plain) & (scaled > plain / 8))[between].all())


def test_p_rope_leaves_slow_pairs_unrotated() -> None:
    bands = p_rope_bands(16, fraction=0.75)
    assert torch.equal(bands[:6], geometric_bands(8)[:6])
    assert bands[6:].tolist() == [0.0, 0.0]


def test_what_does_not_fit_is_refused() -> None:
    for call, message in (
        (lambda: longrope_bands(8, [1.0, 2.0]), "4 positive numbers"),
        (lambda: longrope_scale(0.5, 64), "factor must be 1 or more"),
        (lambda: yarn_scale(0.5), "factor must be 1 or more"),
        (lambda: p_rope_bands(8, fraction=1.5), "fraction must be 0 to 1"),
        (lambda: llama3_bands(8, slow_cycles=5.0), "0 < slow_cycles <= fast_cycles"),
        (lambda: dynamic_ntk_bands(8, length=0, trained_length=4), "length must be 1 or more"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("dim", [2, 0, 5, 3])
def test_bands_are_only_scaled_in_even_widths_from_4_on(dim: int) -> None:
    for call in (
        lambda: ntk_bands(dim, factor=2.0),
        lambda: yarn_bands(dim, factor=2.0, trained_length=64),
        lambda: dynamic_ntk_bands(dim, length=9, trained_length=4),
    ):
        with pytest.raises(ValueError, match="dim must be an even number"):
            call()
    assert len(ntk_bands(4, factor=2.0)) == 2


@pytest.mark.parametrize("factor", [0.99, -1.0, math.inf, math.nan])
def test_bands_are_never_scaled_to_shorter_sequences(factor: float) -> None:
    for call in (
        lambda: ntk_bands(8, factor=factor),
        lambda: yarn_bands(8, factor=factor, trained_length=64),
    ):
        with pytest.raises(ValueError, match="factor must be 1 or more"):
            call()
    assert torch.equal(ntk_bands(8, factor=1.0), geometric_bands(4))
    for wrong in ({"trained_length": 0}, {"fast_cycles": 0.9}, {"slow_cycles": 0.0}):
        with pytest.raises(ValueError, match="0 < slow_cycles <= fast_cycles"):
            yarn_bands(8, factor=2.0, **{"trained_length": 64, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_all_or_none_of_the_pairs_may_be_rotated(fraction: float) -> None:
    assert torch.equal(p_rope_bands(8, fraction=fraction), geometric_bands(4) * fraction)
    with pytest.raises(ValueError, match="fraction must be 0 to 1"):
        p_rope_bands(8, fraction=-0.1)
