"""Properties of an encoding that the report shows: its bands and its kernel."""

import torch

from nerf_posenc.core.encoder import Encoder


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
    device = next((buffer.device for buffer in encoder.buffers()), torch.device("cpu"))
    distances = torch.linspace(-1, 1, 801, device=device)
    points = distances.new_zeros(len(distances), encoder.in_dim)
    points[:, 0] = distances
    features = encoder(points)
    center = features[len(distances) // 2]
    similarity = features @ center / (features.norm(dim=-1) * center.norm())
    return distances.tolist(), similarity.tolist()
