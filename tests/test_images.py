"""Images: coordinates, resizing, and held-out pixels."""

import math
from dataclasses import replace

import pytest
import torch

from nerf_posenc.images import Image, resize_area


def test_coordinates_are_pixel_centers_with_the_longer_side_across_2() -> None:
    x, y = Image.from_rgb(torch.zeros(2, 4, 3)).coordinates.unbind(-1)
    torch.testing.assert_close(x, torch.tensor([-0.75, -0.25, 0.25, 0.75]).expand(2, 4))
    torch.testing.assert_close(y, torch.tensor([[-0.25], [0.25]]).expand(2, 4))


def test_resizing_averages_by_area_and_never_enlarges() -> None:
    image = Image.from_rgb(torch.rand(8, 12, 3), name="a", source="b")
    small = image.resized(6)
    assert small.size == (6, 4)
    assert (small.name, small.source) == ("a", "b")
    blocks = image.rgb.reshape(4, 2, 6, 2, 3).mean((1, 3))
    torch.testing.assert_close(small.rgb, blocks)
    assert image.resized(100) is image
    assert image.resized(1).size == (1, 1)
    with pytest.raises(ValueError, match="1 pixel or more; got 0"):
        image.resized(0)


def test_a_batch_of_images_is_resized_as_each_alone() -> None:
    images = torch.rand(2, 5, 9, 7, 4)
    small = resize_area(images, 6)
    assert small.shape == (2, 5, 6, 5, 4)
    torch.testing.assert_close(small[1, 3], resize_area(images[1, 3], 6))


def test_the_mean_color_by_weights_is_that_of_pixels_repeated_so_many_times() -> None:
    pixels = torch.rand(3, 4, 3, generator=torch.Generator().manual_seed(0))
    times = torch.arange(12).view(3, 4) % 5
    repeated = pixels.reshape(-1, 3).repeat_interleave(times.flatten(), 0)
    pixels[times == 0] = math.nan
    image = replace(Image.from_rgb(pixels), weights=times.float())
    torch.testing.assert_close(image.mean_color(), repeated.mean(0))


@pytest.mark.parametrize("shape", [(6, 8), (5, 7), (2, 2), (9, 4)])
def test_held_out_pixels_lie_diagonally_between_the_fitted_ones(shape: tuple[int, int]) -> None:
    whole = Image.from_rgb(torch.rand(*shape, 3))
    fitted = whole.split_held_out()
    held_out = fitted.evaluated
    rows, columns = held_out.rgb.shape[:2]
    step = torch.full((rows, columns, 2), 2 / max(shape))
    torch.testing.assert_close(
        held_out.coordinates - fitted.coordinates[:rows, :columns], step, atol=1e-6, rtol=0
    )
    known = dict(zip(_points(whole), _colors(whole), strict=True))
    points = [*_points(fitted), *_points(held_out)]
    assert len(set(points)) == len(points)
    assert len(points) == -(-shape[0] // 2) * -(-shape[1] // 2) + shape[0] // 2 * (shape[1] // 2)
    for part in (fitted, held_out):
        assert [known[point] for point in _points(part)] == _colors(part)


def _points(image: Image) -> list[tuple[float, ...]]:
    return [tuple(point) for point in image.coordinates.reshape(-1, 2).tolist()]


def _colors(image: Image) -> list[list[float]]:
    colors: list[list[float]] = image.rgb.reshape(-1, 3).tolist()
    return colors
