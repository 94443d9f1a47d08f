"""PSNR and SSIM against closed forms."""

import math

import numpy as np
import pytest
import torch

from nerf_posenc.metrics import power_spectrum, psnr, psnr_by_band, psnr_from_mse, ssim
from nerf_posenc.metrics.image import Scored, constant_psnr
from nerf_posenc.metrics.spectrum import nyquist_frequency
from tests.optional import needs


@pytest.mark.parametrize("error", [0.5, 0.1, 0.01])
def test_psnr_of_a_constant_error(error: float) -> None:
    target = torch.full((4, 5, 3), 0.4)
    assert psnr(target + error, target) == pytest.approx(-20 * math.log10(error), abs=1e-4)


def test_psnr_clamps_to_the_unit_range_and_is_infinite_for_equals() -> None:
    target = torch.rand(8, 8, 3)
    assert psnr(target, target) == math.inf
    assert psnr(torch.full((4,), 7.0), torch.ones(4)) == math.inf
    assert psnr_from_mse(0.01) == pytest.approx(20)


def test_psnr_is_the_mean_over_all_values_of_a_large_image() -> None:
    target = torch.zeros(300, 200, 3)
    prediction = target.clone()
    prediction[::3] = 0.3
    assert psnr(prediction, target) == pytest.approx(-10 * math.log10(0.3**2 / 3), abs=1e-6)


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_psnr_by_weights_is_that_of_pixels_repeated_so_many_times(channels: int) -> None:
    generator = torch.Generator().manual_seed(channels)
    target = torch.rand(40, channels, generator=generator)
    # Also below 0 and above 1.
    prediction = target + torch.randn(40, channels, generator=generator)
    times = torch.arange(40) % 4
    expected = psnr(prediction.repeat_interleave(times, 0), target.repeat_interleave(times, 0))
    prediction[times == 0] = math.nan
    assert psnr(prediction, target, times.float()) == pytest.approx(expected, abs=1e-9)


def test_black_images_have_no_detail_to_recover() -> None:
    black = torch.zeros(8, 8, 3)
    assert all(math.isnan(band.recovered) for band in psnr_by_band(black + 0.1, black))


def test_psnr_of_an_undefined_error_is_undefined() -> None:
    assert math.isnan(psnr_from_mse(math.nan))
    assert psnr_from_mse(math.inf) == -math.inf
    assert math.isnan(psnr(torch.full((4,), math.nan), torch.zeros(4)))
    with pytest.raises(ValueError, match="0 or more; got -1"):
        psnr_from_mse(-1.0)


@pytest.mark.parametrize("shape", [(11, 11), (12, 90), (150, 64)])
def test_ssim_is_that_of_scikit_image(shape: tuple[int, int]) -> None:
    needs("skimage")
    from skimage.metrics import structural_similarity

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


def test_ssim_of_scored_pixels_is_the_mean_of_their_windows_that_have_a_value() -> None:
    needs("skimage")
    from skimage.metrics import structural_similarity

    generator = torch.Generator().manual_seed(0)
    image, other = torch.rand(2, 20, 24, 3, generator=generator)
    valid, scored = torch.rand(2, 20, 24, generator=generator) > 0.3
    # Pixels without a value are equal in both.
    a, b = (torch.where(valid[..., None], each, 0.0).double().numpy() for each in (image, other))
    _, windows = structural_similarity(
        *(a, b),
        channel_axis=-1,
        data_range=1.0,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
        full=True,
    )
    inside = (valid & scored)[5:-5, 5:-5].numpy()
    expected = windows[5:-5, 5:-5][inside].mean()
    assert ssim(image, other, valid, scored) == pytest.approx(float(expected), abs=1e-12)


def test_the_constant_of_a_large_image_is_that_of_its_parts() -> None:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(700, 300, 3, generator=generator) * torch.linspace(0, 1, 300)[:, None]
    scored = Scored(pixels, torch.rand(700, 300, generator=generator) * torch.linspace(1, 0, 300))
    parts = [scored.at(slice(top, top + 100)) for top in range(0, 700, 100)]
    assert constant_psnr([scored]) == pytest.approx(constant_psnr(parts), abs=1e-9)


def test_ssim_of_a_image_smaller_than_the_window_is_not_a_number() -> None:
    assert math.isnan(ssim(torch.zeros(10, 30, 3), torch.zeros(10, 30, 3)))


@pytest.mark.usefixtures("unchecked")
def test_shapes_that_differ_are_refused() -> None:
    for metric in (psnr, ssim, psnr_by_band):
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


@pytest.mark.parametrize(("size", "octaves"), [(1, 0), (7, 3), (24, 5), (40, 6)])
def test_the_bands_are_octaves_around_the_powers_of_two_up_to_the_corner(
    size: int, octaves: int
) -> None:
    # The corner of the spectrum has sqrt(2) times the whole cycles of half the pixels, and lies
    # in octave k from 2^(k - 1/2) up.
    assert octaves == (0 if size == 1 else 1 + round(math.log2(math.sqrt(2) * (size // 2))))
    bands = psnr_by_band(torch.rand(size, size, 3), torch.rand(size, size, 3))
    assert [band.octave for band in bands] == [None, *range(octaves)]
    edges = [2 ** (k - 0.5) * math.pi for k in range(octaves + 1)] if octaves else [math.inf]
    assert [band.high for band in bands] == pytest.approx(edges)
    assert [band.low for band in bands] == pytest.approx([0.0, *edges[:-1]])


def test_a_lost_octave_is_not_recovered_and_the_others_are() -> None:
    original = grating(2, 0) + grating(0, 16) - 0.5
    bands = {band.octave: band for band in psnr_by_band(grating(2, 0), original)}
    assert bands[1].recovered == pytest.approx(1.0)
    # A cosine of amplitude 0.1; nothing lies in octave 2.
    assert bands[1].energy == pytest.approx(0.005)
    assert bands[2].energy == pytest.approx(0.0, abs=1e-20)
    assert bands[4].recovered == pytest.approx(0.0, abs=1e-9)


def test_the_spectrum_of_a_grating_is_one_line() -> None:
    frequencies, power = power_spectrum(grating(6, 0))
    assert frequencies.tolist() == pytest.approx([n * math.pi for n in range(1, 33)])
    assert float(frequencies[power.argmax()]) == pytest.approx(6 * math.pi)
    assert float(power.sort().values[-2]) < 1e-20
    # Its mean square, 0.1^2 / 2, over all frequencies of which 6 is the nearest integer.
    cycles = np.fft.fftfreq(64, 1 / 64)
    nearest = np.round(np.hypot(cycles[:, None], cycles[None])) == 6
    assert float(power.max()) == pytest.approx(0.005 / nearest.sum())


@pytest.mark.parametrize("shape", [(20, 31), (9, 14), (16, 16)])
def test_the_spectrum_is_the_mean_over_rings_of_the_whole_plane(shape: tuple[int, int]) -> None:
    image = torch.rand(*shape, 3, dtype=torch.float64)
    transformed = np.fft.fft2(image.numpy(), axes=(0, 1)) / math.prod(shape)
    power = (np.abs(transformed) ** 2).mean(-1)
    side = max(shape)
    cycles = [np.fft.fftfreq(length) * side for length in shape]
    rings = np.round(np.hypot(cycles[0][:, None], cycles[1][None]))
    frequencies, found = power_spectrum(image)
    for frequency, value in zip(frequencies.tolist(), found.tolist(), strict=True):
        expected = power[rings == round(frequency / math.pi)].mean()
        assert value == pytest.approx(float(expected), rel=1e-9)


def test_the_nyquist_frequency_is_half_a_cycle_per_pixel() -> None:
    # The longer side spans two units: 40 pixels are 20 per unit, or 10 cycles.
    assert nyquist_frequency(40, 12) == pytest.approx(10 * 2 * math.pi)
    assert nyquist_frequency(12, 40) == pytest.approx(10 * 2 * math.pi)


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 9, 3), (2, 2, 3)])
def test_the_smallest_images_have_bands(shape: tuple[int, int, int]) -> None:
    image = torch.rand(shape)
    assert len(psnr_by_band(image, image)) >= 1
    power_spectrum(image)


@pytest.mark.parametrize("side", range(1, 8))
def test_octaves_of_few_pixels_add_up(side: int) -> None:
    # The corners of 3 x 3 and 5 x 5 frequencies lie on the bound of an octave.
    a, b = torch.rand(2, side, side, 3, dtype=torch.float64)
    lost = sum(10 ** (-band.psnr / 10) for band in psnr_by_band(a, b))
    assert lost == pytest.approx(float((a - b).square().mean()))
