"""PSNR and SSIM against closed forms."""

import math

import numpy as np
import pytest
import torch
from skimage.metrics import structural_similarity

from nerf_posenc.metrics import power_spectrum, psnr, psnr_by_band, psnr_from_mse, ssim


@pytest.mark.parametrize("error", [0.5, 0.1, 0.01])
def test_psnr_of_a_constant_error(error: float) -> None:
    target = torch.full((4, 5, 3), 0.4)
    assert psnr(target + error, target) == pytest.approx(-20 * math.log10(error), abs=1e-4)


def test_psnr_clamps_to_the_unit_range_and_is_infinite_for_equals() -> None:
    target = torch.rand(8, 8, 3)
    assert psnr(target, target) == math.inf
    assert psnr(torch.full((4,), 7.0), torch.ones(4)) == math.inf
    assert psnr_from_mse(0.01) == pytest.approx(20)


def test_psnr_of_an_undefined_error_is_undefined() -> None:
    assert math.isnan(psnr_from_mse(math.nan))
    assert psnr_from_mse(math.inf) == -math.inf
    assert math.isnan(psnr(torch.full((4,), math.nan), torch.zeros(4)))
    with pytest.raises(ValueError, match="0 or more; got -1"):
        psnr_from_mse(-1.0)


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
    images = [torch.from_numpy(v).float()[..., None].expand(11, 11, 3) for v in (x, y)]
    assert ssim(images[0], images[1]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("shape", [(11, 11), (12, 90), (150, 64)])
def test_ssim_is_that_of_scikit_image(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(*shape, 3, generator=generator)
    noisy = image + 0.1 * torch.randn(*shape, 3, generator=generator)
    expected = structural_similarity(
        image.double().numpy(),
        noisy.clamp(0, 1).double().numpy(),
        channel_axis=-1,
        data_range=1.0,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
    )
    assert ssim(noisy, image) == pytest.approx(float(expected), abs=1e-12)


def test_ssim_of_a_image_smaller_than_the_window_is_not_a_number() -> None:
    assert math.isnan(ssim(torch.zeros(10, 30, 3), torch.zeros(10, 30, 3)))


@pytest.mark.usefixtures("unchecked")
def test_shapes_that_differ_are_refused() -> None:
    for metric in (psnr, ssim):
        with pytest.raises(ValueError, match="one shape"):
            metric(torch.zeros(12, 12, 3), torch.zeros(12, 13, 3))


def grating(cycles_x: int, cycles_y: int, size: int = 64, amplitude: float = 0.1) -> torch.Tensor:
    """Whole cycles across the image, around gray."""
    place = torch.arange(size, dtype=torch.float64) / size
    phase = 2 * math.pi * (cycles_x * place[None, :] + cycles_y * place[:, None])
    return (0.5 + amplitude * torch.cos(phase))[..., None].expand(size, size, 3)


@pytest.mark.parametrize(("cycles", "octave"), [(1, 0), (2, 1), (5, 2), (8, 3), (17, 4), (30, 5)])
def test_an_error_in_one_octave_shows_in_that_octave_alone(cycles: int, octave: int) -> None:
    # n cycles across two units are n pi rad per unit, in the octave round(log2 n).
    original = grating(3, 0)
    error = grating(0, cycles, amplitude=0.02) - 0.5
    for band in psnr_by_band(original + error, original):
        if band.octave == octave:
            # The mean square of a cosine is half its amplitude's square.
            assert band.psnr == pytest.approx(-10 * math.log10(0.02**2 / 2), abs=1e-6)
        else:
            assert band.psnr > 200


def test_the_bands_errors_add_up_to_the_mean_squared_error() -> None:
    original, other = torch.rand(2, 21, 34, 3)
    bands = psnr_by_band(other, original)
    total = sum(10 ** (-band.psnr / 10) for band in bands)
    assert -10 * math.log10(total) == pytest.approx(psnr(other, original))
    assert sum(band.energy for band in bands) == pytest.approx(
        float(original.double().square().mean())
    )


def test_a_lost_octave_is_not_recovered_and_the_others_are() -> None:
    original = grating(2, 0) + grating(0, 16) - 0.5
    bands = {band.octave: band for band in psnr_by_band(grating(2, 0), original)}
    assert bands[1].recovered == pytest.approx(1.0)
    assert bands[4].recovered == pytest.approx(0.0, abs=1e-9)


def test_the_spectrum_of_a_grating_is_one_line() -> None:
    frequencies, power = power_spectrum(grating(6, 0))
    assert float(frequencies[power.argmax()]) == pytest.approx(6 * math.pi)
    assert float(power.sort().values[-2]) < 1e-20


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 9, 3), (2, 2, 3)])
def test_the_smallest_images_have_bands(shape: tuple[int, int, int]) -> None:
    image = torch.rand(shape)
    assert len(psnr_by_band(image, image)) >= 1
    power_spectrum(image)
