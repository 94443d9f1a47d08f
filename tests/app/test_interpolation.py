"""Interpolation between pixels, against Pillow, polynomials and PyTorch."""

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.images import Image
from nerf_posenc_app.kinds.image.interpolation import (
    INTERPOLATIONS,
    interpolate,
    interpolate_held_out,
)

PILLOW = {
    "bilinear": PIL.Image.Resampling.BILINEAR,
    "bicubic": PIL.Image.Resampling.BICUBIC,
    "lanczos": PIL.Image.Resampling.LANCZOS,
}


def enlarged_by_pillow(values: Tensor, scale: int, method: str) -> Tensor:
    height, width, channels = values.shape
    planes = [
        np.asarray(
            PIL.Image.fromarray(values[..., c].numpy()).resize(
                (scale * width, scale * height), PILLOW[method]
            )
        )
        for c in range(channels)
    ]
    return torch.from_numpy(np.stack(planes, -1))


@pytest.mark.parametrize("method", INTERPOLATIONS)
@pytest.mark.parametrize("scale", [2, 3])
def test_it_enlarges_as_pillow_does(method: str, scale: int) -> None:
    values = torch.rand(9, 13, 2)
    rows = (torch.arange(9 * scale) + 0.5) / scale - 0.5
    columns = (torch.arange(13 * scale) + 0.5) / scale - 0.5
    expected = enlarged_by_pillow(values, scale, method)
    torch.testing.assert_close(
        interpolate(values, rows, columns, method), expected, atol=2e-6, rtol=0
    )


@pytest.mark.parametrize("method", INTERPOLATIONS)
def test_at_pixel_centers_it_gives_the_pixels(method: str) -> None:
    values = torch.rand(7, 5, 3)
    found = interpolate(values, torch.arange(7.0), torch.arange(5.0), method)
    torch.testing.assert_close(found, values, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("method", "degree"), [("bilinear", 1), ("bicubic", 2)])
def test_it_reproduces_polynomials(method: str, degree: int) -> None:
    def surface(y: Tensor, x: Tensor) -> Tensor:
        return sum(
            (0.3 - 0.1 * (i + j)) * y[:, None, None] ** i * x[None, :, None] ** j
            for i in range(degree + 1)
            for j in range(degree + 1)
        ) + torch.zeros(len(y), len(x), 1)

    pixels = torch.arange(12, dtype=torch.float64) / 10
    between = torch.linspace(3, 8, 23, dtype=torch.float64)
    found = interpolate(surface(pixels, pixels), between, between, method)
    torch.testing.assert_close(found, surface(between / 10, between / 10), atol=1e-12, rtol=0)


def test_held_out_pixels_are_those_between() -> None:
    whole = Image.from_rgb(torch.rand(16, 22, 3))
    image = whole.split_held_out()
    fitted = whole.rgb[::2, ::2].permute(2, 0, 1)[None]
    # The mean of the four neighbors, which all but the last row and column have.
    mean = F.avg_pool2d(fitted, 2, stride=1)[0].permute(1, 2, 0)
    found = interpolate_held_out(image, "bilinear")
    assert found.shape == whole.rgb[1::2, 1::2].shape
    torch.testing.assert_close(found[:-1, :-1], mean)


def test_images_of_odd_sizes_have_fewer_pixels_between() -> None:
    image = Image.from_rgb(torch.rand(5, 2, 3)).split_held_out()
    assert interpolate_held_out(image, "bicubic").shape == (2, 1, 3)


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ValueError, match="no interpolation 'cubic'; known are bilinear"):
        interpolate(torch.rand(3, 3, 1), torch.zeros(1), torch.zeros(1), "cubic")


def test_positions_outside_are_refused() -> None:
    with pytest.raises(
        ValueError, match="columns must be within one pixel of the image, which has 4"
    ):
        interpolate(torch.rand(3, 4, 1), torch.zeros(1), torch.tensor([4.0]), "bilinear")


def test_an_image_without_held_out_pixels_is_refused() -> None:
    with pytest.raises(ValueError, match="no pixels held out"):
        interpolate_held_out(Image.from_rgb(torch.rand(4, 4, 3)), "bilinear")
