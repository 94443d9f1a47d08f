"""Hash-grid corners of an image's pixels, computed once for all steps."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nerf_posenc.core.encoder import Encoder
from nerf_posenc.encoders.hash_grid import HashGridEncoder
from nerf_posenc.encoders.interpolation import Corners
from nerf_posenc.training.batches import DrawBatch, ShuffledBatches

# Upper bound in bytes for cached hash-grid corners.
_MOST_BYTES = 1 << 29
_BYTES_PER_CORNER = 12


def cache_corners(
    encoder: Encoder, network: nn.Module, batches: ShuffledBatches
) -> tuple[DrawBatch, Callable[[Any], Any] | None]:
    """Cache the corners of all pixels, if the encoder is a hash grid and they fit in 512 MB.

    Args:
        encoder: of the coordinates.
        network: takes its features.
        batches: of coordinates and their targets.

    Returns:
        The batches to draw, and the forward pass for their inputs; without a cache the batches as
        they are, and None for the model itself.
    """
    if not isinstance(encoder, HashGridEncoder):
        return batches, None
    points = batches.inputs
    corners_per_pixel = encoder.num_levels * 2**encoder.in_dim
    if len(points) * corners_per_pixel * _BYTES_PER_CORNER > _MOST_BYTES:
        return batches, None
    indices = torch.arange(len(points), device=points.device)
    draw = ShuffledBatches(indices, batches.targets, batches.batch_size, seed=batches.seed)

    @functools.cache
    def all_corners() -> Corners:
        chunks = [encoder.corners(chunk) for chunk in points.split(8192)]
        return Corners(*(torch.cat(parts) for parts in zip(*chunks, strict=True)))

    def draw_batch(step: int) -> tuple[Corners, Tensor]:
        drawn, targets = draw(step)
        rows, weights = all_corners()
        return Corners(rows.index_select(0, drawn), weights.index_select(0, drawn)), targets

    def forward(corners: Corners) -> Tensor:
        values: Tensor = network(encoder.interpolate(corners))
        return values

    return draw_batch, forward
