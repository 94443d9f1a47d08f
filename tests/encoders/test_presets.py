"""Presets give the numbers of their libraries, and are found as people type them."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from nerf_posenc import GridSinusoidalEncoder, SinusoidalEncoder, geometric_bands, preset
from nerf_posenc.encoders.by_name import PRESETS
from nerf_posenc.presets import FOURIER, GRID, SEQUENCE

DATA = Path(__file__).parents[1] / "data" / "encoding_vectors.json"
VECTORS = {each["id"]: each for each in json.loads(DATA.read_text(encoding="utf-8"))["vectors"]}
VARIANCE = torch.tensor([[0.01, 0.02, 0.03]])

CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "nerf-pytorch.Embedder": lambda x: preset("nerf-pytorch", 3, 3)(x),
    "torch-ngp.FreqEncoder": lambda x: preset("torch-ngp", 3, 3)(x),
    "finer.PositionalEncoding": lambda x: preset("finer", 3, 3)(x),
    "mipnerf.pos_enc": lambda x: preset("mipnerf", 3, 3)(x),
    "mipnerf.ipe": lambda x: preset("mipnerf", 3, 3, include_input=None)(x, variance=VARIANCE),
    "nerfacc.SinusoidalEncoder": lambda x: preset("nerfacc", 3, 3)(x),
    "pytorch3d.HarmonicEmbedding": lambda x: preset("pytorch3d", 3, 3)(x),
    "pytorch3d.HarmonicEmbedding.diag_cov": lambda x: preset("pytorch3d", 3, 3, include_input=None)(
        x, variance=VARIANCE
    ),
    "barf.positional_encoding": lambda x: preset("barf", 3, 3, include_input=None)(x),
    "tcnn.Frequency": lambda x: preset("tiny-cuda-nn", 3, 3)(x),
    "nerfstudio.NeRFEncoding": lambda x: preset("nerfstudio", 3, 3, include_input="back")(x),
    "nerfstudio.NeRFEncoding.covs": lambda x: preset("nerfstudio", 3, 3, include_input=None)(
        x, variance=VARIANCE / (2 * math.pi) ** 2
    ),
    "timm.sincos2d": lambda _: GridSinusoidalEncoder.preset("timm", 8).table((2, 3)).flatten(0, 1),
    "transformers.detr_sine.plain": lambda _: (
        GridSinusoidalEncoder.preset("detr", 8).table((2, 3)).movedim(-1, 0)
    ),
    "transformers.detr_sine.normalized": lambda _: (
        GridSinusoidalEncoder.preset("detr-normalized", 8).table((2, 3)).movedim(-1, 0)
    ),
}
"""Calls that give vectors of tests/data; those of more libraries are in more/tests/audit."""


@pytest.mark.parametrize("name", CALLS)
def test_a_preset_gives_the_numbers_of_its_library(name: str) -> None:
    given, expected = VECTORS[name]["input"], torch.tensor(VECTORS[name]["output"])
    x = torch.tensor(given) if isinstance(given, list) else torch.empty(0)
    torch.testing.assert_close(CALLS[name](x).reshape(expected.shape), expected, atol=4e-6, rtol=0)


def test_every_name_is_one_presets() -> None:
    names = [name for table in (FOURIER, GRID, SEQUENCE) for name in table]
    names += [alias for row in PRESETS.values() for alias in row.aliases]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("typed", "known"),
    [("NeRF PyTorch", "nerf-pytorch"), ("mip_nerf", "mipnerf"), ("Tiny-CUDA-NN", "tiny-cuda-nn")],
)
def test_names_are_found_as_people_type_them(typed: str, known: str) -> None:
    assert repr(preset(typed, 3, 4)) == repr(preset(known, 3, 4))


def test_an_unknown_name_gets_the_nearest_ones_and_the_way_to_the_companion() -> None:
    with pytest.raises(ValueError, match="did you mean nerfstudio-nerfacto"):
        preset("nerfacto", 3)
    with pytest.raises(ValueError, match=r"nerf_posenc_attention\.RotaryEncoder\.preset"):
        preset("llama")


def test_sizes_that_do_not_suit_are_explained() -> None:
    with pytest.raises(ValueError, match=r"mae has 2 axes: preset\('mae', dim, 2\); got 10"):
        preset("mae", 3, 10)
    with pytest.raises(TypeError, match="takes the sizes as in_dim 3, num_bands 4"):
        preset("nerf", 3, 4, 5)
    with pytest.raises(TypeError, match=r"preset\('whisper', dim\) takes its sizes"):
        preset("whisper")


def test_timesteps_are_nearer_to_the_exact_value_than_the_librarys() -> None:
    library = torch.tensor(VECTORS["diffusers.timestep.sd"]["output"], dtype=torch.float64)
    steps = torch.tensor([0.0, 1.0, 999.0])
    angles = steps.double()[:, None] * geometric_bands(3)
    exact = torch.cat([angles.cos(), angles.sin()], -1)
    ours = SinusoidalEncoder.timestep(6, flip_sin_to_cos=True, downscale_freq_shift=0)(
        steps
    ).double()
    assert (ours - exact).abs().max() < 3e-7 < 2e-6 < (library - exact).abs().max()
