"""The network that learns from an image what lies between its pixels."""

import math

import pytest
import torch
from torch import Tensor

from baselines.interpolation import interpolate, interpolate_held_out
from baselines.patch_network import (
    PatchNetwork,
    default_steps,
    double_resolution,
    fit_patch_network,
    patches_around_centers,
    patches_around_pixels,
    predict_held_out,
)
from nerf_posenc.images import Image
from nerf_posenc.metrics.image import psnr


def crossings(height: int, width: int) -> tuple[Tensor, Tensor]:
    grid = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return grid[0].flatten(), grid[1].flatten()


def test_patches_around_centers_are_windows_of_the_plane() -> None:
    plane = torch.rand(20, 24)
    (patch,) = patches_around_centers(plane, torch.tensor([9]), torch.tensor([11]))
    assert torch.equal(patch, plane[6:14, 8:16])


def test_patches_around_pixels_are_a_lattice_rotated_by_45_degrees() -> None:
    rows, columns = crossings(40, 40)
    y, x = (index.reshape(40, 40).double() for index in (rows, columns))
    row, column = torch.tensor([20]), torch.tensor([17])
    down = patches_around_pixels(y, row, column)[0] - 20
    right = patches_around_pixels(x, row, column)[0] - 17
    distance = torch.hypot(down, right)
    steps = torch.arange(8).double() - 3.5
    expected = math.sqrt(2) * torch.hypot(steps[:, None], steps)
    torch.testing.assert_close(distance, expected)
    # Never the pixel itself, nor any other of its color on the checkerboard.
    assert bool(((down + right) % 2 == 1).all())


@pytest.mark.parametrize("size", [(5, 7), (2, 2), (1, 3), (20, 20)])
def test_mirroring_keeps_the_colors_of_the_checkerboard(size: tuple[int, int]) -> None:
    rows, columns = crossings(*size)
    colors = ((rows + columns) % 2).reshape(size).double()
    patches = patches_around_pixels(colors, rows, columns)
    if min(size) > 1:
        assert torch.equal(patches, (1 - colors).flatten()[:, None, None].expand_as(patches))


def test_a_new_network_is_bicubic_interpolation() -> None:
    rgb = torch.rand(24, 30, 3) * 0.5 + 0.25
    doubled = double_resolution(rgb, PatchNetwork())
    rows, columns = torch.arange(24) + 0.5, torch.arange(30) + 0.5
    expected = interpolate(rgb, rows, columns, "bicubic")
    assert torch.equal(doubled[::2, ::2], rgb)
    inner = slice(4, -4)
    torch.testing.assert_close(
        doubled[1::2, 1::2][inner, inner], expected[inner, inner], atol=2e-6, rtol=0
    )


def test_its_prediction_has_the_symmetries_of_the_square() -> None:
    network = PatchNetwork(torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.3)
    patches = torch.rand(5, 8, 8)
    expected = network.predict(patches)
    for moved in (patches.flip(1), patches.flip(2), patches.mT, patches.rot90(1, (1, 2))):
        torch.testing.assert_close(network.predict(moved), expected)
    assert not torch.allclose(network(patches.flip(1)), network(patches))


def test_it_scales_with_contrast_and_brightness() -> None:
    network = fit_patch_network(torch.rand(24, 24, 3), num_steps=20)
    patches = torch.rand(6, 8, 8)
    # The floor of the contrast is small beside that of noise.
    found = network.predict(0.5 * patches + 0.2)
    torch.testing.assert_close(found, 0.5 * network.predict(patches) + 0.2, atol=5e-3, rtol=0)


def stripes(height: int, width: int) -> Tensor:
    """Sharp slanted stripes of several directions, whose edges bicubic interpolation blurs."""
    y, x = torch.meshgrid(torch.arange(height) / 8, torch.arange(width) / 8, indexing="ij")
    waves = [torch.sin(x * math.cos(a) + y * math.sin(a) + a) for a in (0.3, 1.1, 2.0)]
    return torch.stack([(30 * wave).sigmoid() for wave in waves], -1)


@pytest.mark.slow
def test_it_beats_bicubic_interpolation_on_edges() -> None:
    image = Image.from_rgb(stripes(96, 96)).split_held_out()
    assert image.held_out is not None
    network = fit_patch_network(image.rgb, num_steps=300)
    truth = image.held_out.rgb[4:-4, 4:-4]
    doubled = double_resolution(image.rgb, network)[1::2, 1::2][4:-4, 4:-4]
    bicubic = double_resolution(image.rgb, PatchNetwork())[1::2, 1::2][4:-4, 4:-4]
    assert psnr(doubled, truth) > psnr(bicubic, truth) + 2


def test_the_same_seed_gives_the_same_bits() -> None:
    rgb = torch.rand(12, 12, 3)
    a, b, other = (fit_patch_network(rgb, seed=seed, num_steps=3) for seed in (1, 1, 2))
    patches = torch.rand(4, 8, 8)
    assert torch.equal(a.predict(patches), b.predict(patches))
    assert not torch.equal(a.predict(patches), other.predict(patches))


def test_it_stops_when_told_to() -> None:
    network = fit_patch_network(torch.rand(9, 9, 3), num_steps=10**9, should_stop=lambda: True)
    patches = torch.rand(3, 8, 8)
    torch.testing.assert_close(network.predict(patches), PatchNetwork().predict(patches))


def test_it_predicts_the_pixels_that_are_held_out() -> None:
    image = Image.from_rgb(stripes(41, 50)).split_held_out()
    assert image.held_out is not None
    predicted = predict_held_out(image)
    assert predicted.shape == image.held_out.rgb.shape
    # Below 8192 pixels it is bicubic interpolation.
    expected = interpolate_held_out(image, "bicubic")
    inner = slice(4, -4)
    torch.testing.assert_close(predicted[inner, inner], expected[inner, inner], atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="no pixels held out"):
        predict_held_out(Image.from_rgb(stripes(4, 4)))


def test_one_row_is_doubled() -> None:
    image = Image.from_rgb(torch.rand(1, 4, 3))
    doubled = double_resolution(image.rgb, PatchNetwork())
    assert doubled.shape == (2, 8, 3)
    assert bool(doubled.isfinite().all())


def test_a_small_image_keeps_bicubic_interpolation() -> None:
    assert [default_steps(n) for n in (0, 8191, 8192, 1 << 15, 1 << 16, 1 << 30)] == [
        *(0, 0, 250, 1000, 2000, 2000)
    ]
    patches = torch.rand(3, 8, 8)
    small = fit_patch_network(torch.rand(9, 9, 3))
    assert torch.equal(small.predict(patches), PatchNetwork().predict(patches))
