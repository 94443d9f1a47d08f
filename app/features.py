"""Properties of an encoding that the report shows: its bands and its kernel."""

from app.report.charts import thinned
from nerf_posenc.analysis.kernels import kernel
from nerf_posenc.core.encoder import Encoder

_NUM_KEPT = 800


def band_list(encoder: Encoder) -> list[float]:
    """Frequency bands in rad per unit; none if they are random or trained."""
    bands = encoder.frequency_bands
    return [] if bands is None else [float(band) for band in bands.flatten()]


def similarity_kernel(encoder: Encoder) -> tuple[list[float], list[float]] | None:
    """Cosine similarity of the features of two points, by their distance along the first axis.

    Args:
        encoder: of coordinates; it stays on its device.

    Returns:
        Distances in [-1, 1] and similarities; None if they depend on more than the distance.
    """
    if not encoder.is_stationary:
        return None
    found = kernel(encoder)
    pairs = zip(found.displacement.tolist(), found.similarity.tolist(), strict=True)
    kept = thinned(list(pairs), _NUM_KEPT)
    return [x for x, _ in kept], [y for _, y in kept]
