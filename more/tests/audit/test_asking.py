"""What modules are found to compute, and mutants of right ones, each of which is named."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nerf_posenc import SinusoidalEncoder, geometric_bands
from nerf_posenc_attention import RotaryEncoder
from nerf_posenc_audit import NotAskableError, ask, assert_encoding, check, identify
from nerf_posenc_audit.catalog.index import imports_of

SIZES = {"head_dim": 128, "max_position_embeddings": 131_072}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
FACTORS = [1 + 0.3 * i for i in range(64)]
# Configurations of models of ten families.
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": SIZES | {"rope_theta": 500_000.0},
    "llama3": SIZES | {"rope_parameters": LLAMA3 | {"rope_theta": 500_000.0}},
    "qwen3 with YaRN": SIZES | {"rope_parameters": YARN | {"rope_theta": 1e6}},
    "gpt-oss": {
        "head_dim": 64,
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 32.0,
            "truncate": False,
            "original_max_position_embeddings": 4096,
            "rope_theta": 150_000.0,
        },
    },
    "deepseek": {
        "qk_rope_head_dim": 64,
        "rope_theta": 10_000,
        "rope_scaling": {
            "type": "yarn",
            "factor": 40,
            "original_max_position_embeddings": 4096,
            "mscale": 1.0,
            "mscale_all_dim": 0.5,
        },
    },
    "gemma3": {"head_dim": 256, "rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 8}},
    "gpt-neox": {"model_type": "gpt_neox", "hidden_size": 768, "num_attention_heads": 8},
    "phi3 long": SIZES
    | {
        "rope_theta": 10_000.0,
        "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "longrope", "short_factor": FACTORS, "long_factor": FACTORS},
    },
    "llama 2, longer": SIZES
    | {
        "model_type": "llama",
        "max_position_embeddings": 4096,
        "rope_scaling": {"type": "dynamic", "factor": 2.0},
    },
    "mistral": SIZES | {"rope_theta": 1e6},
}


class Table(nn.Module):
    """Cosines and sines as a language model's code has them, with a fault of choice.

    Args:
        config: configuration.
        change: function from bands and scale to others.
        offset: added to positions.
        is_exchanged: return the sine first.
    """

    def __init__(
        self,
        config: dict[str, Any],
        change: Callable[[Tensor, float], tuple[Tensor, float]] | None = None,
        offset: int = 0,
        is_exchanged: bool = False,
    ) -> None:
        super().__init__()
        self.config, self.offset, self.is_exchanged = config, offset, is_exchanged
        self.change = (lambda bands, scale: (bands, scale)) if change is None else change

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of positions ``(batch, length)``."""
        length = int(position_ids.max()) + 1
        encoder = RotaryEncoder.from_config(self.config, length=length)
        bands, scale = self.change(encoder.frequency_bands[:, 0], encoder.scale)
        changed = RotaryEncoder(2 * len(bands), frequencies=bands, pairing="half", scale=scale)
        cosine, sine = changed(position_ids + self.offset)
        pair = (sine, cosine) if self.is_exchanged else (cosine, sine)
        return pair[0].to(x.dtype), pair[1].to(x.dtype)


def plain(config: dict[str, Any], bands: Tensor) -> Tensor:
    """Bands without the scaling of a configuration."""
    given = config.get("rope_parameters") or config
    return geometric_bands(len(bands), base=given.get("rope_theta", 10_000.0))


def mutant(name: str, config: dict[str, Any]) -> Table:
    """A table with a fault."""
    changes: dict[str, Any] = {
        "scaling dropped": dict(change=lambda b, s: (plain(config, b), 1.0)),
        "factor wrong": dict(change=lambda b, s: (b / 2, s)),
        "base": dict(change=lambda b, s: (geometric_bands(len(b), base=20_000.0), s)),
        "swapped halves": dict(is_exchanged=True),
        "sign": dict(change=lambda b, s: (-b, s)),
        "rounded": dict(change=lambda b, s: (b.bfloat16().double(), s)),
        "off by one": dict(offset=1),
        "partial width": dict(change=lambda b, s: (b[: len(b) // 2], s)),
    }
    return Table(config, **changes[name])


NAMED = {
    "scaling dropped": "is not applied",
    "factor wrong": "times 0.5|linear by 2|by 16 instead of 8",
    "base": "the base is 20,000|base 20,000",
    "swapped halves": "exchanged",
    "sign": "the other way",
    "rounded": "rounded to bfloat16",
    "off by one": "begin at 1 instead of 0",
    "partial width": "columns are rotated instead of",
}


@pytest.mark.parametrize("config", CONFIGS)
def test_right_tables_are_right(config: str) -> None:
    verdict = check(Table(CONFIGS[config]), against=CONFIGS[config])
    assert verdict.is_right, str(verdict)
    assert all(isinstance(e, float) and e < 1e-6 for e in verdict.errors["as built"].values())
    assert_encoding(Table(CONFIGS[config]), CONFIGS[config])


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("config", CONFIGS)
def test_every_mutant_is_named(config: str, name: str) -> None:
    has_scaling = any(key in CONFIGS[config] for key in ("rope_scaling", "rope_parameters"))
    if name == "scaling dropped" and not has_scaling:
        # There is no scaling to drop; one that nobody asked for is the same fault.
        module = Table(CONFIGS[config] | {"rope_scaling": {"type": "linear", "factor": 4.0}})
        expected = "times 0.25"
    else:
        module, expected = mutant(name, CONFIGS[config]), NAMED[name]
    verdict = check(module, against=CONFIGS[config])
    assert any(part in line for line in verdict.differences for part in expected.split("|")), (
        verdict.differences
    )
    with pytest.raises(AssertionError, match=verdict.differences[0][:20]):
        assert_encoding(module, CONFIGS[config])


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("llama", "base 500,000"),
        ("llama3", "llama3, factor 8, original_max_position_embeddings 8192"),
        ("qwen3 with YaRN", "yarn, factor 4, original_max_position_embeddings 32768"),
        ("gpt-oss", "original_max_position_embeddings 4096, truncate 0, base 150,000"),
        ("deepseek", "yarn, factor 40, original_max_position_embeddings 4096"),
        ("gemma3", "linear, factor 8, base 1,000,000"),
    ],
)
def test_scalings_are_named_with_their_parameters(name: str, answer: str) -> None:
    found = ask(Table(CONFIGS[name]))
    assert answer in str(found)
    assert found.unseen < 1e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["llama", "llama3", "mistral"])
def test_rounding_is_named(name: str, dtype: torch.dtype) -> None:
    rounded = Table(CONFIGS[name], lambda bands, scale: (bands.to(dtype).double(), scale))
    assert f"rounded to {str(dtype).removeprefix('torch.')}" in ask(rounded).name


def angles(t: Tensor) -> Tensor:
    return t[:, None] * geometric_bands(32)


def complex_numbers(end: int) -> Tensor:
    table = RotaryEncoder(64).tables(torch.arange(end), "complex")
    assert isinstance(table, Tensor)
    return table


def rotated(x: Tensor, input_pos: Tensor) -> Tensor:
    return RotaryEncoder(64).rotate(x, input_pos, sequence_dim=-3)


def rotated_rows(x: Tensor) -> Tensor:
    return RotaryEncoder(64, pairing="half").rotate(x)


def features(timesteps: Tensor) -> Tensor:
    cosine, sine = RotaryEncoder(64).tables(timesteps, "half")
    return torch.cat([sine[..., :32], cosine[..., :32]], -1)


@pytest.mark.parametrize(
    ("function", "form"),
    [
        (angles, "angles"),
        (complex_numbers, "complex numbers"),
        (rotated, "rotated queries"),
        (rotated_rows, "rotated queries"),
        (features, "features, sines first"),
    ],
)
def test_usual_ways_to_return_waves_are_read(function: Callable[..., Any], form: str) -> None:
    found = ask(function)
    assert found.measured.form == form
    assert found.name == "base 10,000"
    assert "llama" in found.presets or "roformer" in found.presets


@pytest.mark.parametrize("name", ["llama", "llama3", "qwen3 with YaRN", "gemma3", "gpt-oss"])
def test_identify_takes_modules_and_gives_a_line(name: str) -> None:
    best = identify(Table(CONFIGS[name]))[0]
    names: dict[str, Any] = {"torch": torch, "RotaryEncoder": RotaryEncoder}
    exec("\n".join(imports_of(best.line)), names)
    names["geometric_bands"] = geometric_bands
    made, expected = eval(best.line, names), RotaryEncoder.from_config(CONFIGS[name])
    torch.testing.assert_close(made.frequency_bands, expected.frequency_bands, rtol=1e-5, atol=0)
    assert made.scale == pytest.approx(expected.scale, rel=1e-6)


def test_scalings_of_arrays_are_named() -> None:
    query = torch.randn(400, 128)
    encoder = RotaryEncoder.from_config(CONFIGS["qwen3 with YaRN"])
    best = identify(
        encoder.rotate(query, torch.arange(400)), before=query, positions=torch.arange(400)
    )[0]
    assert best.is_exact
    assert "yarn, factor 4, original_max_position_embeddings 32768, base 1,000,000" in best.name


def test_casts_are_measured() -> None:
    class Cast(nn.Module):
        """Bands in a buffer, as a cast reaches them."""

        def __init__(self) -> None:
            super().__init__()
            self.bands: Tensor
            self.register_buffer("bands", geometric_bands(32).float(), persistent=False)

        def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
            wave = torch.polar(torch.ones(1), position_ids[..., None].float() * self.bands.float())
            return wave.real.to(x.dtype), wave.imag.to(x.dtype)

    verdict = check(Cast(), against={"head_dim": 64, "rope_theta": 10_000})
    assert verdict.is_right
    assert verdict.errors["as built"][4095] < 1e-3  # type: ignore[operator]
    assert verdict.errors["after .to(bfloat16)"][4095] > 0.1  # type: ignore[operator]
    assert verdict.errors["after meta"][4095] == "not rebuilt"
    assert "bfloat16" in str(verdict)


def test_what_cannot_be_asked_is_said() -> None:
    with pytest.raises(NotAskableError, match="'speed' is not understood"):
        ask(lambda positions, speed: positions)
    with pytest.raises(NotAskableError):
        ask(lambda positions: positions[:, None].expand(-1, 4) ** 2)
    with pytest.raises(ValueError, match="no preset"):
        check(angles, against="lama")


def test_right_is_said_of_what_was_compared_alone() -> None:
    config = {"model_type": "llama", "rope_theta": 10_000, "head_dim": 128}
    bands = geometric_bands(64)

    def table(own: Tensor, repeat: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Any]:
        def call(positions: Tensor) -> tuple[Tensor, Tensor]:
            angles = repeat(positions[:, None].double() * own)
            return angles.cos(), angles.sin()

        return call

    def halves(angles: Tensor) -> Tensor:
        return torch.cat([angles, angles], 1)

    assert check(table(bands, halves), against=config).is_right
    neighbors = check(table(bands, lambda a: a.repeat_interleave(2, 1)), against=config)
    assert neighbors.differences == ("columns are paired as 'interleaved' instead of 'half'",)
    noise = 1 + 1e-6 * torch.linspace(-1, 1, 64, dtype=torch.float64)
    assert "off at position 131,071" in str(check(table(bands * noise, halves), against=config))
    (added,) = check(SinusoidalEncoder(128), against=config).differences
    assert added.startswith("sines come first in one table")
