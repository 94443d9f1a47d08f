"""Arrays of any program that are identified from files."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from nerf_posenc import GridSinusoidalEncoder, grid_positions
from train_fit import main


@pytest.mark.parametrize("kind", ["json", "npy", "npz", "safetensors"])
def test_arrays_of_any_program_are_identified(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    positions = grid_positions((3, 5)).flatten(0, 1).double().numpy()
    output = GridSinusoidalEncoder.preset("timm", 48).table((3, 5)).flatten(0, 1).double().numpy()
    file = tmp_path / f"arrays.{kind}"
    if kind == "json":
        file.write_text(json.dumps({"positions": positions.tolist(), "output": output.tolist()}))
    elif kind == "npy":
        np.save(file, output)
    elif kind == "npz":
        np.savez(file, positions=positions, output=output)
    else:
        save_file({"positions": positions, "output": output}, file)
    assert main(["identify", str(file), "--shape", "3", "5"]) == 0
    assert capsys.readouterr().out.startswith("timm: is the encoding")


def test_mistakes_get_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "port.json"
    for text, message in (
        ("{}", "has no array named output"),
        ('{"output": [null]}', "a NaN of JavaScript"),
        ('{"output": {"shape": [2, 2], "data": [1.0]}}', "shape and data that fit"),
        ("no json", "is not JSON"),
    ):
        file.write_text(text)
        assert main(["identify", str(file)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert str(file) in error
        assert error.count("\n") == 1
