"""Images as the report shows them: 8 bits, error maps, depths, and files that are read back."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from nerf_posenc.images import LARGE_PIXELS, reduce_rows, to_eight_bits, unit_range
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.reading.worker import read_image

if TYPE_CHECKING:
    from jaxtyping import Float, Shaped

LOSSLESS_PIXELS = 700_000
"""Above this many pixels a lossless image would make a page too heavy."""
WEBP_SIDE = 16383
"""Longest side that the format takes, in pixels."""

# Evenly spaced colors of matplotlib's maps, by Stefan van der Walt and Nathaniel Smith (CC0);
# between them colors are interpolated, and differ by at most 2 of 255.
_COLOR_MAPS = {
    "magma": (
        "000004 030311 0a0822 130d33 1d1146 28115a 36106a 430f76 50127c 5d177f 691c81 "
        "762181 822681 8f2a81 9c2e7f a9327d b63779 c33b75 cf4170 db486a e65163 ee5c5e "
        "f5695c f9785d fb8761 fd9668 fea571 feb47b fec387 fed194 fde0a2 fceeb0 fcfdbf"
    ),
    "viridis": (
        "440154 470d60 48186a 482374 472d7b 453681 424086 3f4989 3b528b 375a8d 33638d "
        "2f6a8e 2c728e 297a8e 26818e 23898e 21908c 1f988b 1f9f88 21a685 28ae80 31b57b "
        "3ebc74 4cc26c 5dc963 6ece58 82d34c 96d83f abdc32 c0df24 d5e21a eae51a fde725"
    ),
}
# Maximum number of errors for a quantile: sorting more takes seconds, and torch fails at 2^24.
_MAX_VALUES = 1 << 20
# Share of the visible pixels nearer and farther than the two ends of the scale of depths.
_BEYOND = 0.01
_MAX_PIXELS = 200_000_000
# Pixels of a file that compare reads in any case, and further ones by its bytes.
_MAX_BYTES = 1 << 27
_MAX_COMPRESSION = 100


def eight_bit(rgb: Shaped[Tensor, "*shape"]) -> npt.NDArray[np.uint8]:
    """Round values in [0, 1], or 16 bits, to 8 bits."""
    return np.asarray(to_eight_bits(rgb).cpu().numpy())


def webp_url(image: Tensor, quality: int | None = None, *, is_exact: bool = False) -> str:
    """Image as a data URL: lossless if it must be exact, or is not too large without a quality."""
    encoded, buffer = Image.fromarray(eight_bit(image)), io.BytesIO()
    if is_exact or (quality is None and encoded.width * encoded.height <= LOSSLESS_PIXELS):
        encoded.save(buffer, "WEBP", lossless=True, method=2)
    else:
        encoded.save(buffer, "WEBP", quality=95 if quality is None else quality, method=2)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def color_mapped(values: Float[Tensor, "*shape"], name: str) -> Float[Tensor, "*shape 3"]:
    """Map values in [0, 1] to colors in [0, 1].

    Args:
        values: the values; those outside of [0, 1] have the color of the nearest end.
        name: ``"magma"`` or ``"viridis"``.
    """
    table = np.array([[*bytes.fromhex(color)] for color in _COLOR_MAPS[name].split()]) / 255
    at, places = values.cpu().numpy(), np.linspace(0, 1, len(table))
    colors = np.stack([np.interp(at, places, channel) for channel in table.T], axis=-1)
    return torch.from_numpy(colors)


def clamped(image: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """Clamp floating-point values to [0, 1]; others lie there."""
    return image.clamp(0, 1) if image.is_floating_point() else image


def error_map(
    fit: Shaped[Tensor, "*shape 3"], original: Shaped[Tensor, "*shape 3"]
) -> Float[Tensor, "*shape"]:
    """Mean absolute difference of the channels, in values of [0, 1]."""
    return (unit_range(fit).clamp(0, 1) - unit_range(original)).abs().mean(-1)


def reduced_error(
    fit: Shaped[Tensor, "height width 3"],
    original: Shaped[Tensor, "height width 3"],
    longer_side: int,
) -> Float[Tensor, "_height _width"]:
    """Error map, averaged by area until its longer side is ``longer_side``; never enlarged."""
    height, width, _ = original.shape
    if max(height, width) <= longer_side:
        return error_map(fit, original)

    def rows_of_map(rows: slice) -> Tensor:
        return error_map(fit[rows], original[rows])[..., None]

    return reduce_rows(rows_of_map, height, width, longer_side)[..., 0]


def error_scale(pairs: Sequence[tuple[Tensor, Tensor]]) -> float:
    """Largest 99th percentile of the errors of reconstructions, each with its original."""
    quantiles = [1 / 255]
    for fit, original in pairs:
        # All errors, or every n-th of them if they are many.
        step = 1 + original.shape[0] * original.shape[1] // _MAX_VALUES
        error = error_map(fit.reshape(-1, 3)[::step], original.reshape(-1, 3)[::step])
        quantiles.append(float(error.quantile(0.99)))
    return max(quantiles)


def nearness(depths: Sequence[Float[Tensor, "height width"]]) -> list[Tensor]:
    """Brightness of depths on one scale: 1 is nearest, 0 is farthest, NaN is empty.

    It is linear in 1 / depth, since the depths of photographs reach to the horizon.

    Args:
        depths: depths above 0, NaN for empty pixels.
    """
    inverse = [1 / depth.clamp(min=1e-6) for depth in depths]
    visible = torch.cat([part[part.isfinite()] for part in inverse] or [torch.zeros(0)])
    if not len(visible):
        return inverse
    sample = visible[:: 1 + len(visible) // _MAX_VALUES]
    ends = torch.tensor([_BEYOND, 1 - _BEYOND], dtype=sample.dtype)
    far, near = sample.quantile(ends)
    span = torch.maximum(near - far, 1e-6 * near)
    return [((part - far) / span).clamp(0, 1) for part in inverse]


def run_file(folder: Path, name: str) -> Path | None:
    """A file of a run folder; None if it is missing, or leads out of the folder."""
    # `Path.resolve` raises at a link to itself.
    file, root = Path(os.path.realpath(folder / name)), os.path.realpath(folder)
    return file if file.is_relative_to(root) and file.is_file() else None


def read_run_image(folder: Path, name: str) -> Tensor:
    """Read a PNG of a run folder.

    Raises:
        ValueError: If it is missing, damaged, too large, or leads out of the folder.
    """
    file = run_file(folder, name)
    if file is None:
        raise ValueError(f"it has no {name}")
    try:
        pixels = read_image(file, _MAX_PIXELS).values
    except SceneError as error:
        raise ValueError(str(error)) from None
    if pixels.dtype != np.uint8 or pixels.shape[2] != 3:
        raise ValueError(f"{name} is no image of a run, with 8 bits of red, green and blue")
    if pixels.nbytes > _MAX_BYTES + _MAX_COMPRESSION * file.stat().st_size:
        raise ValueError(f"{name} is too short a file for so many pixels")
    num_pixels = pixels.size // 3
    kept = torch.from_numpy(pixels)
    return kept if num_pixels > LARGE_PIXELS else unit_range(kept)
