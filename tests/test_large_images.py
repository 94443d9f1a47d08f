"""Images of many pixels: what is computed in parts is what the whole image gives."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor

from nerf_posenc.images import Image, resize_area, to_eight_bits, unit_range
from nerf_posenc.metrics.image import psnr, psnr_from_mse, ssim
from nerf_posenc.metrics.spectrum import spectra
from nerf_posenc.training.batches import PixelBatches, ShuffledBatches, ShuffledRows
from nerf_posenc_app.crops import most_detailed_window
from nerf_posenc_app.data import open_image
from nerf_posenc_app.kinds.image.image import ImageKind
from nerf_posenc_app.kinds.image.options import ImageOptions
from nerf_posenc_app.kinds.kind import digest_of
from nerf_posenc_app.report.images import error_map, error_scale, reduced_error
from nerf_posenc_app.values.blocks import View
from nerf_posenc_app.values.results import Result
from tests.fits import fitted


def pixels(height: int, width: int, *, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (height, width, 3), generator=generator, dtype=torch.uint8)


@pytest.fixture
def any_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every image as one of many megapixels."""
    for module in (
        "nerf_posenc.images",
        "nerf_posenc_app.crops",
        "nerf_posenc_app.report.outputs",
        "nerf_posenc_app.data.image_files",
    ):
        monkeypatch.setattr(f"{module}.LARGE_PIXELS", 0)


@pytest.mark.parametrize("kind", [torch.float32, torch.uint8, torch.uint16])
def test_batches_of_pixels_are_those_of_all_coordinates_and_colors(kind: torch.dtype) -> None:
    stored = pixels(13, 17)
    image = Image.from_rgb(unit_range(stored) if kind == torch.float32 else stored.to(kind))
    for part in (image, image.split_held_out()):
        whole = ShuffledBatches(part.coordinates.reshape(-1, 2), part.rgb.reshape(-1, 3), 7, seed=3)
        computed = PixelBatches(part, 7, seed=3)
        for step in (0, 1, 5, 40):
            for expected, found in zip(whole(step), computed(step), strict=True):
                assert torch.equal(expected, found)


def test_every_row_is_drawn_once_in_a_pass() -> None:
    rows = ShuffledRows(120, 8, seed=1)
    passes = [torch.cat([rows(first + i) for i in range(15)]) for first in (0, 15)]
    for drawn in passes:
        assert sorted(drawn.tolist()) == list(range(120))
    assert not torch.equal(*passes)
    assert torch.equal(rows(3), ShuffledRows(120, 8, seed=1)(3))


def test_batches_of_no_size_are_refused() -> None:
    with pytest.raises(ValueError, match="batch_size must be 1 or more"):
        PixelBatches(Image.from_rgb(pixels(2, 2)), 0, seed=0)


@pytest.mark.parametrize(("kind", "largest"), [(torch.uint8, 255), (torch.uint16, 65535)])
def test_stored_integers_are_exactly_rounded_quotients(kind: torch.dtype, largest: int) -> None:
    numbers = np.arange(largest + 1)
    expected = torch.from_numpy((numbers / largest).astype(np.float32))
    found = unit_range(torch.from_numpy(numbers).to(kind))
    assert torch.equal(found, expected)
    assert torch.equal(to_eight_bits(found), (expected * 255).round().byte())


def test_rows_are_averaged_as_the_whole_image(any_is_large: None) -> None:
    image = pixels(37, 61)
    for longer_side in (1, 7, 30, 60):
        flat = unit_range(image).permute(2, 0, 1)[None]
        size = max(1, round(37 * longer_side / 61)), longer_side
        expected = torch.nn.functional.adaptive_avg_pool2d(flat, size)[0].permute(1, 2, 0)
        torch.testing.assert_close(resize_area(image, longer_side), expected)


def test_a_large_image_is_reduced_to_eight_bits(any_is_large: None) -> None:
    image = Image.from_rgb(pixels(20, 30))
    small = image.resized(10)
    assert small.pixels.dtype == torch.uint8
    torch.testing.assert_close(small.rgb, resize_area(image.rgb, 10), atol=0.5 / 255 + 1e-6, rtol=0)
    assert image.resized(30) is image


def test_the_mean_color_is_that_of_all_pixels(any_is_large: None) -> None:
    image = Image.from_rgb(pixels(20, 30))
    torch.testing.assert_close(image.mean_color(), image.rgb.mean((0, 1)))


def test_the_most_detailed_window_in_blocks_has_the_most_energy(any_is_large: None) -> None:
    image = pixels(64, 96)
    image[24:40, 48:80] //= 2
    window = most_detailed_window(image, 16, 24)
    gray = unit_range(image).mean(-1).double()
    energy = torch.zeros_like(gray)
    energy[:, 1:] += gray.diff(dim=1).square()
    energy[1:] += gray.diff(dim=0).square()
    sums = {
        (top, left): float(energy[top : top + 16, left : left + 24].sum())
        for top in range(0, 64 - 15, 8)
        for left in range(0, 96 - 23, 8)
    }
    assert (window[0].start, window[1].start) == max(sums, key=lambda at: sums[at])
    whole = most_detailed_window(image, 64, 96)
    assert whole == (slice(0, 64), slice(0, 96))
    odd = most_detailed_window(image[:61, :95], 13, 21)
    assert [part.stop - part.start for part in odd] == [13, 21]
    assert 0 <= odd[0].start <= 61 - 13
    assert 0 <= odd[1].start <= 95 - 21


@pytest.mark.parametrize("shape", [(24, 40), (33, 20), (17, 17), (1, 9), (20, 530)])
@pytest.mark.parametrize("most_exact", [0, 10**6])
@pytest.mark.slow
def test_spectra_in_blocks_are_those_of_the_whole_plane(
    shape: tuple[int, int], most_exact: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nerf_posenc.metrics.spectrum.LARGE_PIXELS", most_exact)
    original, fit = pixels(*shape), pixels(*shape, seed=1)
    found = spectra(original, {"fit": fit})
    height, width = shape
    cycles = torch.hypot(
        torch.fft.fftfreq(height, dtype=torch.float64)[:, None],
        torch.fft.fftfreq(width, dtype=torch.float64),
    ) * max(shape)

    def power(image: Tensor) -> Tensor:
        # NumPy's transform: the library's own is torch's.
        transformed = np.fft.fft2(image.double().numpy() / 255, axes=(0, 1)) / (height * width)
        return torch.from_numpy(np.square(np.abs(transformed)).mean(-1))

    for frequency, original_power, fit_power in zip(
        found.frequencies, found.original, found.power["fit"], strict=True
    ):
        ring = cycles.round() == round(float(frequency) / torch.pi)
        assert float(original_power) == pytest.approx(float(power(original)[ring].mean()), rel=1e-5)
        assert float(fit_power) == pytest.approx(float(power(fit)[ring].mean()), rel=1e-5)
    error = power(fit.double() - original.double())
    for band in found.bands["fit"]:
        ring = (cycles * torch.pi >= band.low) & (cycles * torch.pi < band.high)
        energy, lost = float(power(original)[ring].sum()), float(error[ring].sum())
        assert band.energy == pytest.approx(energy, rel=1e-5, abs=1e-12)
        assert band.psnr == pytest.approx(psnr_from_mse(lost), abs=1e-4)


def test_error_maps_in_rows_are_those_of_the_whole_image() -> None:
    original, fit = pixels(30, 44), pixels(30, 44, seed=1)
    error = (fit.double() - original.double()).abs().mean(-1) / 255
    torch.testing.assert_close(error_map(fit, original).double(), error, atol=1e-6, rtol=0)
    assert error_scale([(fit, original)]) == pytest.approx(float(error.quantile(0.99)), rel=1e-5)
    assert torch.equal(reduced_error(fit, original, 44), error_map(fit, original))
    flat = torch.nn.functional.adaptive_avg_pool2d(error[None], (15, 22))[0]
    torch.testing.assert_close(reduced_error(fit, original, 22).double(), flat)


def test_measures_of_stored_integers_are_those_of_their_values() -> None:
    a, b = pixels(20, 21), pixels(20, 21, seed=1)
    assert psnr(a, b) == psnr(unit_range(a), unit_range(b))
    assert ssim(a, b) == ssim(unit_range(a), unit_range(b))
    assert digest_of([(a.shape, [a])]) == digest_of([(a.shape, [unit_range(a)])])


def test_a_large_fit_is_evaluated_before_it_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {
        "num_bands": 4,
        "width": 32,
        "depth": 2,
        "steps": 40,
        "batch_size": 512,
        "lr": 0.02,
        "precision": "float32",
    }

    def fit_it() -> Result:
        kind = ImageKind(ImageOptions(), Image.from_rgb(pixels(32, 48)))
        return fitted(kind, "fourier", **options)

    small = fit_it()
    for module in ("nerf_posenc.images", "nerf_posenc_app.crops"):
        monkeypatch.setattr(f"{module}.LARGE_PIXELS", 0)
    monkeypatch.setattr("nerf_posenc_app.kinds.image.reconstruction._STRIP_PIXELS", 100)
    large = fit_it()
    exact, rounded = (result.blocks(View)[0].reconstruction for result in (small, large))
    assert rounded.dtype == torch.uint8
    assert large.scores["psnr_db"] == pytest.approx(small.scores["psnr_db"], abs=1e-4)
    assert large.scores["ssim"] == pytest.approx(small.scores["ssim"], abs=1e-2)
    # Integers that were almost halfway may fall either way.
    difference = rounded.int() - to_eight_bits(exact).int()
    assert int(difference.abs().max()) <= 1
    assert float(difference.abs().double().mean()) < 0.01


def test_large_files_are_held_in_few_bits(tmp_path: Path, any_is_large: None) -> None:
    rgba = pixels(6, 7).numpy()
    rgba = np.concatenate((rgba, rgba[..., :1]), axis=2)
    PIL.Image.fromarray(rgba).save(tmp_path / "alpha.png")
    found = open_image(str(tmp_path / "alpha.png")).pixels
    assert found.dtype == torch.uint8
    alpha = rgba[..., 3:] / 255
    expected = np.rint(rgba[..., :3] * alpha + 255 * (1 - alpha))
    np.testing.assert_array_equal(found.numpy(), expected)
    values = np.linspace(0, 1, 42, dtype=np.float32).reshape(6, 7)
    np.save(tmp_path / "float.npy", values)
    found = open_image(str(tmp_path / "float.npy")).pixels
    assert found.dtype == torch.uint16
    np.testing.assert_array_equal(found[..., 0].numpy(), np.rint(values.astype(float) * 65535))
