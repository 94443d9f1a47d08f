"""Spectra of images and kernels of encoders against closed forms."""

import math

import pytest
import torch

from nerf_posenc import FourierEncoder, GaussianEncoder, HashGridEncoder
from nerf_posenc.analysis import kernel, spectrum
from nerf_posenc.images import Image


def waves(*amplitudes: float, side: int = 64) -> Image:
    """Cosines of octaves 0, 1, ... along x, with these amplitudes, about gray."""
    x = (torch.arange(side, dtype=torch.float64) + 0.5) / (side / 2) - 1
    octaves = range(len(amplitudes))
    sines = [a * torch.cos(2.0**k * math.pi * x) for k, a in zip(octaves, amplitudes, strict=True)]
    row = 0.5 + torch.stack(sines).sum(0)
    return Image.from_rgb(row.float().expand(side, side)[..., None].expand(side, side, 3))


def test_a_cosine_lies_in_its_own_octave_with_half_its_squared_amplitude() -> None:
    found = spectrum(waves(0.0, 0.0, 0.3))
    assert found.energy[2] == pytest.approx(0.3**2 / 2, rel=1e-5)
    assert found.variance == pytest.approx(0.3**2 / 2, rel=1e-5)
    assert found.share_below[:3] == pytest.approx([0.0, 0.0, 1.0], abs=1e-6)


def test_shares_are_those_of_the_squared_amplitudes_and_leave_the_mean_out() -> None:
    found = spectrum(waves(0.2, 0.1, 0.05))
    total = 0.2**2 + 0.1**2 + 0.05**2
    expected = [0.2**2 / total, (0.2**2 + 0.1**2) / total, 1.0]
    assert found.share_below[:3] == pytest.approx(expected, rel=1e-4)
    assert found.octave_below(0.9) == 1
    assert found.octave_below(1.0) >= 2
    assert "num_nyquist_bands=6" in repr(found)


def test_the_energy_is_the_variance_of_the_pixels() -> None:
    generator = torch.Generator().manual_seed(0)
    image = Image.from_rgb(torch.rand(20, 33, 3, generator=generator))
    centered = image.rgb.double() - image.rgb.double().mean((0, 1))
    assert spectrum(image).variance == pytest.approx(float(centered.square().mean()), rel=1e-6)


def test_an_image_of_one_color_has_no_energy_to_share() -> None:
    found = spectrum(Image.from_rgb(torch.full((8, 8, 3), 0.25)))
    assert found.variance == pytest.approx(0.0, abs=1e-12)
    one_pixel = spectrum(Image.from_rgb(torch.full((1, 1, 3), 0.25)))
    assert (one_pixel.energy, one_pixel.num_nyquist_bands) == ((), 1)


@pytest.mark.parametrize(("side", "bands"), [(64, 6), (96, 6), (128, 7), (512, 9)])
def test_nyquist_bands_are_those_up_to_half_a_cycle_per_pixel(side: int, bands: int) -> None:
    found = spectrum(Image.from_rgb(torch.zeros(1, side, 3)))
    assert found.num_nyquist_bands == bands
    assert 2 ** (bands - 1) * math.pi <= found.nyquist < 2**bands * math.pi


def test_shares_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="share must be above 0"):
        spectrum(waves(0.1)).octave_below(0.0)


def test_the_kernel_of_fourier_features_is_a_mean_of_cosines() -> None:
    found = kernel(FourierEncoder(2, num_bands=4))
    bands = 2.0 ** torch.arange(4) * math.pi
    # The features of the second axis do not change with x.
    expected = (torch.cos(found.displacement[:, None] * bands).sum(1) + 4) / 8
    torch.testing.assert_close(found.similarity, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("omega", [1.0, math.pi, 20.0])
def test_half_width_of_one_band_is_a_sixth_of_its_period(omega: float) -> None:
    bands = torch.tensor([omega], dtype=torch.float64)
    found = kernel(FourierEncoder(1, bands=bands))
    expected = 2 * math.pi / omega / 6
    # A displacement is at most 1 unit.
    assert found.half_width == pytest.approx(expected if expected <= 1 else math.inf, rel=1e-3)


def test_the_kernel_of_gaussian_features_is_as_wide_as_a_gaussian() -> None:
    # exp(-2 (pi sigma d)^2) = 1/2 (Rahimi and Recht 2007), up to the sampling of 256 features.
    sigma = 5.0
    encoder = GaussianEncoder(2, 256, sigma=sigma, generator=torch.Generator().manual_seed(0))
    expected = math.sqrt(math.log(2) / 2) / (math.pi * sigma)
    assert kernel(encoder).half_width == pytest.approx(expected, rel=0.1)


def test_trained_features_have_no_kernel() -> None:
    with pytest.raises(ValueError, match="HashGridEncoder's features depends on more"):
        kernel(HashGridEncoder(2, num_levels=2))
