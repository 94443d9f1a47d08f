"""Hash-grid corners of an image's pixels, computed once for all steps."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nerf_posenc.core.encoder import Encoder
from nerf_posenc.encoders.hash_grid import HashGridEncoder
from nerf_posenc.encoders.interpolation import Corners
from nerf_posenc.training.batches import DrawBatch, PixelBatches, ShuffledBatches

# Upper bound in bytes for cached hash-grid corners.
_MOST_BYTES = 1 << 29
_BYTES_PER_CORNER = 8


def cached_bytes(encoder: nn.Module, num_rows: int) -> int:
    """Bytes of the cached corners of all rows; 0 if they are not cached."""
    if not isinstance(encoder, HashGridEncoder):
        return 0
    size = num_rows * encoder.num_levels * 2**encoder.in_dim * _BYTES_PER_CORNER
    return size if size <= _MOST_BYTES else 0


def cache_corners(
    encoder: Encoder, network: nn.Module, batches: ShuffledBatches | PixelBatches
) -> tuple[DrawBatch, Callable[[Any], Any] | None]:
    """Cache the corners of all pixels, if the encoder is a hash grid and they fit in 512 MB.

    Args:
        encoder: encoder of the coordinates.
        network: takes its features.
        batches: batches of coordinates and their targets.

    Returns:
        The batches to draw, and the forward pass for their inputs; without a cache the batches as
        they are, and None for the model itself.
    """
    shuffled = batches.rows
    if not isinstance(encoder, HashGridEncoder) or not cached_bytes(encoder, shuffled.num_rows):
        return batches, None

    # The corners of a point lie together: points are drawn one by one, and shared by processes.
    @functools.cache
    def by_point() -> list[Tensor]:
        every = torch.arange(shuffled.num_rows, device=shuffled.device)
        cached: list[Tensor] = []
        # Filled chunk by chunk, since joining all chunks would hold them twice.
        for i, chunk in enumerate(every.split(8192)):
            parts = [part.transpose(0, 1) for part in encoder.corners(batches.inputs_at(chunk))]
            cached = cached or [part.new_empty(len(every), *part.shape[1:]) for part in parts]
            for whole, part in zip(cached, parts, strict=True):
                whole[8192 * i : 8192 * i + len(part)] = part
        return cached

    def draw_batch(step: int) -> tuple[tuple[Tensor, ...], Tensor]:
        drawn = shuffled(step)
        corners = tuple(part.index_select(0, drawn) for part in by_point())
        return corners, batches.targets_at(drawn)

    def forward(corners: tuple[Tensor, ...]) -> Tensor:
        by_grid = Corners(*(part.transpose(0, 1) for part in corners))
        values: Tensor = network(encoder.interpolate(by_grid))
        return values

    return draw_batch, forward
