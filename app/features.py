"""Properties of an encoding that the report shows: its bands and its kernel."""

import math

import torch

from app.report.charts import thinned
from nerf_posenc.core.encoder import Encoder

_MOST_SAMPLES = 16_384
_NUM_KEPT = 800


def band_list(encoder: Encoder) -> list[float]:
    """Frequency bands in rad per unit; none if they are random or trained."""
    bands = encoder.frequency_bands
    return [] if bands is None else [float(band) for band in bands.flatten()]


@torch.no_grad()
def similarity_kernel(encoder: Encoder) -> tuple[list[float], list[float]] | None:
    """Cosine similarity of the features of two points, by their distance along the first axis.

    Args:
        encoder: of coordinates; it stays on its device.

    Returns:
        Distances in [-1, 1] and similarities; None if they depend on more than the distance.
    """
    if not encoder.is_stationary:
        return None
    half = _num_samples(encoder) // 2
    distances = torch.arange(-half, half + 1, device=encoder.device) / half
    points = distances.new_zeros(len(distances), encoder.in_dim)
    points[:, 0] = distances
    features = encoder(points)
    center = features[len(distances) // 2]
    similarity = features @ center / (features.norm(dim=-1) * center.norm())
    kept = thinned(list(zip(distances.tolist(), similarity.tolist(), strict=True)), _NUM_KEPT)
    return [x for x, _ in kept], [y for _, y in kept]


def _num_samples(encoder: Encoder) -> int:
    """An odd number of distances, so that 0 is one, with 8 in the shortest period."""
    bands = band_list(encoder) or [float(_MOST_SAMPLES)]
    periods = 2 * max(abs(band) for band in bands) / (2 * math.pi)
    return 1 + 2 * min(_MOST_SAMPLES // 2, max(400, math.ceil(4 * periods)))
