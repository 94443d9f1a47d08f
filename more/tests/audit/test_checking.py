"""Encoders of coordinates as others write them, right and wrong, compared with presets."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from nerf_posenc import FourierEncoder, GaussianEncoder, contract
from nerf_posenc_audit import NotAskableError, assert_encoding, check
from nerf_posenc_audit.__main__ import main


class Embedder(nn.Module):
    """The encoder of nerf-pytorch, and its usual mistakes.

    Args:
        base: the lowest band, in rad per unit.
        waves: functions of each band, in their order.
        has_raw: whether the coordinates come first.
        factor: factor of all columns.
        by_axis: whether all sines of an axis lie together.
    """

    octaves: Tensor

    def __init__(
        self,
        base: float = 1.0,
        waves: tuple[Callable[[Tensor], Tensor], ...] = (torch.sin, torch.cos),
        *,
        has_raw: bool = True,
        factor: float = 1.0,
        by_axis: bool = False,
    ) -> None:
        super().__init__()
        self.waves, self.has_raw, self.factor, self.by_axis = waves, has_raw, factor, by_axis
        self.register_buffer("octaves", base * 2.0 ** torch.arange(10))

    def forward(self, x: Tensor) -> Tensor:
        """Encode points."""
        raw = [x] if self.has_raw else []
        if self.by_axis:
            angles = (x[..., None] * self.octaves).flatten(-2)
            return torch.cat([*raw, *(wave(angles) for wave in self.waves)], dim=-1)
        columns = [wave(x * octave) for octave in self.octaves for wave in self.waves]
        return self.factor * torch.cat([*raw, *columns], dim=-1)


WRONG = {
    "it has base 3.14159": Embedder(math.pi),
    "it has base 6.28319": Embedder(2 * math.pi),
    "it has phases ('cos', 'sin')": Embedder(waves=(torch.cos, torch.sin)),
    "there are 60 columns instead of 63": Embedder(has_raw=False),
    "features are times 2": Embedder(factor=2.0),
    "it has layout 'pak'": Embedder(by_axis=True),
    "it is another encoding": nn.Linear(3, 63),
    "there are 61 columns instead of 63": nn.Linear(3, 61),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_mistake_is_named(words: str) -> None:
    verdict = check(WRONG[words], against="nerf-pytorch 3 10")
    assert verdict.differences[0] == words
    with pytest.raises(AssertionError, match=r"features|it|there"):
        assert_encoding(WRONG[words], FourierEncoder.preset("nerf-pytorch", 3, 10))


def test_a_right_one_is_right_and_what_a_cast_does_is_measured() -> None:
    verdict = check(
        Embedder(math.pi), against=FourierEncoder.preset("pixelnerf", 3, 10, base=math.pi)
    )
    assert verdict.is_right
    # A float32 angle of 1608 rad, and what is left of pi after a cast.
    assert 1e-5 < float(verdict.errors["as built"][1]) < 2e-4
    assert float(verdict.errors["after .to(bfloat16)"][1]) > 0.1
    assert verdict.errors["after meta"][1] == "not rebuilt"
    # Only the features are rounded, to 8 bits.
    exact = check(FourierEncoder.preset("tensorf", 3, 10), against="tensorf 3 10")
    assert max(map(float, exact.errors["after .to(bfloat16)"].values())) <= 2**-9


def test_what_takes_no_points_is_an_error() -> None:
    with pytest.raises(NotAskableError, match="RuntimeError"):
        check(nn.Linear(2, 63), against="nerf-pytorch 3 10")
    with pytest.raises(NotAskableError, match="it gives no features"):
        check(lambda x: x.sum(), against="nerf-pytorch 3 10")


def merf(x: Tensor) -> Tensor:
    """Equation 1 of MERF (Reiser et al. 2023), number by number."""
    rows = []
    for point in x.tolist():
        size = max(map(abs, point))
        far = [(2 - 1 / abs(v)) * v / abs(v) if abs(v) == size else v / size for v in point]
        rows.append(point if size <= 1 else far)
    return torch.tensor(rows)


def test_contractions_are_named() -> None:
    right = Embedder()
    for contracted, words in ((merf, "MERF"), (contract, "mip-NeRF 360")):
        verdict = check(lambda x, by=contracted: right(by(x)), against="nerf-pytorch 3 10")
        assert f"it contracts far coordinates as {words} does" in str(verdict)


@pytest.mark.parametrize("dim", [2, 5])
def test_what_stands_beside_random_features_is_named(dim: int) -> None:
    encoder = GaussianEncoder(dim, 18 * dim, sigma=3.0)
    assert check(encoder, against=encoder).is_right
    ones = lambda x: torch.ones(len(x), 1)  # noqa: E731
    for module, words in (
        (lambda x: torch.cat([x, encoder(x)], -1), f"from column {dim}, are coordinates ({dim})"),
        (lambda x: torch.cat([encoder(x), ones(x)], -1), "from column 0, are constants (1)"),
        (lambda x: torch.cat([ones(x), encoder(x), x.sin()], -1), f"(1), others ({dim})"),
    ):
        assert words in check(module, against=encoder).differences[1]
    other = GaussianEncoder(dim, 18 * dim, sigma=3.0)
    assert check(other, against=encoder).differences == ("it is another encoding",)


@pytest.mark.parametrize("sizes", ["", " 3 10 4", " x"])
def test_sizes_that_do_not_fit_are_an_error(sizes: str) -> None:
    with pytest.raises(ValueError, match="give nerf-pytorch with its coordinates and bands"):
        check(nn.Linear(3, 63), against=f"nerf-pytorch{sizes}")


def test_the_command_takes_the_sizes_of_a_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_encoding.py").write_text(
        "import torch\n"
        "def encode(x):\n"
        "    waves = [f(x * 2.0**k) for k in range(4) for f in (torch.sin, torch.cos)]\n"
        "    return torch.cat([x, *waves], -1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["check", "own_encoding:encode", "--preset", "nerf-pytorch 2 4"]) == 0
    assert capsys.readouterr().out.startswith("right\n")
    assert main(["check", "own_encoding:encode", "--preset", "pixelnerf 2 4"]) == 1
    assert capsys.readouterr().out.startswith("it has base 1\n")
