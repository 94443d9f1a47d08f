"""Floors of an image's fits, beside transforms that are computed in another way."""

import math

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import train_fit
from nerf_posenc_app.kinds.image.floors import fewer_pixels, lowest_cosines
from tests.small import SMALL_RUN

pytestmark = pytest.mark.usefixtures("own_folder")


def drawn(height: int, width: int, channels: int = 3) -> Tensor:
    return torch.rand(height, width, channels, generator=torch.Generator().manual_seed(0))


def dct(values: np.ndarray) -> np.ndarray:
    """Orthonormal DCT-II along the first axis, by the Fourier transform of the mirrored values."""
    n = len(values)
    mirrored = np.concatenate([values, values[::-1]])
    k = np.arange(n).reshape(-1, *[1] * (values.ndim - 1))
    waves = (np.fft.fft(mirrored, axis=0)[:n] * np.exp(-0.5j * np.pi * k / n)).real / 2
    return np.asarray(waves * np.where(k == 0, math.sqrt(1 / n), math.sqrt(2 / n)))


@pytest.mark.parametrize(("height", "width", "numbers"), [(12, 18, 162), (7, 5, 30), (16, 16, 48)])
def test_a_cosine_transform_loses_what_it_leaves_out(height: int, width: int, numbers: int) -> None:
    image = drawn(height, width)
    waves = dct(dct(image.double().numpy()).swapaxes(0, 1)).swapaxes(0, 1)
    share = math.sqrt(numbers / 3 / (height * width))
    kept_y = math.floor(share * height)
    kept_x = numbers // 3 // kept_y
    left_out = (waves**2).sum() - (waves[:kept_y, :kept_x] ** 2).sum()
    error = (lowest_cosines(image, numbers) - image).square().sum()
    assert float(error) == pytest.approx(left_out, rel=1e-9)


@pytest.mark.parametrize("floor", [lowest_cosines, fewer_pixels])
def test_all_numbers_lose_nothing_and_gray_takes_a_third(floor) -> None:  # type: ignore[no-untyped-def]
    image = drawn(9, 14)
    assert torch.allclose(floor(image, image.numel()).float(), image, atol=1e-6)
    gray = image[..., :1].repeat(1, 1, 3)
    assert torch.allclose(floor(gray, 9 * 14).float(), gray, atol=1e-6)


@pytest.mark.parametrize(("floor", "least"), [(lowest_cosines, 1e-6), (fewer_pixels, 1e-2)])
def test_between_the_pixels_slow_waves_go_on(floor, least) -> None:  # type: ignore[no-untyped-def]
    def wave(rows: Tensor, columns: Tensor) -> Tensor:
        along = torch.cos(math.pi * 2 * (rows.double() + 0.5) / 40)
        across = torch.cos(math.pi * 3 * (columns.double() + 0.5) / 30)
        return (0.5 + 0.4 * along[:, None] * across)[..., None]

    image = wave(torch.arange(40), torch.arange(30)).float()
    rows, columns = torch.arange(5, 33) + 0.5, torch.arange(4, 25) + 0.25
    found = floor(image, 1200, rows, columns)
    assert float((found - wave(rows, columns)).abs().max()) < least


def test_a_run_says_what_its_numbers_are_worth(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--image", "cat", "--size", "64", "--encodings", "none", *SMALL_RUN]
    assert train_fit.main(options) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "without training, " in said
    assert "as many as none has, give PSNR " in said
    # Pixels that are not fitted, or more numbers than values, have no such floor.
    for more in (["--held-out"], ["--width", "256"]):
        assert train_fit.main([*options, *more]) == 0
        assert "without training, " not in " ".join(capsys.readouterr().out.split())
    # Channels of a gray image are one: 24 x 24 values, fewer than the network has numbers.
    Image.linear_gradient("L").resize((40, 40)).save("gray.png")
    gray = ["--image", "gray.png", "--encodings", "none", *SMALL_RUN, "--width", "36"]
    assert train_fit.main(gray) == 0
    assert "without training, " not in " ".join(capsys.readouterr().out.split())
