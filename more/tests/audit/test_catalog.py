"""Presets of all encoders by name, and the index that finds them."""

import itertools
import math
import re

import pytest
import torch
from torch import Tensor

from nerf_posenc import SinusoidalEncoder
from nerf_posenc.presets import FOURIER, GRID, SEQUENCE
from nerf_posenc_attention import ROTARY, RotaryEncoder
from nerf_posenc_audit.__main__ import main
from nerf_posenc_audit.catalog.equivalents import SECTIONS
from nerf_posenc_audit.catalog.index import find_encodings, find_shorter, index
from nerf_posenc_audit.catalog.presets import PRESETS, preset


def test_names_and_aliases_are_of_one_preset_each() -> None:
    names = [name for table in (FOURIER, GRID, ROTARY, SEQUENCE) for name in table]
    names += [alias for row in PRESETS.values() for alias in row.aliases]
    assert len(set(names)) == len(names)


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
    printed = capsys.readouterr().out.splitlines()
    assert sum(not line.startswith("    #") for line in printed) == 2 * len(index())
    assert main(["find", "lamma"]) == 2
    error = capsys.readouterr().err
    assert "did you mean llama" in error
    assert error.count("\n") == 1


# Names that people look for, of fields, images, video, language, sound, molecules and the globe.
SOUGHT = """neus volsdf d-nerf
    instant-ngp nerf-w pixelnerf ibrnet hypernerf zipnerf mip-nerf360 refnerf
    kplanes tensorf  bungeenerf siren finer wire vit clip siglip dinov2 dinov3
    sam sam2 sam3 dit sdxl sd3 sd3.5 flux flux2 flux.2 wan wan2.2 cosmos
    cogvideox hunyuanvideo hunyuan-video ltx-2 llama3.2 llama-3.1 gemma2 gemma3 phi3 phi-4
    qwen2.5-vl qwen3-vl internvl deepseek-v3 kimi-k2 mixtral olmo gpt-2 bert t5 whisper
    musicgen demucs esm2 esm3 alphafold3 boltz openfold geoclip satclip space2vec detr rt-detr
    dab-detr petr streampetr bevformer mask2former vggt dust3r mast3r lightglue loftr graphcast pi0
    diffusion-policy act physicsnemo perceiver-pytorch e3nn bloom"""


@pytest.mark.parametrize(
    ("text", "line"),
    {
        "falcon": 'RotaryEncoder.from_config("config.json")',
        "rotary": "RotaryEncoder(128)",
        "siren": "siren(2, 3)",
        "plucker": "plucker_rays(od, dd, moment_first=True)",
        "plücker": "plucker_rays(od, dd, moment_first=True)",
        "2D RoPE": "RotaryEncoder(64, 2)",
        "m-rope": 'RotaryEncoder.preset("qwen2-vl-text")',
        "3dgs": "SphericalHarmonicsEncoder(4)",
        "gpt2": "LearnedPositionEncoder(1024, 768).table(1024)",
    }.items(),
)
def test_what_people_type_comes_first(text: str, line: str) -> None:
    assert find_encodings(text)[0].line == line
    assert not find_encodings("nerf++")


@pytest.mark.parametrize("name", SOUGHT.split())
def test_a_known_name_finds_a_line(name: str) -> None:
    assert find_encodings(name)


def test_a_model_type_is_read_from_its_file() -> None:
    assert find_encodings("qwen3-next")[0].line == 'RotaryEncoder.from_config("config.json")'


def test_names_that_only_begin_with_a_text_are_said_to(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "v-jepa"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("vjepa2\n")
    assert printed.err == "no name is 'v-jepa'; these begin with it:\n"
    assert main(["find", "vjepa2"]) == 0
    assert not capsys.readouterr().err


def test_whole_words_come_first_and_parts_of_descriptions_last() -> None:
    names = [found.name for found in find_encodings("sam")]
    assert names[0].startswith("SAM, ")
    assert {"sam2", "sam3"} < {*names}
    # "sampling" and "same" stand in the descriptions of others.
    assert len(names) < 10
    assert find_encodings("esm2")[0].line == 'RotaryEncoder.preset("esm2")'


@pytest.mark.parametrize(
    ("text", "shorter", "line"),
    [
        ("ViT-B/16", "vit", "LearnedGridEncoder"),
        ("DiT-XL/2", "dit", 'preset("mae", 768)'),
        ("whisper large-v3", "whisper", 'preset("whisper", 512)'),
        ("gemma 3x", "gemma 3", 'RotaryEncoder.preset("gemma3")'),
        ("olmo4", "olmo", 'RotaryEncoder.preset("llama")'),
    ],
)
def test_what_is_found_without_a_size_or_a_version_is_said_to_be(
    text: str, shorter: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find_encodings(text) == []
    assert main(["find", *text.split()]) == 2
    printed = capsys.readouterr()
    assert f"mentions {text!r}; for {shorter!r}, which may have another encoding:" in printed.err
    assert line in printed.out


# Models of another encoding than what their names resemble, or of none.
OTHERS = """olmo4 phi-4-mini llama4-maverick neus2 wav2vec2 falcon3 depth-pro pi3
    scale-mae moco-v3 m2m-100 jit 1b 7b eg3d nonsense ama3 hunyuan3d cosmos-predict3"""


@pytest.mark.parametrize("name", OTHERS.split())
def test_no_answer_is_another_models(name: str) -> None:
    assert find_encodings(name) == []


@pytest.mark.parametrize(
    "name", ["depth-pro", "pi3", "scale-mae", "moco v3", "m2m-100", "jit", "1b"]
)
def test_no_single_word_of_a_name_is_one(name: str) -> None:
    assert find_shorter(name) == ("", [])


def test_every_model_that_a_line_names_finds_it() -> None:
    for row in itertools.chain.from_iterable(SECTIONS.values()):
        for name in re.split(r"[,;:]", re.sub(r"\(.*?\)", "", row.what))[:1]:
            assert any(found.line == row.code for found in find_encodings(name)), name


@pytest.mark.parametrize(
    "name", ["mae", "timm", "detr", "monai", "diffusers", "simple-vit", "loftr"]
)
@pytest.mark.parametrize("dim", [65, 66])
def test_widths_that_a_library_refuses_are_refused(name: str, dim: int) -> None:
    with pytest.raises(ValueError, match=f"multiple of 4; got {dim}; .* as dim {dim}"):
        preset(name, dim)
    assert preset(name, 64).out_dim == 64


def test_an_error_says_how_sizes_are_read() -> None:
    with pytest.raises(ValueError, match=r"mae has 2 axes: preset\('mae', dim, 2\); got 10"):
        preset("mae", 3, 10)
    with pytest.raises(TypeError, match="takes the sizes as in_dim 3, num_bands 4"):
        preset("nerf", 3, 4, nonsense=1)


@pytest.mark.parametrize("name", PRESETS)
def test_the_line_of_a_preset_makes_it(name: str) -> None:
    line = next(each.line for each in index() if each.name == name and "preset" in each.line)
    made = eval(line, dict(preset=preset, RotaryEncoder=RotaryEncoder, bands=torch.ones(4)))
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
