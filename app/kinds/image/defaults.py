"""How an image is fitted unless the user says otherwise (docs/experiments.md)."""

import math
import sys
from dataclasses import replace

import torch

from app.kinds.image.options import WITHOUT_BASELINE, ImageOptions, default_encodings, fits_by_value
from app.kinds.image.sigma import sigma_between_pixels
from app.options import UsageError, require
from baselines import MAX_COSINE_PIXELS, MAX_PATCH_PIXELS
from nerf_posenc.analysis.forecasts import BATCH_SIZE
from nerf_posenc.analysis.recommendation import recommend
from nerf_posenc.images import Image
from nerf_posenc.training import recipes
from nerf_posenc.training.coordinate_model import make_coordinate_model

_BANDS = 10
# Bands this far above the image's Nyquist frequency pass without a warning.
_SPARE_BANDS = 2
_MEGAPIXEL = 1 << 20
# From here on larger batches reach more in the same time: most of a step is that of the grid.
_LARGE_BATCHES = 4 * _MEGAPIXEL
# Shorter fits need more steps rather than more pixels.
_SHORT_SECONDS = 60.0


def default_length(
    num_pixels: int, *, on_cpu: bool, seconds: float | None = None
) -> tuple[int, int]:
    """Steps of a fit and pixels per step; above a megapixel the steps grow with its root.

    Args:
        num_pixels: pixels to fit.
        on_cpu: whether the fit runs on a CPU, not on a GPU.
        seconds: length of the fit in seconds instead of steps; None for steps.
    """
    growth = max(1.0, num_pixels / _MEGAPIXEL) ** 0.5
    if not on_cpu:
        return round(2000 * growth), 65536
    is_short = seconds is not None and seconds < _SHORT_SECONDS
    if num_pixels <= _LARGE_BATCHES or is_short:
        return round(600 * growth), 8192
    return round(300 * growth), 32768


def bands_to_nyquist(resolution: int) -> int:
    """Number of bands up to the Nyquist frequency of ``resolution`` samples across [-1, 1]."""
    # Half a cycle per sample is pi * resolution / 2 rad per unit.
    return 1 + max(0, math.floor(math.log2(resolution / 2)))


def default_bands(image: Image) -> int:
    """Bands if none are asked for: 10, and above a megapixel all that the image can hold.

    Between the pixels, bands nearer to the Nyquist frequency than an octave are noise.
    """
    to_nyquist = bands_to_nyquist(image.resolution)
    usual = max(_BANDS, to_nyquist) if image.num_pixels > _MEGAPIXEL else _BANDS
    if image.held_out is not None:
        return min(usual, max(1, to_nyquist - 1))
    return min(usual, to_nyquist + _SPARE_BANDS)


def band_warning(image: Image, num_bands: int) -> str | None:
    """Warning if bands lie far above the Nyquist frequency of the fitted pixels."""
    to_nyquist, resolution = bands_to_nyquist(image.resolution), image.resolution
    if image.held_out is not None:
        enough = max(1, to_nyquist - 1)
        why = f"between {resolution} pixels more than {enough} bands add noise"
        return None if num_bands <= enough else f"{why}; --bands {enough} suffices"
    if num_bands <= to_nyquist + _SPARE_BANDS:
        return None
    return (
        f"more than {to_nyquist} bands go beyond the Nyquist frequency of {resolution} pixels and "
        f"only add noise; --bands {to_nyquist} suffices"
    )


def resolve(options: ImageOptions, image: Image) -> tuple[ImageOptions, str | None]:
    """Choose what depends on the image and the device.

    Args:
        options: options as asked for.
        image: its fitted pixels, and those held out.

    Returns:
        The complete configuration, and why ``--encodings auto`` chose what it did.

    Raises:
        UsageError: If options do not suit the image.
    """
    device = torch.device(options.device)
    on_cpu = device.type == "cpu"
    steps, batch_size = default_length(image.num_pixels, on_cpu=on_cpu, seconds=options.seconds)
    steps = options.steps or steps
    reason = None
    batch_size = options.batch_size or batch_size
    if options.encodings == ("auto",):
        options, reason = _recommended(options, image, steps)
        if batch_size != BATCH_SIZE:
            reason += (
                f" (calibrated for {BATCH_SIZE:,} pixels per step; these steps take {batch_size:,})"
            )
        options.log(f"auto     {reason}")
    num_bands = options.num_bands or default_bands(image)
    if num_bands == "auto":
        # Every second number up to the Nyquist frequency.
        num_bands = tuple(range(bands_to_nyquist(image.resolution), 0, -2))[::-1]
    config = replace(
        options,
        encodings=options.encodings or default_encodings(options, image.num_pixels),
        steps=steps,
        batch_size=batch_size,
        num_bands=num_bands,
        optimizer=(
            recipes.get_network(options.network).optimizer
            if options.optimizer == "auto"
            else options.optimizer
        ),
    )
    if isinstance(config.num_bands, int) and "fourier" in config.chosen and not options.quiet:
        # Several are asked for to see where they begin to harm.
        warning = band_warning(image, config.num_bands)
        if warning is not None:
            print(f"warning: {warning}", file=sys.stderr)
    config = replace(config, references=_references(config, image))
    if options.sigma == "auto":
        options.log("choosing sigma by held-out pixels ...")
        sigma = sigma_between_pixels(image, device, seed=options.seed)
        options.log(f"sigma    {sigma:.2f} cycles per unit")
        config = replace(config, sigma=sigma)
    elif options.sigma is None:
        config = replace(config, sigma=recipes.default_sigma(image.resolution))
    config = replace(config, encodings=fits_by_value(config))
    _require_sizes(config, image)
    return config, reason


def _recommended(options: ImageOptions, image: Image, steps: int) -> tuple[ImageOptions, str]:
    """Replace ``--encodings auto`` by none and the encoding that is recommended, and say why."""
    found = recommend(image, steps=steps)
    name = found.model.encoding
    chosen = replace(options, encodings=("none", name))
    if name == "fourier":
        chosen = replace(chosen, num_bands=found.model.num_bands)
    if name == "gaussian" and found.forecasts:
        chosen = replace(chosen, sigma=found.model.sigma)
    if name == "hash":
        chosen = replace(chosen, max_resolution=found.model.max_resolution)
    return chosen, found.reason


def _references(config: ImageOptions, image: Image) -> tuple[str, ...]:
    """References as asked for, or interpolations between the pixels, and a series.

    Raises:
        UsageError: If one that was asked for does not suit the image.
    """
    count = image.num_pixels
    if config.references is None:
        names: tuple[str, ...] = ()
        if image.held_out is not None:
            names = ("bilinear", "bicubic", "lanczos")
            names += ("patch-network",) if count <= MAX_PATCH_PIXELS else ()
        is_large = count > WITHOUT_BASELINE and "hash" in config.chosen
        is_stored = config.num_parameters is not None and config.network == "relu"
        if (is_stored or is_large) and count <= MAX_COSINE_PIXELS:
            names += ("local-cosine",)
        return names
    between = {"bilinear", "bicubic", "lanczos", "patch-network"} & set(config.references)
    require(
        not between or image.held_out is not None,
        f"--references {', '.join(sorted(between))}: for pixels that are held out; add --held-out",
    )
    for name, most in {
        "patch-network": MAX_PATCH_PIXELS,
        "local-cosine": MAX_COSINE_PIXELS,
    }.items():
        require(
            name not in config.references or count <= most,
            f"--references: {name} takes at most {most:,} pixels, and {image.source} has {count:,} "
            "to fit; reduce it by --size, or leave the reference out",
        )
    return config.references


def _require_sizes(config: ImageOptions, image: Image) -> None:
    """Raise if one of the models has no size within ``--parameters``."""
    for encoding in config.chosen if config.num_parameters else ():
        try:
            make_coordinate_model(config.model(encoding), image.resolution)
        except ValueError as error:
            raise UsageError(f"--parameters: {error}") from None
