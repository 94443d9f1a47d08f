"""Encodings and networks of a user's own file."""

import json
from pathlib import Path

import pytest

import train_fit
from nerf_posenc.training.recipes import ENCODINGS, NETWORKS

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


@pytest.mark.usefixtures("own_folder", "no_report")
def test_an_encoding_of_a_file_is_imported_where_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("CubicEncoder", "Small"):
        monkeypatch.delitem(ENCODINGS, name, raising=False)
    Path("mine.py").write_text(OWN)
    Path("bad.py").write_text(BAD)
    small = ["--size", "12", "--steps", "5", "--batch-size", "50", "--video", "0", "--quiet"]
    names = ["--encodings", "none", "./mine.py:CubicEncoder", "mine.py:Small"]
    assert train_fit.main([*names, *small, "--out", "run"]) == 0
    fits = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert [fit["encoding"] for fit in fits] == ["none", "CubicEncoder", "Small"]
    assert fits[2]["parameters"] == (4 * 8 + 8) + (8 * 3 + 3)
    # In another process the names are not known, and from another folder the file is found.
    for name in ("CubicEncoder", "Small"):
        ENCODINGS.pop(name)
    Path("run/metrics.json").unlink()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert train_fit.main(["--resume", "../run", "--quiet"]) == 2
    assert "CubicEncoder is code, which runs only if you name it" in capsys.readouterr().err
    assert "CubicEncoder" not in ENCODINGS
    own = [f"../mine.py:{name}" for name in ("CubicEncoder", "Small")]
    Path("../mine.py").write_text(OWN + "\n")
    assert train_fit.main(["--resume", "../run", "--encodings", *own]) == 2
    assert "mine.py has changed since the run started" in capsys.readouterr().err
    Path("../mine.py").write_text(OWN)
    assert train_fit.main(["--resume", "../run", "--quiet", "--encodings", *own]) == 0
    ENCODINGS.pop("CubicEncoder")
    assert train_fit.main(["render", "../run", "--encoding", "CubicEncoder"]) == 2
    assert "--encoding FILE.py:CubicEncoder" in capsys.readouterr().err
    render = ["render", "../run", "--encoding", "../mine.py:CubicEncoder", "--quiet"]
    assert train_fit.main(render) == 0
    for word, message in {
        "../mine.py:fourier": "there is an encoding fourier already",
        "../mine.py:broken": "has no class broken derived from",
        "../mine.py:missing": "it has CubicEncoder, Small",
        "../mine.py": "../mine.py needs the name of a class in it: ../mine.py:CubicEncoder",
        "../bad.py:Narrow": "Narrow encodes no coordinates: its out_dim is 3, and it gives (2, 2)",
        "../bad.py:Unknown": "Unknown needs an attribute out_dim, the number of its features",
        "../bad.py:Endless": "Endless encodes no coordinates: its values are not finite",
        "../bad.py:Chance": "it differs each time it is built",
        "../bad.py:Blind": "Blind encodes no coordinates: TypeError: ",
        "nowhere.py:Cubic": "there is no file nowhere.py",
    }.items():
        assert train_fit.main(["--encodings", word]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    for name in ("CubicEncoder", "Small"):
        ENCODINGS.pop(name, None)


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
    NETWORKS.pop("Tanh")
    Path("run/metrics.json").unlink()
    assert train_fit.main(["--resume", "run", "--quiet"]) == 2
    assert "Tanh is code, which runs only if you name it" in capsys.readouterr().err
    own = ["--encodings", "mine.py:Tanh"]
    assert train_fit.main(["--resume", "run", "--quiet", *own]) == 0
    for word, message in {
        "mine.py:Deaf": "a network takes in_dim, out_dim, width, depth: TypeError: ",
        "mine.py:Single": "Single computes no values",
    }.items():
        assert train_fit.main(["--encodings", word]) == 2
        assert message in capsys.readouterr().err
    NETWORKS.pop("Tanh")
