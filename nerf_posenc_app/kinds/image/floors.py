"""What as many numbers as a model has are worth without training."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.core.sinusoids import sincos


def lowest_cosines(
    image: Tensor, num_numbers: int, rows: Tensor | None = None, columns: Tensor | None = None
) -> Tensor:
    """Keep the lowest frequencies of an image's cosine transform (DCT-II).

    The transform is orthonormal, so that what is kept is the best approximation by these waves.
    Channels that are equal everywhere, as those of gray images, are kept once.

    Args:
        image: values of shape ``(height, width, channels)``.
        num_numbers: most coefficients of all channels together, 1 or more for each channel.
        rows: where to evaluate, in pixels from the first row's center, which may lie between the
            rows; None for all rows.
        columns: likewise, in pixels from the first column's center.

    Returns:
        Values of shape ``(rows, columns, channels)``, in float64.

    Examples:
        >>> gray = torch.full((8, 8, 3), 0.5)
        >>> bool((lowest_cosines(gray, 1) - gray).abs().max() < 1e-12)
        True
    """
    height, width, channels = image.shape
    values = image.double()
    per_channel = num_numbers // (1 if is_gray(image) else channels)
    # As many waves per pixel along both axes.
    share = math.sqrt(min(1.0, per_channel / (height * width)))
    waves_y = max(1, math.floor(share * height))
    waves_x = max(1, min(width, per_channel // waves_y))
    along_y, along_x = torch.arange(height), torch.arange(width)
    to_waves = _cosines(waves_y, along_y, height), _cosines(waves_x, along_x, width)
    coefficients = to_waves[0] @ values.movedim(-1, 0) @ to_waves[1].T
    at_y = _cosines(waves_y, along_y if rows is None else rows, height)
    at_x = _cosines(waves_x, along_x if columns is None else columns, width)
    return (at_y.T @ coefficients @ at_x).movedim(0, -1)


def fewer_pixels(
    image: Tensor, num_numbers: int, rows: Tensor | None = None, columns: Tensor | None = None
) -> Tensor:
    """Reduce an image to as few pixels, and interpolate between them, both bicubically.

    Args:
        image: values in [0, 1] of shape ``(height, width, channels)``, in float32.
        num_numbers: most values of the smaller image, 1 or more for each channel.
        rows: where to evaluate, as `lowest_cosines` has it.
        columns: likewise.

    Returns:
        Values of shape ``(rows, columns, channels)``.
    """
    height, width, channels = image.shape
    per_channel = num_numbers // (1 if is_gray(image) else channels)
    share = math.sqrt(min(1.0, per_channel / (height * width)))
    few = [max(1, math.floor(share * length)) for length in (height, width)]
    batch = image.movedim(-1, 0)[None]
    smaller = F.interpolate(batch, few, mode="bicubic", antialias=True)
    # Pixel centers as `grid_sample` counts them, from -1 to 1 across the image.
    y = (2 * (torch.arange(height) if rows is None else rows) + 1) / height - 1
    x = (2 * (torch.arange(width) if columns is None else columns) + 1) / width - 1
    grid = torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1)[None]
    values = F.grid_sample(smaller, grid, "bicubic", "border", align_corners=False)
    return values[0].movedim(0, -1)


def is_gray(image: Tensor) -> bool:
    """Whether all channels are equal."""
    return bool((image == image[..., :1]).all())


def _cosines(num_waves: int, positions: Tensor, length: int) -> Tensor:
    """Orthonormal waves cos(pi k (i + 1/2) / n) at positions i, of shape ``(waves, positions)``."""
    bands = math.pi / length * torch.arange(num_waves, dtype=torch.float64)
    # Columns are the sine and the cosine of each band in turn.
    waves = sincos(positions.double()[:, None] + 0.5, bands)[:, 1::2].T
    # The squares of the first wave, which is constant, sum up to n, those of the others to n / 2.
    norms = torch.full((num_waves, 1), math.sqrt(2 / length), dtype=torch.float64)
    norms[0] = math.sqrt(1 / length)
    return norms * waves
