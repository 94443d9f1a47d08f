"""Encodings and networks of a user's own file."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import train_fit
from nerf_posenc.fits import ImageFit, load_fit
from nerf_posenc.training.checkpoints import CheckpointError
from nerf_posenc.training.recipes import ENCODINGS
from nerf_posenc_app import FittedRun, fit
from tests.signals import require_same_bits, run_with_signal
from tests.small import SMALL_SCENE, quick_report, without_hull

OWN = """
import torch
from torch.nn import Linear, Module
from nerf_posenc.training import EncodingRecipe

class CubicEncoder(Module):
    def __init__(self, in_dim):
        super().__init__()
        self.out_dim = 2 * in_dim

    def forward(self, x):
        return torch.cat([x, x**3], dim=-1)

Small = EncodingRecipe(title="Cubes", build=lambda m, _: CubicEncoder(m.in_dim), layers=(8, 1))
fourier = CubicEncoder
broken = 3
original = truth = bilinear = auto = CubicEncoder
"""

BAD = """
import torch
from nerf_posenc.core import Encoder

class Narrow(Encoder):
    def __init__(self, in_dim):
        super().__init__(in_dim, 3)

    def forward(self, x):
        return x[:, :2]

class Unknown(torch.nn.Identity):
    pass

class Endless(Encoder):
    def __init__(self, in_dim):
        super().__init__(in_dim, in_dim)

    def forward(self, x):
        return x / 0

class Blind(Encoder):
    def __init__(self):
        super().__init__(2, 2)

class Chance(Encoder):
    def __init__(self, in_dim):
        super().__init__(in_dim, in_dim)
        import random
        self.scale = random.random()

    def forward(self, x):
        return self.scale * x
"""


@pytest.mark.usefixtures("own_folder")
def test_an_encoding_of_a_file_is_fitted_to_a_scene_and_rendered() -> None:
    Path("mine.py").write_text(OWN)
    run = [*SMALL_SCENE, "--encodings", "none", "mine.py:CubicEncoder", "--out", "run", "--quiet"]
    with without_hull(), quick_report():
        assert train_fit.main(run) == 0
    fits = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert [fit["name"] for fit in fits] == ["none", "CubicEncoder"]
    words = ["render", "run", "--encoding", "mine.py:CubicEncoder", "--turntable", "2"]
    assert train_fit.main(words) == 0


@pytest.mark.usefixtures("own_folder", "no_report")
def test_an_encoding_of_a_file_is_imported_where_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.py").write_text(OWN)
    Path("bad.py").write_text(BAD)
    small = ["--size", "12", "--steps", "5", "--batch-size", "50", "--video", "0", "--quiet"]
    names = ["--encodings", "none", "./mine.py:CubicEncoder", "mine.py:Small"]
    assert train_fit.main([*names, *small, "--out", "run"]) == 0
    fits = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert [fit["encoding"] for fit in fits] == ["none", "CubicEncoder", "Small"]
    assert fits[2]["parameters"] == (4 * 8 + 8) + (8 * 3 + 3)
    # The names are not known afterwards, and from another folder the file is found.
    Path("run/metrics.json").unlink()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert train_fit.main(["--resume", "../run", "--quiet"]) == 2
    assert "CubicEncoder is code, which runs only if you name it" in capsys.readouterr().err
    own = [f"../mine.py:{name}" for name in ("CubicEncoder", "Small")]
    Path("../mine.py").write_text(OWN + "\n")
    assert train_fit.main(["--resume", "../run", "--encodings", *own]) == 2
    assert "mine.py, or what it uses, has changed since the run started" in capsys.readouterr().err
    Path("../mine.py").write_text(OWN)
    assert train_fit.main(["--resume", "../run", "--quiet", "--encodings", *own]) == 0
    # Nothing of a complete run needs them.
    assert train_fit.main(["--resume", "../run"]) == 0
    assert "already complete" in capsys.readouterr().out
    assert train_fit.main(["render", "../run", "--encoding", "CubicEncoder"]) == 2
    assert "--encoding FILE.py:CubicEncoder" in capsys.readouterr().err
    render = ["render", "../run", "--encoding", "../mine.py:CubicEncoder", "--quiet"]
    assert train_fit.main(render) == 0
    for word, message in {
        "../mine.py:fourier": "the name fourier is taken",
        # As a file of the run folder, and as a method without training.
        "../mine.py:original": "the name original is taken",
        "../mine.py:bilinear": "the name bilinear is taken",
        "../mine.py:auto": "the name auto is taken",
        "../mine.py:broken": "has no class broken derived from",
        "../mine.py:missing": "it has CubicEncoder, Small",
        "../mine.py": "../mine.py needs the name of a class in it: ../mine.py:CubicEncoder",
        "../bad.py:Narrow": "Narrow fails at two points in [-1, 1]: ",
        "../bad.py:Unknown": "Unknown needs an attribute out_dim, the number of its features",
        "../bad.py:Endless": "Endless fails at two points in [-1, 1]: it gives infinity or NaN",
        "../bad.py:Chance": "it differs each time it is built",
        "../bad.py:Blind": "Blind fails at two points in [-1, 1]: TypeError: ",
        "nowhere.py:Cubic": "there is no file nowhere.py",
    }.items():
        assert train_fit.main(["--encodings", word]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


@pytest.mark.usefixtures("own_folder")
def test_names_that_differ_in_case_alone_are_one_file_on_some_systems(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("mine.py").write_text(OWN + "\nsmall = Small\n")
    assert train_fit.main(["--encodings", "mine.py:Small", "mine.py:small"]) == 2
    assert "the fit Small is named twice" in capsys.readouterr().err


OWN_NETWORK = """
from torch import nn

class Tanh(nn.Sequential):
    def __init__(self, in_dim, out_dim, width, depth):
        assert depth == 2
        super().__init__(nn.Linear(in_dim, width), nn.Tanh(), nn.Linear(width, out_dim))

class Deaf(nn.Sequential):
    def __init__(self, in_dim, out_dim):
        super().__init__(nn.Linear(in_dim, out_dim))

class Single(nn.Sequential):
    def __init__(self, in_dim, out_dim, width, depth):
        super().__init__(nn.Linear(in_dim, 1))
"""


@pytest.mark.usefixtures("own_folder", "no_report")
def test_a_network_of_a_file_is_fitted_on_raw_coordinates(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("mine.py").write_text(OWN_NETWORK)
    small = ["--size", "12", "--steps", "5", "--batch-size", "50", "--video", "0", "--quiet"]
    words = ["--encodings", "none", "mine.py:Tanh", "--width", "8", "--depth", "2", *small]
    scores = []
    for seed in ("3", "3", "4"):
        assert train_fit.main([*words, "--seed", seed, "--out", "run", "--overwrite"]) == 0
        fit = json.loads(Path("run/metrics.json").read_text())["fits"][1]
        assert fit["encoding"] == "Tanh"
        assert fit["network"] == "Tanh"
        assert fit["optimizer"] == "adam"
        assert fit["parameters"] == (2 * 8 + 8) + (8 * 3 + 3)
        assert (fit["width"], fit["depth"]) == (8, 2)
        scores.append(fit["psnr_db"])
    assert scores[0] == scores[1] != scores[2]
    Path("run/metrics.json").unlink()
    assert train_fit.main(["--resume", "run", "--quiet"]) == 2
    assert "Tanh is code, which runs only if you name it" in capsys.readouterr().err
    own = ["--encodings", "mine.py:Tanh"]
    assert train_fit.main(["--resume", "run", "--quiet", *own]) == 0
    for word, message in {
        "mine.py:Deaf": "a network takes in_dim, out_dim, width, depth: TypeError: ",
        "mine.py:Single": "Single fails at two points",
    }.items():
        assert train_fit.main(["--encodings", word]) == 2
        assert message in capsys.readouterr().err
    assert train_fit.main(["--scene", "spheres", "--encodings", "mine.py:Tanh"]) == 2
    assert "a scene takes none, fourier, gaussian, hash" in capsys.readouterr().err


NOISY = """
from torch import nn

class Noisy(nn.Sequential):
    def __init__(self, in_dim, out_dim, width, depth):
        hidden = nn.Linear(in_dim, width), nn.ReLU(), nn.Dropout(0.2)
        super().__init__(*hidden, nn.Linear(width, out_dim))
"""


@pytest.mark.usefixtures("own_folder", "no_report")
def test_dropout_of_a_resumed_network_is_that_of_one_that_was_not_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("mine.py").write_text(NOISY)
    own = ["--encodings", "mine.py:Noisy"]
    small = ["--size", "12", "--steps", "40", "--video", "0", "--width", "8", "--quiet"]
    before = torch.get_rng_state()
    assert run_with_signal(monkeypatch, [*own, *small, "--out", "part"], 2) == 143
    assert train_fit.main(["--resume", "part", *own, "--quiet"]) == 0
    assert train_fit.main([*own, *small, "--out", "whole"]) == 0
    require_same_bits("part", "whole")
    assert torch.equal(torch.get_rng_state(), before)


def test_a_changed_helper_of_an_encoding_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scale.txt").write_text("2.0")
    text = OWN.replace("x**3", "x**float(__import__('pathlib').Path('scale.txt').read_text())")
    Path("mine.py").write_text(text)
    small = ["--size", "12", "--steps", "2", "--video", "0", "--quiet", "--out", "run"]
    own = ["--encodings", "mine.py:CubicEncoder"]
    assert train_fit.main([*own, *small]) == 0
    Path("run/metrics.json").unlink()
    Path("scale.txt").write_text("3.0")
    assert train_fit.main(["--resume", "run", *own]) == 2
    assert "or what it uses, has changed since the run started" in capsys.readouterr().err


FEW: dict[str, Any] = dict(image="cat", size=12, steps=3, width=8, depth=1, video=0, quiet=True)


def powers(power: float) -> type[torch.nn.Module]:
    """A class of a factory: all have one name."""

    class Powers(torch.nn.Module):
        def __init__(self, in_dim: int) -> None:
            super().__init__()
            self.out_dim = in_dim

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.abs() ** power

    Powers.__module__ = "nowhere"
    return Powers


def test_runs_in_threads_have_their_own_classes_and_leave_no_row_behind() -> None:
    found: dict[float, FittedRun] = {}

    def one(power: float) -> None:
        found[power] = fit(encodings=[powers(power)], **FEW)

    threads = [threading.Thread(target=one, args=(power,)) for power in (0.5, 1.0, 3.0, 4.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    x = torch.linspace(-0.8, 0.7, 10).view(5, 2)
    for power, run in found.items():
        assert run.scores == fit(encodings=[powers(power)], **FEW).scores
        model = run.model("Powers")
        assert isinstance(model, ImageFit)
        assert torch.equal(model.encoder(x), x.abs() ** power)
    assert "Powers" not in ENCODINGS
    names = fit(**{**FEW, "encodings": ["auto"], "steps": 10}).scores
    assert "Powers" not in names


def test_a_saved_model_is_loaded_with_the_class_that_it_was_fitted_with(tmp_path: Path) -> None:
    fit(encodings=[powers(3.0)], out=tmp_path / "run", **FEW)
    with pytest.raises(ValueError, match=r"give the class: encodings=\[Powers\]"):
        FittedRun(tmp_path / "run").model("Powers")
    with pytest.raises(ValueError, match="has changed since the run started"):
        FittedRun(tmp_path / "run", encodings=[powers(2.0)]).model("Powers")
    model = FittedRun(tmp_path / "run", encodings=[powers(3.0)]).model("Powers")
    file = tmp_path / "run/fits/Powers.safetensors"
    again = load_fit(file, encodings=[powers(3.0)])
    assert isinstance(model, ImageFit)
    assert isinstance(again, ImageFit)
    assert torch.equal(model.render(), again.render())
    with pytest.raises(CheckpointError, match=r"in Python with encodings=\[Powers\]"):
        load_fit(file)


class Drawn(torch.nn.Module):
    """Random constants, which are no part of the state."""

    def __init__(self, in_dim: int) -> None:
        super().__init__()
        self.out_dim = 16
        self.matrix = 8 * torch.randn(in_dim, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.matrix).sin()


def matrix_of(fit: ImageFit) -> torch.Tensor:
    module: Any = fit.encoder
    matrix: torch.Tensor = module.module.matrix
    return matrix


def test_constants_of_a_class_are_drawn_by_the_seed_and_those_of_the_saved_fit() -> None:
    run = fit(encodings=[Drawn], num_seeds=2, **{**FEW, "size": 24, "steps": 30})
    matrices = []
    for seed in (0, 1):
        alone = fit(encodings=[Drawn], seed=seed, **{**FEW, "size": 24, "steps": 30})
        model = alone.model("Drawn")
        assert isinstance(model, ImageFit)
        matrices.append(matrix_of(model))
        written = torch.as_tensor(alone.reconstruction("Drawn")) / 255
        assert float((model.render().clamp(0, 1) - written).abs().max()) <= 0.5 / 255 + 1e-5
    assert not torch.equal(matrices[0], matrices[1])
    first = run.model("Drawn")
    assert isinstance(first, ImageFit)
    assert torch.equal(matrix_of(first), matrices[0])


FAULTY = """
import sys
import torch

class Faulty(torch.nn.Module):
    def __init__(self, in_dim):
        super().__init__()
        self.out_dim, self.calls = in_dim, 0

    def forward(self, x):
        self.calls += 1
        if len(x) > 2 and self.calls > WHEN:
            RAISE
        return x
"""


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize("when", [0, 2, 10])
@pytest.mark.parametrize(
    "what",
    [
        "raise KeyError('k\\x1b[31m')",
        "assert False",
        "sys.exit(0)",
        "return x[:1]",
        "raise type('Mute', (BaseException,), {'__str__': lambda error: 1 / 0})",
    ],
)
def test_an_encoding_that_fails_ends_its_own_fit_alone(
    what: str, when: int, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.py").write_text(FAULTY.replace("RAISE", what).replace("WHEN", str(when)))
    names = ["--encodings", "none", "mine.py:Faulty", "fourier"]
    small = ["--size", "12", "--steps", "10", "--width", "8", "--depth", "1", "--video", "0"]
    assert train_fit.main([*names, *small, "--quiet", "--out", "run"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("train_fit.py: error: Faulty: ")
    assert error.count("\n") == 1
    assert ("Faulty gives (1, 2)" if "return" in what else "mine.py, line") in error
    assert "\x1b" not in error
    fits = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert [row["name"] for row in fits] == ["none", "fourier"]
    assert "Faulty could not be fitted: " in Path("run/report.html").read_text()
    # Its steps are saved, and it is tried again; after all steps a single call is left.
    status = train_fit.main(["--resume", "run", "--encodings", "mine.py:Faulty", "--quiet"])
    assert status == (0 if when == 10 else 1)


@pytest.mark.usefixtures("own_folder", "no_report")
def test_a_class_that_changes_the_modes_of_torch_loses_no_fit_before_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    changes = "return torch.set_grad_enabled(False) or x"
    Path("mine.py").write_text(FAULTY.replace("RAISE", changes).replace("WHEN", "0"))
    small = ["--size", "12", "--steps", "10", "--width", "8", "--depth", "1", "--video", "0"]
    with torch.enable_grad():
        names = ["--encodings", "none", "mine.py:Faulty", "fourier"]
        assert train_fit.main([*names, *small, "--quiet", "--out", "run"]) == 1
    assert "error: fourier: RuntimeError: " in capsys.readouterr().err
    fits = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert fits[0]["name"] == "none"
