"""Positions of tokens as models count them, from the sizes of a grid."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.core.grids import grid_positions


def _require_sizes(shape: Sequence[int], *counts: int) -> None:
    if len(shape) not in counts:
        wanted = " or ".join(str(count) for count in counts)
        raise ValueError(f"this model's grid has {wanted} sizes; got {tuple(shape)}")


def sequence(shape: Sequence[int]) -> Tensor:
    """Positions 0 to length - 1."""
    _require_sizes(shape, 1)
    return torch.arange(shape[0])


def rows_and_columns(shape: Sequence[int]) -> Tensor:
    """Indices of patches, row by row."""
    _require_sizes(shape, 2)
    return grid_positions(shape).flatten(0, -2)


def rows_and_columns_from_1(shape: Sequence[int]) -> Tensor:
    """Indices of patches, row by row; 0 is for tokens that are no patches."""
    return rows_and_columns(shape) + 1


def frames(shape: Sequence[int]) -> Tensor:
    """Indices of patches, frame by frame, row by row."""
    _require_sizes(shape, 3)
    return grid_positions(shape).flatten(0, -2)


def first_and_eighth_frame(shape: Sequence[int]) -> Tensor:
    """Indices of patches; of two frames the second is the eighth."""
    positions = frames(shape)
    return positions * torch.tensor([7, 1, 1]) if shape[0] == 2 else positions


def images_and_frames(shape: Sequence[int]) -> Tensor:
    """The same; an image is frame 0."""
    _require_sizes(shape, 2, 3)
    return frames((1, *shape) if len(shape) == 2 else shape)


def merged_blocks(shape: Sequence[int]) -> Tensor:
    """Blocks of 2 x 2 patches, which become one token later on, one after the other."""
    _require_sizes(shape, 2)
    if shape[0] % 2 or shape[1] % 2:
        raise ValueError(f"this model merges 2 x 2 patches, so sizes must be even; got {shape}")
    # (rows / 2, 2, columns / 2, 2, 2 axes) -> (rows / 2, columns / 2, 2, 2, 2 axes)
    blocks: Tensor = grid_positions(shape).unflatten(0, (-1, 2)).unflatten(2, (-1, 2))
    return blocks.transpose(1, 2).flatten(0, -2)


def centers(shape: Sequence[int]) -> Tensor:
    """Centers in [-1, 1] along each axis."""
    _require_sizes(shape, 2)
    return grid_positions(shape, units="box", dtype=torch.float64).flatten(0, -2)


def relative_to(count: int, shape: Sequence[int]) -> Tensor:
    """Indices scaled as if there were so many along each axis."""
    _require_sizes(shape, 2)
    return _product([torch.arange(size, dtype=torch.float64) / size * count for size in shape])


def ends_at_one(shape: Sequence[int]) -> Tensor:
    """From -1 to 1, the first and the last included."""
    _require_sizes(shape, 2)
    return _product([torch.linspace(-1, 1, size, dtype=torch.float64) for size in shape])


def frames_of_half_patches(shape: Sequence[int]) -> Tensor:
    """Indices of frames, rows and columns; rows and columns count by half."""
    return frames(shape) / torch.tensor([1.0, 2.0, 2.0], dtype=torch.float64)


def centered_image(shape: Sequence[int]) -> Tensor:
    """Frame 0, and rows and columns counted from the middle of the image."""
    _require_sizes(shape, 2)
    rows, columns = shape
    return frames((1, *shape)) - torch.tensor([0, rows - rows // 2, columns - columns // 2])


def stretched_to_256(shape: Sequence[int]) -> Tensor:
    """Integers from 0 to 255, however many patches there are."""
    _require_sizes(shape, 2)
    return _product([torch.arange(size) * 256 // size for size in shape])


def image_of_4_axes(shape: Sequence[int]) -> Tensor:
    """Image (0), row, column and place in the text (0)."""
    _require_sizes(shape, 2)
    return F.pad(rows_and_columns(shape), (1, 1))


def _product(axes: list[Tensor]) -> Tensor:
    """All combinations of the positions along the axes, row by row."""
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)


def fitted_into(rows: int, columns: int, num_axes: int, shape: Sequence[int]) -> Tensor:
    """Patches of an image or a video that is fitted into the middle of the model's own grid."""
    _require_sizes(shape, num_axes)
    *frames, height, width = shape
    scale = rows / height if height / width > rows / columns else columns / width
    axes = [torch.arange(count, dtype=torch.float64) for count in frames]
    # The image keeps its aspect ratio, centered in the grid: `size` positions from `start` on.
    for size, whole in ((height, rows), (width, columns)):
        fitted = min(whole, round(scale * size))
        start = round((whole - fitted) / 2)
        last = (start + fitted) * (size - 1) / size
        axes.append(torch.linspace(start, last, size, dtype=torch.float64))
    return _product(axes)


def seconds_and_pixels(shape: Sequence[int]) -> Tensor:
    """Twice the share of 20 seconds and of 2048 pixels, less 1, at 25 frames a second.

    A latent stands for 8 frames and 32 pixels.
    """
    pitch = torch.tensor([8 / 25 / 20, 32 / 2048, 32 / 2048], dtype=torch.float64)
    return 2 * frames(shape) * pitch - 1


def centered_area(shape: Sequence[int]) -> Tensor:
    """Frames from 0; rows and columns from the middle, as if of 192 x 192 patches in all."""
    _require_sizes(shape, 3)
    count, height, width = shape
    scale = math.sqrt(192 * 192 / (height * width))
    sides = [(torch.arange(n, dtype=torch.float64) + 0.5 - n / 2) * scale for n in (height, width)]
    return _product([torch.arange(count, dtype=torch.float64), *sides])
