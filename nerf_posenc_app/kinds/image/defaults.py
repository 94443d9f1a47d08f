"""How an image is fitted unless the user says otherwise (docs/experiments.md)."""

from collections.abc import Sequence
from typing import Any

import torch

from nerf_posenc.images import Image
from nerf_posenc.training import recipes
from nerf_posenc_app.kinds.image.interpolation import INTERPOLATIONS
from nerf_posenc_app.kinds.image.options import ImageConfig, ImageOptions, default_encodings
from nerf_posenc_app.kinds.image.references import NEEDED, is_installed
from nerf_posenc_app.options import require
from nerf_posenc_app.plugins import how_to_install
from nerf_posenc_app.terminal import print_to_stderr

# Number of extra bands that pass without a warning.
_SPARE_BANDS = 2
_MEGAPIXEL = 1 << 20
# From here on larger batches are better per second: the grid takes most of a step.
_LARGE_BATCHES = 4 * _MEGAPIXEL
# Largest number of scattered pixels for which a spline is solved in a few seconds.
_MOST_RBF = 1 << 18
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


def longer_than_on_cpu(config: ImageConfig, image: Image) -> str | None:
    """Note on a default length that differs from a CPU's, so that scores can be compared."""
    if config.seconds is not None or torch.device(config.device).type == "cpu":
        return None
    length = config.steps, config.batch_size
    steps, batch_size = default_length(image.num_fitted, on_cpu=True)
    if length != default_length(image.num_fitted, on_cpu=False):
        return None
    return (
        "on a GPU, the default length is longer than on a CPU, whose default is "
        f"--steps {steps} --batch-size {batch_size}"
    )


def warn_of_bands(config: ImageConfig, image: Image) -> None:
    """Warn if bands lie far above the Nyquist frequency of the fitted pixels."""
    resolution, enough = image.resolution, recipes.default_bands(image.resolution)
    spare = 0 if image.held_out is not None else _SPARE_BANDS
    # Users compare several numbers to see where extra bands begin to harm.
    has_extra = isinstance(config.num_bands, int) and config.num_bands > enough + spare
    if has_extra and recipes.encodings_with("num_bands", config.encodings) and not config.quiet:
        print_to_stderr(
            f"warning: more than {enough} bands go beyond three quarters of the Nyquist frequency "
            f"of {resolution} pixels and mostly add noise between them; --bands {enough} suffices"
        )


def defaults_for(options: ImageOptions, image: Image) -> dict[str, Any]:
    """Defaults that depend on the image and the device, by the name of the option.

    Args:
        options: options as asked for.
        image: its fitted pixels, and those held out.

    Raises:
        UsageError: If options do not suit the image.
    """
    on_cpu = torch.device(options.device).type == "cpu"
    steps, batch_size = default_length(image.num_fitted, on_cpu=on_cpu, seconds=options.seconds)
    _require_suiting(options.references or (), options)
    return {
        "encodings": default_encodings(options, image.num_pixels),
        "steps": steps,
        "batch_size": batch_size,
        "num_bands": recipes.default_bands(image.resolution),
        "sigma": recipes.default_sigma(image.resolution),
        "references": tuple(filter(is_installed, usual_references(options, image))),
    }


def missing_references(options: ImageOptions, image: Image) -> list[str]:
    """Usual references of an image that need a package which is not installed."""
    return [name for name in usual_references(options, image) if not is_installed(name)]


def usual_references(options: ImageOptions, image: Image) -> tuple[str, ...]:
    """References without training, if the fitted pixels differ from the scored ones."""
    if image.held_out is None:
        return ()
    if options.held_out:
        # Their kernels need all neighbors, which a mask or missing pixels do not leave.
        return tuple(INTERPOLATIONS) if image.weights is None else ("linear",)
    has_rbf = image.evaluated.num_fitted <= _MOST_RBF
    return ("given", "linear", "rbf") if has_rbf else ("given", "linear")


def _require_suiting(references: Sequence[str], options: ImageOptions) -> None:
    """Check that references suit the image.

    Raises:
        UsageError: Naming one that does not, and the option that it needs.
    """
    needed = {
        **dict.fromkeys(INTERPOLATIONS, ("--held-out", options.held_out)),
        "given": ("--observed", options.observed is not None),
        **dict.fromkeys(
            ("linear", "rbf"),
            ("--observed or --held-out", options.observed is not None or options.held_out),
        ),
    }
    for name in references:
        option, is_given = needed[name]
        require(bool(is_given), f"--references {name} is for {option}; add it, or leave {name} out")
        install = how_to_install("references")
        require(is_installed(name), f"--references {name} needs {NEEDED.get(name)}: {install}")
