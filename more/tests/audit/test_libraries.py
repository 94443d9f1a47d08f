"""The table of a library, from a small library of right, cast-sensitive and odd classes."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nerf_posenc_audit.__main__ import main
from nerf_posenc_audit.libraries import audit

MODULE = '''
import math

import torch
from torch import nn


class TinyConfig:
    """A configuration with defaults."""

    def __init__(self, head_dim=64, rope_theta=10_000.0, **rest):
        self.head_dim, self.rope_theta = head_dim, rope_theta


class TinyRotaryEmbedding(nn.Module):
    """Cosines and sines from bands in a buffer."""

    def __init__(self, config: TinyConfig):
        super().__init__()
        steps = torch.arange(0, config.head_dim, 2) / config.head_dim
        self.register_buffer("inv_freq", config.rope_theta**-steps, persistent=False)

    def forward(self, x, position_ids):
        angles = position_ids[..., None].float() * self.inv_freq.float()
        angles = torch.cat([angles, angles], -1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


class OddRotaryEmbedding(nn.Module):
    """A class that needs what nobody knows."""

    def __init__(self, mystery):
        super().__init__()


class CoordinateNeRFEncoding(nn.Module):
    """Octaves of coordinates."""

    def forward(self, x):
        bands = 2.0 ** torch.arange(4)
        waves = [f(x * band) for band in bands for f in (torch.sin, torch.cos)]
        return torch.cat([x, *waves], -1)


class RotaryAttention(nn.Module):
    """A class that uses encodings is none."""


def get_sincos_table(height, width, dim):
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    bands = 10_000.0 ** -(torch.arange(dim // 4) / (dim // 4))
    parts = [f(at.flatten()[:, None] * bands) for at in (columns, rows)
             for f in (torch.sin, torch.cos)]
    return torch.cat(parts, -1)


def sinusoid_of_nothing(planet):
    return math.sin(planet)
'''
BROKEN = "import nothing_of_that_name\n\n\ndef sinusoid(t):\n    return nothing.sin(t)\n"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    folder = tmp_path / "tiny_waves"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "modeling.py").write_text(MODULE)
    (folder / "broken.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "tiny_waves"
    for name in [name for name in sys.modules if name.startswith("tiny_waves")]:
        del sys.modules[name]


def test_every_class_has_a_row(library: str) -> None:
    rows = {row.name.rpartition(".")[2]: row for row in audit(library)}
    assert set(rows) == {
        "sinusoid",
        "TinyRotaryEmbedding",
        "OddRotaryEmbedding",
        "CoordinateNeRFEncoding",
        "get_sincos_table",
        "sinusoid_of_nothing",
    }
    tiny = rows["TinyRotaryEmbedding"]
    assert tiny.status == "named"
    assert "base 10,000" in tiny.answer
    near, cast = tiny.error("as built", 4095), tiny.error("after .to(bfloat16)", 4095)
    assert near is not None
    assert cast is not None
    assert near < 1e-3 < 0.1 < cast
    assert rows["OddRotaryEmbedding"].answer == (
        "not built: ValueError: the argument 'mystery' has no default"
    )
    assert "nerf" in rows["CoordinateNeRFEncoding"].answer
    assert rows["get_sincos_table"].answer.startswith("mae")
    assert rows["sinusoid_of_nothing"].status == "not asked"
    assert "not imported: ModuleNotFoundError" in rows["sinusoid"].answer


def test_the_command_prints_text_and_json(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([library]) == 0
    text = capsys.readouterr().out
    assert "6 found, 3 asked, 3 named, 1 not asked, 2 not built" in text
    assert main([f"{library}.modeling", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["library"] == f"{library}.modeling"
    assert len(table["rows"]) == 5
    assert main(["no_such_library"]) == 2
    assert "is it installed" in capsys.readouterr().err


def test_check_compares_a_class_with_a_configuration(
    library: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{library}.modeling:TinyRotaryEmbedding"
    config = tmp_path / "config.json"
    config.write_text('{"head_dim": 64, "rope_theta": 20000.0}')
    assert main(["check", name, "--config", str(config)]) == 0
    assert capsys.readouterr().out.startswith("right\n")
    scaling = (
        '{"head_dim": 64, "rope_theta": 10000, "rope_scaling": {"type": "linear", "factor": 2}}'
    )
    config.write_text(scaling)
    assert main(["check", name, "--config", str(config)]) == 1
    assert capsys.readouterr().out.startswith("linear scaling is not applied\n")
    assert main(["check", name, "--preset", "mistral"]) == 1
    assert "64 columns are rotated instead of 128" in capsys.readouterr().out
    assert main(["check", "tiny_waves.modeling:Nothing", "--preset", "llama"]) == 2
    assert "has no 'Nothing'" in capsys.readouterr().err
