"""Presets of all encoders by name, and the index that finds them."""

import math

import pytest
import torch
from torch import Tensor

from nerf_posenc import RotaryEncoder, SinusoidalEncoder, find_encodings, preset
from nerf_posenc.__main__ import main
from nerf_posenc.catalog.index import index
from nerf_posenc.catalog.presets import PRESETS
from nerf_posenc.presets import FOURIER, GRID, ROTARY, SEQUENCE


def test_names_and_aliases_are_of_one_preset_each() -> None:
    names = [name for table in (FOURIER, GRID, ROTARY, SEQUENCE) for name in table]
    aliases = [alias for row in PRESETS.values() for alias in row.aliases]
    assert len(set(names)) == len(names)
    # A library whose name was given to both its encodings.
    assert {alias for alias in aliases if alias in names} == {"timm"}
    assert len(set(aliases)) == len(aliases)


def test_presets_are_found_by_all_their_names() -> None:
    assert repr(preset("dust3r", 64)) == repr(preset("croco"))
    with pytest.raises(ValueError, match="did you mean llama"):
        preset("lama")
    assert [found.name for found in find_encodings("MASt3R")] == ["croco"]
    assert PRESETS["dust3r"] is PRESETS["croco"]
    assert [found.name for found in find_encodings("rtdetr")] == ["timm-interleaved"]
    assert find_encodings("hunyuan_video")[0].name == "hunyuan-video"
    assert find_encodings("ama3") == find_encodings("") == []


def test_the_command_prints_the_line_of_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "dust3r"]) == 0
    assert capsys.readouterr().out.startswith("croco")
    assert main(["find"]) == 0
    assert capsys.readouterr().out.count("\n") == 2 * len(index())
    assert main(["find", "lamma"]) == 2
    error = capsys.readouterr().err
    assert "did you mean llama" in error
    assert error.count("\n") == 1


# Names that people look for, of fields, images, video, language, sound, molecules and the globe.
SOUGHT = """neus volsdf d-nerf
    instant-ngp nerf-w pixelnerf ibrnet hypernerf zipnerf mip-nerf360 refnerf
    kplanes tensorf neuralangelo bungeenerf freenerf siren finer wire vit clip siglip dinov2 dinov3
    sam sam2 sam3 dit sdxl sd3 sd3.5 flux flux2 flux.2 flux3 wan wan2.2 cosmos cosmos-predict2.5
    cogvideox hunyuanvideo hunyuan-video ltx-2 llama3.2 llama-3.1 gemma2 gemma3 phi3 phi-4
    qwen2.5-vl qwen3-vl internvl deepseek-v3 kimi-k2 mixtral olmo gpt-2 bert t5 whisper wav2vec2
    musicgen demucs esm2 esm3 alphafold3 boltz openfold geoclip satclip space2vec detr rt-detr
    dab-detr petr streampetr bevformer mask2former vggt dust3r mast3r lightglue loftr graphcast pi0
    diffusion-policy act physicsnemo perceiver-pytorch e3nn bloom"""


@pytest.mark.parametrize("name", SOUGHT.split())
def test_a_known_name_finds_a_line(name: str) -> None:
    assert find_encodings(name)


def test_whole_words_come_first_and_parts_of_descriptions_last() -> None:
    names = [found.name for found in find_encodings("sam")]
    assert names[0].startswith("SAM, ")
    assert names[2:4] == ["sam2", "sam3"]
    # "sampling" and "same" stand in the descriptions of others.
    assert len(names) < 6
    assert find_encodings("esm2")[0].line == 'preset("esm2")'


def test_a_size_or_a_version_does_not_hide_a_model() -> None:
    for text, line in (
        ("ViT-B/16", "LearnedGridEncoder"),
        ("DiT-XL/2", 'preset("mae", 768)'),
        ("whisper large-v3", 'preset("whisper", 512)'),
        ("Wan2.1", 'preset("wan")'),
        ("flux.1", 'preset("flux")'),
    ):
        assert any(found.line.startswith(line) for found in find_encodings(text)), text
    assert find_encodings("zipnerf")[0].line.startswith("HashGridEncoder")


@pytest.mark.parametrize("name", PRESETS)
def test_the_line_of_a_preset_makes_it(name: str) -> None:
    line = next(found.line for found in index() if found.name == name)
    made = eval(line, dict(preset=preset, bands=torch.ones(4)))
    assert made.out_dim > 0


def test_the_line_of_a_class_imports_it() -> None:
    for found in index():
        if found.line.startswith("from "):
            exec(found.line, {})


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
    if name in ("whisper", "musicgen"):
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
    if name in ("stable-diffusion", "musicgen"):
        parts = parts[::-1]
    joined = torch.cat(parts, -1) if name != "transformer" else torch.stack(parts, -1).flatten(-2)
    found = SinusoidalEncoder.preset(name, 2 * n)(positions)
    torch.testing.assert_close(found, joined, atol=1e-12, rtol=0)
