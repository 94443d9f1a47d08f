"""What options come to: numbers in place of what was left to the program."""

import math
import sys
from dataclasses import replace

import torch

from app.image_task import ModelOptions, Pixels
from app.options import Options, UsageError
from app.progress import Audience, Training
from app.sigma_search import choose_sigma
from nerf_posenc.radiance import recipes as radiance
from nerf_posenc.training import recipes
from nerf_posenc.training.devices import computes_bfloat16, pick_device
from nerf_posenc.training.loop import constant
from scenes import Picture

DEFAULT_BANDS = 10

# Bands this far above the picture's Nyquist frequency pass without a warning.
SPARE_BANDS = 2


def device_of(options: Options) -> torch.device:
    """Where to compute.

    Raises:
        UsageError: where that is not there.
    """
    try:
        return pick_device(options.device)
    except ValueError as error:
        raise UsageError(f"--device {error}") from None


def resolve(options: Options, resolution: int, device: torch.device) -> None:
    """Put numbers in place of what was left to the program.

    Raises:
        UsageError: where the optimizer does not go with the network.
    """
    options.encodings = options.fitted
    # Between pixels, bands near the Nyquist frequency are noise.
    most = max(1, enough_bands(resolution) - 1) if options.held_out else DEFAULT_BANDS
    options.bands = options.bands or min(DEFAULT_BANDS, most)
    on_cpu = device.type == "cpu"
    is_scene = options.scene is not None
    full = options.field != "small"
    if is_scene:
        options.steps = options.steps or (700 if on_cpu else 5000)
        options.batch_size = options.batch_size or (1024 if on_cpu or full else 8192)
        options.width = options.width or (256 if full else 128)
        options.depth = options.depth or (8 if full else 4)
    else:
        options.steps = options.steps or (600 if on_cpu else 2000)
        options.batch_size = options.batch_size or (8192 if on_cpu else 65536)
    if options.optimizer == "auto":
        options.optimizer = recipes.default_optimizer(options.network)
    try:
        recipes.default_rate(options.network, options.optimizer)
    except ValueError as error:
        raise UsageError(f"--network {error}") from None
    if options.sigma != "auto":
        options.sigma = options.sigma or recipes.default_sigma(resolution)


def rate_of(encoding: recipes.Encoding, options: Options) -> float:
    """Peak learning rate of a fit, by options that are resolved."""
    assert options.optimizer != "auto"
    if options.lr is not None:
        return options.lr
    if options.scene is not None:
        return {"muon": radiance.MUON_LR, "adam": radiance.ADAM_LR}[options.optimizer]
    if interpolates(encoding, options):
        return recipes.INTERPOLATION.rate
    return recipes.default_rate(options.network, options.optimizer, encoding)


def interpolates(encoding: recipes.Encoding, options: Options) -> bool:
    """Whether a fit is made for the pixels between, by options that are resolved.

    Sinusoids fill gaps with noise where they are fitted fast; raw coordinates cannot, and a hash
    grid does at any rate.
    """
    is_sinusoid = encoding in ("fourier", "gaussian")
    return options.held_out and options.optimizer == "muon" and is_sinusoid


def precision_of(encoding: recipes.Encoding, options: Options, device: torch.device) -> torch.dtype:
    """Type that a fit's network trains in."""
    if options.network == "wire":
        # Complex numbers have no half precision.
        return torch.float32
    if options.precision != "auto":
        return torch.float32 if options.precision == "float32" else torch.bfloat16
    # The small network behind a picture's grid is no faster in bfloat16 on a CPU, and less exact.
    is_small = encoding == "hash" and options.scene is None and device.type == "cpu"
    return torch.bfloat16 if computes_bfloat16(device) and not is_small else torch.float32


def training_of(
    encoding: recipes.Encoding, options: Options, device: torch.device, audience: Audience
) -> Training:
    """How to fit with one encoding, by options that are resolved."""
    assert options.steps is not None
    assert options.batch_size is not None
    assert options.optimizer != "auto"
    precision = precision_of(encoding, options, device)
    training = Training(
        options.steps,
        options.batch_size,
        options.optimizer,
        rate_of(encoding, options),
        device,
        None if precision == torch.float32 else precision,
        options.seed,
        options.quiet,
        options.film,
        audience,
        options.compile,
    )
    if not interpolates(encoding, options):
        return training
    return replace(
        training,
        adam_rate=recipes.INTERPOLATION.adam_rate,
        schedule=constant,
        mean_decay=recipes.INTERPOLATION.mean_decay,
    )


def model_of(encoding: recipes.Encoding, options: Options) -> ModelOptions:
    """The model of a picture, by options that are resolved."""
    assert options.bands is not None
    width, depth = recipes.default_layers(encoding)
    return ModelOptions(
        encoding,
        options.network,
        options.width or width,
        options.depth or depth,
        options.bands,
        sigma_given(options),
    )


def pixels_of(picture: Picture, options: Options) -> Pixels:
    """Pixels of a picture to fit and to measure by.

    Raises:
        UsageError: where it has none to hold out.
    """
    pixels = Pixels.from_rows(picture.coordinates(), picture.colours)
    try:
        return pixels.holding_out() if options.held_out else pixels
    except ValueError as error:
        raise UsageError(f"--held-out: {picture.source}: {error}") from None


def sigma_given(options: Options) -> float | None:
    """Spread of gaussian frequencies, by options that are resolved."""
    assert options.sigma != "auto"
    return options.sigma


def sigma_of(pixels: Pixels, options: Options, device: torch.device) -> float:
    """Choose the spread of gaussian frequencies from the pixels to fit."""
    precision = precision_of("gaussian", options, device)
    return choose_sigma(
        pixels.coordinates,
        pixels.colours,
        device,
        autocast_dtype=None if precision == torch.float32 else precision,
        seed=options.seed,
    )


def behind(options: Options) -> float:
    """Grey behind the views that a scene is measured by."""
    return 0.0 if options.background == "black" else 1.0


def enough_bands(resolution: int) -> int:
    """Octaves up to the Nyquist frequency of so many pixels across [-1, 1]."""
    # Half a cycle a pixel is pi * resolution / 2 rad per unit.
    return 1 + max(0, math.floor(math.log2(resolution / 2)))


def warn_of_bands(num_bands: int, resolution: int) -> None:
    """Say so where bands lie far above what so many pixels across [-1, 1] can hold."""
    enough = enough_bands(resolution)
    if num_bands > enough + SPARE_BANDS:
        print(
            f"warning: bands above {enough} lie beyond the Nyquist frequency of a picture of "
            f"{resolution} pixels and only add noise; --bands {enough} suffices",
            file=sys.stderr,
        )
