"""PSNR and SSIM against closed forms."""

import math

import numpy as np
import pytest
import torch

from nerf_posenc.metrics import psnr, psnr_from_mse, ssim


@pytest.mark.parametrize("error", [0.5, 0.1, 0.01])
def test_psnr_of_a_constant_error(error: float) -> None:
    target = torch.full((4, 5, 3), 0.4)
    assert psnr(target + error, target) == pytest.approx(-20 * math.log10(error), abs=1e-4)


def test_psnr_clamps_to_the_unit_range_and_is_infinite_for_equals() -> None:
    target = torch.rand(8, 8, 3)
    assert psnr(target, target) == math.inf
    assert psnr(torch.full((4,), 7.0), torch.ones(4)) == math.inf
    assert psnr_from_mse(0.01) == pytest.approx(20)


def test_ssim_of_two_constants_is_its_luminance_term() -> None:
    x, y = 0.3, 0.6
    expected = (2 * x * y + 1e-4) / (x * x + y * y + 1e-4)
    measured = ssim(torch.full((20, 20, 3), x), torch.full((20, 20, 3), y))
    assert measured == pytest.approx(expected, abs=1e-6)


def test_ssim_follows_the_papers_formula() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.random((2, 11, 11))
    offsets = np.arange(11) - 5
    window = np.exp(-(offsets**2) / (2 * 1.5**2))
    weights = np.outer(window, window) / window.sum() ** 2
    mean_x, mean_y = (weights * x).sum(), (weights * y).sum()
    var_x = (weights * (x - mean_x) ** 2).sum()
    var_y = (weights * (y - mean_y) ** 2).sum()
    cov = (weights * (x - mean_x) * (y - mean_y)).sum()
    c1, c2 = 0.01**2, 0.03**2
    expected = (2 * mean_x * mean_y + c1) * (2 * cov + c2)
    expected /= (mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2)
    pictures = [torch.from_numpy(v).float()[..., None].expand(11, 11, 3) for v in (x, y)]
    assert ssim(pictures[0], pictures[1]) == pytest.approx(expected, abs=1e-5)


def test_ssim_of_a_picture_smaller_than_the_window_is_not_a_number() -> None:
    assert math.isnan(ssim(torch.zeros(10, 30, 3), torch.zeros(10, 30, 3)))


@pytest.mark.usefixtures("unchecked")
def test_shapes_that_differ_are_refused() -> None:
    for metric in (psnr, ssim):
        with pytest.raises(ValueError, match="one shape"):
            metric(torch.zeros(12, 12, 3), torch.zeros(12, 13, 3))
