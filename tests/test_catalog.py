"""Presets of all encoders by name."""

import math

import pytest
import torch
from torch import Tensor

from nerf_posenc import RotaryEncoder, SinusoidalEncoder, find_presets, preset
from nerf_posenc.presets import FOURIER, GRID, ROTARY, SEQUENCE
from nerf_posenc.presets.catalog import PRESETS


def test_names_and_aliases_are_of_one_preset_each() -> None:
    names = [name for table in (FOURIER, GRID, ROTARY, SEQUENCE) for name in table]
    aliases = [alias for row in PRESETS.values() for alias in row.aliases]
    assert len(set(names)) == len(names)
    # A library whose name was given to both its encodings.
    assert {alias for alias in aliases if alias in names} == {"timm"}
    assert len(set(aliases)) == len(aliases)


def test_every_preset_is_made_by_its_name() -> None:
    for name, row in PRESETS.items():
        if row.arguments.get("bands", 0) is None:
            continue
        sizes = {**FOURIER, **GRID, **SEQUENCE}
        given = (
            (3,)
            if name in FOURIER
            else (48, 3)
            if name in ("cogvideox-sincos", "prithvi")
            else (48,)
        )
        made = preset(name, *(given if name in sizes else ()))
        assert made.out_dim > 0
    assert repr(preset("dust3r", 64)) == repr(preset("croco"))
    with pytest.raises(ValueError, match="did you mean llama"):
        preset("lama")
    assert [name for name, _ in find_presets("MASt3R")] == ["croco"]
    assert PRESETS["dust3r"] is PRESETS["croco"]
    assert {name for name, _ in find_presets("rtdetr")} == {"timm-interleaved"}
    assert "hunyuan-video" in [name for name, _ in find_presets("hunyuan_video")]
    assert find_presets("ama3") == []


@pytest.mark.parametrize(
    ("name", "dim"), [("llama", 128), ("esm2", 64), ("modernbert-local", 64), ("stablelm", 80)]
)
def test_an_alias_has_the_width_of_its_model(name: str, dim: int) -> None:
    made = preset(name)
    assert isinstance(made, RotaryEncoder)
    assert made.out_dim == dim
    assert preset(name, 32).out_dim == 32


def wave(name: str, k: int, n: int) -> float:
    """Band k of n, as the code of each library has it."""
    if name in ("transformer", "xlnet", "stable-diffusion"):
        return float(10_000 ** (-k / n))
    if name == "whisper":
        return math.exp(-math.log(10_000) / (n - 1) * k)
    shortest, longest = (4e-3, 4.0) if name == "pi0" else (0.01, 720.0)
    # linspace(0, 1, n) of the exponent between both periods.
    period: float = shortest * (longest / shortest) ** (k / (n - 1))
    return 2 * math.pi / period


@pytest.mark.parametrize("name", SEQUENCE)
def test_embeddings_of_sequences_are_those_of_the_libraries(name: str) -> None:
    n, positions = 6, torch.tensor([0.0, 0.25, 1.0, 3.0], dtype=torch.float64)
    angles = torch.stack([positions * wave(name, k, n) for k in range(n)], dim=-1)
    parts: tuple[Tensor, ...] = (angles.sin(), angles.cos())
    if name == "stable-diffusion":
        parts = parts[::-1]
    joined = torch.cat(parts, -1) if name != "transformer" else torch.stack(parts, -1).flatten(-2)
    found = SinusoidalEncoder.preset(name, 2 * n)(positions)
    torch.testing.assert_close(found, joined, atol=1e-12, rtol=0)
