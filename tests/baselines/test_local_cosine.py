"""The local cosine series against the algebra of its functions."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from baselines import coefficient_masks, local_cosine
from baselines.local_cosine import CELL, LocalCosineSeries, round_series
from nerf_posenc.images import Image, to_eight_bits
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks import num_parameters


def textured(height: int, width: int) -> Image:
    """Smooth ramps with noise, so that coefficients differ in size."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.linspace(0.2, 0.8, height)[:, None, None]
    columns = torch.linspace(0.1, 0.3, width)[None, :, None]
    noise = 0.05 * torch.rand(height, width, 3, generator=generator)
    return Image.from_rgb((rows + columns).expand(-1, -1, 3) * 0.8 + noise)


def solved(image: Image, most: int) -> LocalCosineSeries:
    series = LocalCosineSeries()
    series.fit(image, most)
    return series


def functions_of_axis(series: LocalCosineSeries, cells: int) -> Tensor:
    """Every function of an axis at every pixel center, ``(pixels, cells * CELL)``."""
    positions = torch.arange(cells * CELL) + 0.5
    index, values = series._functions(positions, cells)
    dense = torch.zeros(len(positions), cells, CELL)
    for cell, value in zip(index, values, strict=True):
        dense[torch.arange(len(positions)), cell] += value
    return dense.flatten(1)


@pytest.mark.parametrize("cells", [1, 2, 5])
def test_the_functions_are_orthonormal_on_the_pixels(cells: int) -> None:
    functions = functions_of_axis(LocalCosineSeries(), cells).double()
    torch.testing.assert_close(
        functions.T @ functions, torch.eye(cells * CELL).double(), atol=2e-6, rtol=0
    )


def test_a_function_is_the_windowed_cosine_of_its_formula() -> None:
    functions = functions_of_axis(LocalCosineSeries(), 3).double()
    k, cell = 3, 1
    offset = torch.arange(3 * CELL).double() + 0.5 - cell * CELL
    rising = torch.sin(math.pi / 2 * ((offset + 4) / CELL).clamp(0, 1))
    falling = torch.cos(math.pi / 2 * ((offset - 4) / CELL).clamp(0, 1))
    expected = (
        math.sqrt(2 / CELL) * rising * falling * torch.cos(math.pi / CELL * (k + 0.5) * offset)
    )
    expected[(offset < -4) | (offset > CELL + 4)] = 0
    torch.testing.assert_close(functions[:, cell * CELL + k], expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize("size", [(16, 24), (13, 21), (5, 40), (1, 1)])
def test_with_all_coefficients_every_pixel_is_exact(size: tuple[int, int]) -> None:
    image = textured(*size)
    # However many more there may be than the image has.
    series = solved(image, 10_000_000)
    assert len(series.coefficients) == 3 * math.prod(math.ceil(s / CELL) * CELL for s in size)
    torch.testing.assert_close(series(image.coordinates), image.rgb, atol=1e-5, rtol=0)


def test_the_error_is_the_energy_of_what_was_left_out() -> None:
    image = textured(48, 64)
    kept, whole = solved(image, 2000), solved(image, 100_000)
    with torch.no_grad():
        lost = whole.coefficients.square().sum() - kept.coefficients.square().sum()
        error = (kept(image.coordinates) - image.rgb).square().sum()
    assert float(error) == pytest.approx(float(lost), rel=1e-3)
    # No other choice of as many could be better.
    smallest = kept.coefficients.abs().min()
    assert int((whole.coefficients.abs() > smallest).sum()) <= len(kept.coefficients)


@pytest.mark.parametrize("most", [1000, 3000, 7777])
def test_it_takes_at_most_the_parameters_that_it_may_and_nearly_all_of_them(most: int) -> None:
    series = solved(textured(48, 64), most)
    count = num_parameters(series) + series.num_index_parameters
    assert 0.98 * most <= count <= most
    assert count >= len(series.coefficients) + series.mask.numel() // 2


def test_in_strips_it_is_the_same_series(monkeypatch: pytest.MonkeyPatch) -> None:
    image = textured(75, 61)
    image = Image.from_rgb(to_eight_bits(image.rgb))
    whole = solved(image, 20_000)
    monkeypatch.setattr(local_cosine, "_STRIP_PIXELS", 2 * CELL * 64)
    monkeypatch.setattr(coefficient_masks, "_CHUNK", 1000)
    series = solved(image, 20_000)
    assert torch.equal(series.mask, whole.mask)
    torch.testing.assert_close(series.coefficients, whole.coefficients, atol=1e-6, rtol=0)


def test_more_parameters_are_never_worse() -> None:
    image = textured(48, 64)
    with torch.no_grad():
        scores = [psnr(solved(image, n)(image.coordinates), image.rgb) for n in (500, 2000, 6000)]
    assert scores == sorted(scores)
    assert scores[-1] > scores[0] + 5


def test_it_is_continuous_across_the_edges_of_cells() -> None:
    image = textured(32, 32)
    series = solved(image, 1500)
    edges = (torch.tensor([4.0, 8.0, 12.0, 16.0]) / 16 - 1)[:, None]
    step = torch.tensor([[1e-4, 0.0]])
    at = torch.cat([edges, torch.full_like(edges, 0.3)], dim=1)
    with torch.no_grad():
        before, after = series(at - step), series(at + step)
    assert float((before - after).abs().max()) < 0.01


def test_held_out_pixels_lie_between_those_it_was_given() -> None:
    rows, columns = torch.meshgrid(torch.arange(64.0), torch.arange(64.0), indexing="ij")
    smooth = 0.5 + 0.4 * torch.sin(rows / 20) * torch.cos(columns / 15)
    image = Image.from_rgb(smooth[..., None].expand(-1, -1, 3).contiguous()).split_held_out()
    assert image.held_out is not None
    series = solved(image, 100_000)
    with torch.no_grad():
        between = series(image.held_out.coordinates)
    assert psnr(between[2:-2, 2:-2], image.held_out.rgb[2:-2, 2:-2]) > 35


def test_coordinates_beyond_the_image_are_moved_to_its_edge() -> None:
    series = solved(textured(16, 16), 5000)
    beyond = torch.tensor([[-3.0, 0.1], [0.1, 7.0]])
    with torch.no_grad():
        torch.testing.assert_close(series(beyond), series(beyond.clamp(-1, 1)))


def test_a_coordinate_that_is_not_a_number_has_no_color() -> None:
    series = solved(textured(16, 16), 5000)
    with torch.no_grad():
        colors = series(torch.tensor([[math.nan, 0.1], [0.1, math.nan], [0.1, 0.1]]))
    assert colors.isnan().all(dim=1).tolist() == [True, True, False]


def test_autocast_does_not_round_it() -> None:
    image = textured(16, 24)
    series = solved(image, 5000)
    with torch.no_grad():
        expected = series(image.coordinates)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(series(image.coordinates), expected)


def test_a_gradient_is_the_value_of_a_function() -> None:
    series = solved(textured(16, 16), 100_000)
    point = torch.tensor([[0.21, -0.4]])
    series(point).sum().backward()
    assert series.coefficients.grad is not None
    step = torch.zeros_like(series.coefficients)
    step[int(series.coefficients.grad.abs().argmax())] = 0.5
    with torch.no_grad():
        before = series(point).sum()
        series.coefficients.add_(step)
        moved = float(series(point).sum() - before)
    assert moved == pytest.approx(float(0.5 * series.coefficients.grad.abs().max()), rel=1e-3) or (
        moved == pytest.approx(float(-0.5 * series.coefficients.grad.abs().max()), rel=1e-3)
    )


def test_a_copy_that_is_changed_says_so() -> None:
    series = solved(textured(16, 16), 5000)
    point = torch.tensor([[0.2, 0.1]])
    with torch.no_grad():
        before = series(point)
        copied = copy.deepcopy(series)
        copied.coefficients.zero_()
        torch.testing.assert_close(copied(point), series.color[:1])
        assert torch.equal(series(point), before)


@pytest.mark.parametrize("most", [20, 3])
def test_too_few_parameters_are_refused(most: int) -> None:
    message = f"{most} parameters are too few for a local cosine series"
    with pytest.raises(ValueError, match=message):
        solved(textured(24, 40), most)


def test_an_image_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_cosine, "MAX_COSINE_PIXELS", 100)
    with pytest.raises(ValueError, match="at most 100 pixels; got 12 x 10"):
        LocalCosineSeries().fit(textured(10, 12), 300)


def test_an_image_in_float64_has_the_same_series() -> None:
    image = textured(20, 24)
    double = replace(image, pixels=image.pixels.double())
    series, same = solved(image, 900), solved(double, 900)
    assert torch.equal(series.coefficients, same.coefficients)


def test_an_empty_series_says_so() -> None:
    with pytest.raises(ValueError, match="the local cosine series is empty"):
        LocalCosineSeries()(torch.zeros(1, 2))


def test_an_image_of_one_color_needs_next_to_nothing() -> None:
    image = Image.from_rgb(torch.full((40, 40, 3), 0.3))
    with torch.no_grad():
        torch.testing.assert_close(solved(image, 200)(image.coordinates), image.rgb)


def series(parameters: int = 3000) -> LocalCosineSeries:
    generator = torch.Generator().manual_seed(0)
    rgb = torch.rand(40, 48, 3, generator=generator)
    made = LocalCosineSeries()
    made.fit(Image.from_rgb(rgb), parameters)
    return made


def test_a_series_in_8_bits_stores_its_mask_and_its_scales() -> None:
    original = series()
    _, num_bits = round_series(original, 8)
    groups = original.frequencies
    lowest, used = int((groups % 64 == 0).sum()), len(groups.unique())
    coefficients = len(original.coefficients)
    expected = 8 * coefficients + 8 * lowest + 32 * used
    others = 16 * (original.color.numel() + original.num_index_parameters)
    assert num_bits == expected + others


def test_a_series_in_8_bits_has_256_levels_per_frequency_and_small_errors() -> None:
    original = series()
    rounded, _ = round_series(original, 8)
    for group in original.frequencies.unique():
        mine = original.frequencies == group
        after, before = rounded.coefficients[mine], original.coefficients[mine]
        if group % 64:
            assert len(after.abs().unique()) <= 128
        root = before.abs().sqrt()
        level = (root.max() - root.min()) / 127
        # Half a level on the scale of square roots, and the rounding of the bounds.
        assert bool(((after.abs().sqrt() - root).abs() <= 0.51 * level + 1e-3).all())


def test_a_series_too_small_for_scales_is_the_same_in_8_bits_as_in_16() -> None:
    original = series(300)
    (halves, bits), (eighths, bits_of_eighths) = (round_series(original, n) for n in (16, 8))
    assert bits == bits_of_eighths
    for before, after in zip(halves.parameters(), eighths.parameters(), strict=True):
        assert torch.equal(after, before)
