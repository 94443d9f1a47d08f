"""The sentence at the top of a page."""

import math

import pytest

from app.report.headline import headline
from nerf_posenc.training.results import FieldResult


def fit(encoding: str, psnr: float, *, parameters: int = 1, steps: int = 600) -> FieldResult:
    return FieldResult(
        encoding=encoding,
        parameters=parameters,
        seconds=1.0,
        steps=steps,
        history=(),
        psnr=psnr,
        ssim=0.5,
    )


BICUBIC = fit("bicubic", 32.0, parameters=0, steps=0)
BILINEAR = fit("bilinear", 31.0, parameters=0, steps=0)


def test_an_encoding_is_compared_with_the_same_network_without_it() -> None:
    said = headline([fit("none", 20.0), fit("fourier", 30.0), fit("hash", 25.0)])
    assert said == (
        "Positional encoding recovers 10.0 dB: 30.0 dB against 20.0 dB without it, same network, "
        "same 600 steps"
    )


def test_a_transform_is_compared_with_a_network_on_raw_coordinates() -> None:
    series = fit("local-cosine", 49.0, steps=0)
    expected = "A local cosine series reaches 49.0 dB, a network on raw coordinates 20.0 dB"
    assert headline([fit("none", 20.0), series]) == expected
    between = headline([fit("none", 20.0), series, BICUBIC], held_out=True)
    assert between == (
        "A local cosine series reaches 49.0 dB between the fitted pixels, a network on raw "
        "coordinates 20.0 dB; bicubic interpolation reaches 32.0 dB"
    )


@pytest.mark.parametrize(("psnr", "words"), [(24.0, "8.0 dB behind"), (33.5, "1.5 dB ahead of")])
def test_without_raw_coordinates_held_out_pixels_are_compared_with_interpolation(
    psnr: float, words: str
) -> None:
    results = [fit("gaussian", 15.0), fit("fourier", psnr), BILINEAR, BICUBIC]
    assert headline(results, held_out=True) == (
        f"Positional encoding is {words} bicubic interpolation between the fitted pixels: "
        f"{psnr:.1f} dB against 32.0 dB"
    )


def test_without_raw_coordinates_every_fit_is_named_best_first() -> None:
    results = [fit("fourier", 28.0), fit("hash", 32.04), fit("local-cosine", 52.4, steps=0)]
    assert headline(results) == (
        "A local cosine series reaches 52.4 dB, a hash grid 32.0 dB, positional encoding 28.0 dB"
    )


def test_there_is_none_without_anything_to_compare_with() -> None:
    assert headline([fit("fourier", 30.0)]) is None
    assert headline([fit("fourier", 30.0)], held_out=True) is None
    assert headline([fit("none", math.nan), fit("fourier", 30.0)]) is None
    assert headline([fit("none", math.inf), fit("fourier", 30.0), fit("hash", 40.0)]) is None
    assert headline([BICUBIC], held_out=True) is None
