"""How images and scenes are fitted by default (docs/experiments.md)."""

from app.options import Options
from app.parsing import UsageError
from nerf_posenc.networks.local_cosine import MOST_PIXELS
from nerf_posenc.radiance.recipes import FieldName

_MEGAPIXEL = 1 << 20
# From here on larger batches reach more in the same time: most of a step is that of the grid.
_LARGE_BATCHES = 4 * _MEGAPIXEL
# Shorter fits need more steps rather than more pixels.
_SHORT_SECONDS = 60.0
# From here on raw coordinates are not fitted: to render them takes minutes and shows little. A
# series is fitted beside the grid: it takes seconds, and shows what as many parameters can store.
_WITHOUT_BASELINE = 8 * _MEGAPIXEL
_SERIES = "local-cosine"


def default_length(
    num_pixels: int, *, on_cpu: bool, seconds: float | None = None
) -> tuple[int, int]:
    """Steps of a fit and pixels per step; above a megapixel the steps grow with its root.

    Args:
        num_pixels: to fit.
        on_cpu: whether on a CPU, not on a GPU.
        seconds: that the fit may take instead of the steps; None for the steps.
    """
    growth = max(1.0, num_pixels / _MEGAPIXEL) ** 0.5
    if not on_cpu:
        return round(2000 * growth), 65536
    is_short = seconds is not None and seconds < _SHORT_SECONDS
    if num_pixels <= _LARGE_BATCHES or is_short:
        return round(600 * growth), 8192
    return round(300 * growth), 32768


def default_scene_length(field: FieldName, *, on_cpu: bool) -> tuple[int, int]:
    """Steps of a scene's fit and rays per step.

    Args:
        field: of the scene.
        on_cpu: whether on a CPU, not on a GPU.
    """
    if on_cpu:
        return 3000 if field == "factored" else 700, 1024
    return 5000, 1024 if field in ("nerf", "mip") else 8192


def default_bands(num_pixels: int, *, most: int, to_nyquist: int) -> int:
    """Frequency bands: 10, and above a megapixel all that the image can hold.

    Args:
        num_pixels: to fit; 0 for a scene.
        most: that pass without a warning.
        to_nyquist: up to the Nyquist frequency.
    """
    return min(most, max(10, to_nyquist) if num_pixels > _MEGAPIXEL else 10)


def default_encodings(options: Options, num_pixels: int) -> tuple[str, ...]:
    """Encodings to fit: beside a hash grid a series, not raw coordinates, of many megapixels.

    Args:
        options: as parsed; if they name encodings, those. Several images have the same ones.
        num_pixels: to fit; 0 for a scene.

    Raises:
        UsageError: If they name a series, and the image is too large for one.
    """
    is_chosen = options.encodings is not None or options.images is not None or options.held_out
    encodings = options.fitted
    if not is_chosen and num_pixels > _WITHOUT_BASELINE:
        encodings = tuple(encoding for encoding in encodings if encoding != "none")
        if {"hash", _SERIES} & set(encodings) == {"hash"} and num_pixels <= MOST_PIXELS:
            encodings += (_SERIES,)
    if _SERIES in encodings and num_pixels > MOST_PIXELS:
        raise UsageError(
            f"--encodings: {_SERIES} takes at most {MOST_PIXELS:,} pixels; got {num_pixels:,}; "
            "reduce the image by --size"
        )
    return encodings
