"""Vectors for ports: implemented from their JSON alone, and defects that are named."""

import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from nerf_posenc.catalog.presets import PRESETS
from nerf_posenc_audit.conformance import make_vector
from train_fit import main

# Some have the bands of a configuration, and V-JEPA 2's is no rotation.
NAMES = [
    name
    for name, preset in PRESETS.items()
    if preset.arguments.get("bands", 0) is not None and name != "vjepa2"
]


def rows(stored: dict[str, Any]) -> list[list[float]]:
    """Rows of numbers of a stored array."""
    width = stored["shape"][-1] if len(stored["shape"]) > 1 else 1
    data = stored["data"]
    return [data[i : i + width] for i in range(0, len(data), width)]


def ported(vector: dict[str, Any]) -> list[list[float]]:
    """What a vector says, by a port that knows nothing but the format."""
    positions = rows(vector["inputs"]["positions"])
    if "columns" in vector:
        return [
            [
                at[axis] if band is None else math.sin(band * at[axis] + phase)
                for axis, band, phase in vector["columns"]
            ]
            for at in positions
        ]
    rotated = [list(row) for row in rows(vector["inputs"]["x"])]
    for at, row in zip(positions, rotated, strict=True):
        for a, b, axis, band in vector["pairs"]:
            c, s = math.cos(band * at[axis]), math.sin(band * at[axis])
            x, y = row[a], row[b]
            row[a] = (x * c - y * s) * vector["scale"]
            row[b] = (x * s + y * c) * vector["scale"]
    return rotated


@pytest.mark.parametrize("name", NAMES)
def test_a_port_that_reads_the_json_alone_has_the_output(name: str) -> None:
    vector = make_vector(name)
    np.testing.assert_allclose(ported(vector), rows(vector["expected"]), atol=1e-9)


@pytest.mark.parametrize("name", ["llama", "gptj", "pi0", "nerfstudio-mipnerf", "cogview4"])
def test_a_port_whose_angles_are_float32_passes(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vector = make_vector(name)
    rounded = json.loads(json.dumps(vector))
    at = np.array(vector["inputs"]["positions"]["data"], dtype=np.float32)
    rounded["inputs"]["positions"]["data"] = at.tolist()
    for wave in rounded.get("columns") or rounded["pairs"]:
        band = 1 if "columns" in rounded else 3
        wave[band] = wave[band] and float(np.float32(wave[band]))
    flat = [value for row in ported(rounded) for value in row]
    file = tmp_path / "port.json"
    file.write_text(json.dumps({**vector, "output": {**vector["expected"], "data": flat}}))
    assert main(["check", str(file)]) == 0
    assert "right" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("llama", "interleaved", "pairing 'interleaved'"),
        ("llama", "base", "base 500000"),
        ("sam2", "axes", "axes in the order (1, 0)"),
        ("llama", "offset", "positions +1"),
        ("llama", "sign", "rotations the other way"),
        ("nerf", "factor", "base 3.14159"),
        ("mae", "axes", "axes in the order (1, 0)"),
        ("mae", "phases", "phases=('cos', 'sin')"),
    ],
)
def test_a_defect_of_a_port_is_named(
    name: str, change: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vector = make_vector(name)
    file = tmp_path / "port.json"
    file.write_text(json.dumps({**vector, "output": vector["expected"]}))
    assert main(["check", str(file)]) == 0
    assert "right, largest difference" in capsys.readouterr().out
    broken = json.loads(json.dumps(vector))
    if change == "interleaved":
        for i, pair in enumerate(broken["pairs"]):
            pair[:2] = [2 * i, 2 * i + 1]
    elif change == "base":
        width = 2 * len(broken["pairs"])
        for i, pair in enumerate(broken["pairs"]):
            pair[3] = 500_000.0 ** (-2 * i / width)
    elif change == "axes":
        for part in broken.get("pairs", broken.get("columns")):
            part[-2 if "pairs" in broken else 0] ^= 1
    elif change == "phases":
        for column in broken["columns"]:
            column[2] = math.pi / 2 - column[2]
    elif change == "sign":
        for pair in broken["pairs"]:
            pair[3] = -pair[3]
    elif change == "factor":
        for column in broken["columns"]:
            column[1] = column[1] and column[1] * math.pi
    else:
        at = broken["inputs"]["positions"]
        at["data"] = [value + 1 for value in at["data"]]
    flat = [value for row in ported(broken) for value in row]
    file.write_text(json.dumps({**vector, "output": {**vector["expected"], "data": flat}}))
    assert main(["check", str(file)]) == 1
    printed = capsys.readouterr().out
    assert "wrong" in printed
    assert words in printed


@pytest.mark.parametrize("kind", ["json", "npz", "safetensors"])
def test_arrays_of_any_program_are_identified(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vector = make_vector("timm")
    positions, output = (
        np.array(rows(v)) for v in (vector["inputs"]["positions"], vector["expected"])
    )
    file = tmp_path / f"arrays.{kind}"
    if kind == "json":
        file.write_text(json.dumps({"positions": positions.tolist(), "output": output.tolist()}))
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
        ('{"output": [[1.0]], "preset": "llama"}', "it lacks the format"),
        ('{"output": [null], "preset": "llama"}', "a NaN of JavaScript"),
        ('{"output": {"shape": [2, 2], "data": [1.0]}}', "shape and data that fit"),
        ("no json", "is not JSON"),
    ):
        file.write_text(text)
        assert main(["check", str(file)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert str(file) in error
        assert error.count("\n") == 1
    assert main(["vectors", "llama", "--out", str(tmp_path / "vectors")]) == 0
    assert (tmp_path / "vectors/llama.json").is_file()
    # A port's output may be in it by now.
    assert main(["vectors", "llama", "--out", str(tmp_path / "vectors")]) == 2
    nan = make_vector("mae")
    file.write_text(json.dumps({**nan, "output": [[float("nan")] * 48] * 15}))
    assert main(["check", str(file)]) == 1
    assert "output has NaN" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_the_port_of_the_documentation_has_the_outputs() -> None:
    page = (Path(__file__).parents[2] / "docs/port.md").read_text()
    source = page.split("```js\n")[1].split("```")[0]
    run = "console.log(JSON.stringify(JSON.parse(require('fs').readFileSync(0)).map(port)))"
    vectors = [make_vector(name) for name in NAMES]
    printed = subprocess.run(
        ["node", "-e", source + run], input=json.dumps(vectors), capture_output=True, text=True
    )
    for vector, found in zip(vectors, json.loads(printed.stdout), strict=True):
        np.testing.assert_allclose(found, rows(vector["expected"]), atol=1e-9)


def as_numbers(vector: dict[str, Any]) -> str:
    """A vector for the port to C, which reads plain numbers."""
    positions, table = rows(vector["inputs"]["positions"]), vector.get("columns", ())
    width = vector["expected"]["shape"][-1]
    parts: list[Any] = ["c" if table else "r", len(positions), len(positions[0]), width]
    parts += [len(table or vector["pairs"]), *(value for at in positions for value in at)]
    if not table:
        parts += [vector["scale"], *vector["inputs"]["x"]["data"]]
    parts += [v for entry in table or vector["pairs"] for v in entry]
    return " ".join("nan" if part is None else str(part) for part in parts)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_port_to_c_has_the_outputs_and_passes_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, file = tmp_path / "port", tmp_path / "port.json"
    subprocess.run(["cc", "-o", program, Path(__file__).parent / "port.c", "-lm"], check=True)
    for name in ("llama", "croco", "mae", "nerf", "whisper"):
        vector = make_vector(name)
        run = subprocess.run(
            [program], input=as_numbers(vector), capture_output=True, text=True, check=True
        )
        output = [[float(value) for value in line.split()] for line in run.stdout.splitlines()]
        np.testing.assert_allclose(output, rows(vector["expected"]), atol=1e-9)
        file.write_text(json.dumps({**vector, "output": output}))
        assert main(["check", str(file)]) == 0
        assert capsys.readouterr().out.startswith(f"{name}: right")
