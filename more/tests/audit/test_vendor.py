"""Files of plain torch: every preset has the same bits, and its own test passes alone."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from nerf_posenc import FourierEncoder, GridSinusoidalEncoder
from nerf_posenc_attention import RotaryEncoder
from nerf_posenc_audit.__main__ import main
from nerf_posenc_audit.catalog.presets import PRESETS, encoder_of, preset
from nerf_posenc_audit.catalog.vendor import vendor

BANDS = torch.tensor([1.0, 2.5, 7.0], dtype=torch.float64)
MOST_LINES = 150


def arguments(name: str) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Sizes of a preset, and bands where it has none of its own."""
    row, kind = PRESETS[name], encoder_of(name)
    if kind is RotaryEncoder:
        return (), {}
    if kind is FourierEncoder:
        basis = row.arguments.get("basis")
        in_dim = 3 if basis is None else basis.shape[1]
        if row.arguments.get("frequencies", 0) is None:
            return (in_dim,), {"frequencies": BANDS}
        return ((in_dim,) if "num_bands" in row.arguments else (in_dim, 10)), {}
    if kind is GridSinusoidalEncoder:
        return (96, 3 if name in ("prithvi", "cogvideox-sincos") else 2), {}
    return (50 if name in ("whisper", "transformer") else 64,), {}


@pytest.mark.parametrize("name", PRESETS)
def test_file_has_the_bits_of_the_preset(name: str) -> None:
    sizes, given = arguments(name)
    text, encoder = vendor(name, *sizes, **given), preset(name, *sizes, **given)
    assert len(text.splitlines()) <= MOST_LINES
    imports = [node for node in ast.parse(text).body if isinstance(node, ast.Import)]
    assert {alias.name for node in imports for alias in node.names} == {"math", "torch"}
    file: dict[str, Any] = {"__name__": "vendored"}
    exec(text, file)
    file["test"]()
    generator = torch.Generator().manual_seed(0)
    if isinstance(encoder, RotaryEncoder):
        size = (50,) if encoder.in_dim == 1 else (50, encoder.in_dim)
        positions = torch.randint(0, 131_072, size, generator=generator)
        x = torch.randn(2, 50, encoder.dim, generator=generator)
        for at in (positions, positions + 0.375):
            assert torch.equal(file["rotate"](x, at), encoder.rotate(x, at))
        # The digits of float64 queries are kept.
        assert torch.equal(file["rotate"](x.double(), at), encoder.rotate(x.double(), at))
    elif isinstance(encoder, GridSinusoidalEncoder):
        shape = (5, 7, 3)[: encoder.in_dim]
        assert torch.equal(file["table"](shape), encoder.table(shape))
    elif isinstance(encoder, FourierEncoder):
        x = 2 * torch.rand(50, encoder.in_dim, generator=generator) - 1
        assert torch.equal(file["encode"](x), encoder(x))
    else:
        positions = torch.arange(0, 131_072, 997)
        assert torch.equal(file["encode"](positions), encoder(positions))


@pytest.mark.parametrize("words", ["nerf-pytorch 3 10", "perceiver 2 --frequencies 1 2.5"])
def test_file_runs_alone(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vendor", *words.split()]) == 0
    path = tmp_path / "encoding.py"
    path.write_text(capsys.readouterr().out)
    # Isolated: neither this folder nor PYTHONPATH is searched for modules.
    done = subprocess.run([sys.executable, "-I", path], capture_output=True, text=True, check=True)
    assert done.stdout == "right\n"


def test_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vendor", "lama"]) == 2
    assert "did you mean llama" in capsys.readouterr().err
    assert main(["vendor", "nerf"]) == 2
    assert "in_dim" in capsys.readouterr().err
    assert main(["vendor", "mae", "1000000000"]) == 2
    assert "1 to 65,536" in capsys.readouterr().err


def test_bands_of_each_axis_are_a_formula() -> None:
    assert vendor("flux").count("10000.0 ** -(torch.arange(") == 3
