"""What the fit of a large image will take, in one line before it begins."""

import itertools
import time

import torch
from torch import nn

from app.fit_settings import fit_settings
from app.image_task import ImageTask
from app.stop import Stop
from app.task import FitControl
from nerf_posenc.networks import num_parameters
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import PixelBatches
from nerf_posenc.training.devices import autocast
from nerf_posenc.training.image_model import make_image_model
from nerf_posenc.training.loop import FitState, fit, predict

PLANNED_PIXELS = 1 << 20
"""An image of more is announced with what its run will take."""

# About: measures, figures and files, for each fit.
_REPORT_SECONDS_PER_MEGAPIXEL = 2.0
# Weights, gradients, two moments, planes of the backward pass, and a copy while they are saved.
_BYTES_PER_PARAMETER = 32
_BASE_BYTES = 600e6
# A series: its solution and its rendering, and its coefficients, sorted ones and masks.
_SERIES_SECONDS_PER_MEGAPIXEL = 3.0
_SERIES_BYTES_PER_PIXEL = 30
_PROBED_STEPS = 3
_PROBED_PIXELS = 1 << 14


def plan(task: ImageTask) -> str:
    """Say what will be fitted, about how long it takes, and what memory it needs.

    Three steps of each model, and the rendering of some pixels, are timed.

    Args:
        task: whose image is fitted.
    """
    config, image = task.config, task.image
    training = config.training
    seconds, working = 0.0, 0
    for encoding in config.encodings:
        if recipes.get_recipe(encoding).is_series:
            seconds += _SERIES_SECONDS_PER_MEGAPIXEL * image.evaluated.num_pixels / 1e6
            working = max(working, _SERIES_BYTES_PER_PIXEL * image.num_pixels)
            continue
        step, render, count = _probe(task, encoding)
        whole = step * training.steps if training.seconds is None else training.seconds
        seconds += whole + render * image.evaluated.num_pixels
        working = max(working, _BYTES_PER_PARAMETER * count)
    megapixels = image.evaluated.num_pixels / 1e6
    seconds += _REPORT_SECONDS_PER_MEGAPIXEL * megapixels * len(config.encodings)
    trained = [e for e in config.encodings if not recipes.get_recipe(e).is_series]
    length = f"{training.steps:,} steps of {training.batch_size:,} pixels each"
    if training.seconds is not None:
        length = f"{training.seconds:g} s each"
    if not trained:
        length = "closed form"
    elif len(trained) < len(config.encodings):
        series = [e for e in config.encodings if e not in trained]
        length += f", {', '.join(series)} in closed form"
    memory = _BASE_BYTES + working
    # The image, its reconstructions, and two planes of the spectrum or of floating-point values.
    memory += image.evaluated.num_pixels * (3 + 3 * len(config.encodings) + 8)
    names = ", ".join(config.encodings)
    return (
        f"plan     {names}: {length}; about {max(1, round(seconds / 60))} min and "
        f"{memory / 1e9:.1f} GB in all"
    )


def _probe(task: ImageTask, encoding: str) -> tuple[float, float, int]:
    """Seconds of a step and of rendering a pixel, and the number of parameters."""
    settings = fit_settings(encoding, task.config, FitControl(Stop()))
    image, device, dtype = task.image, settings.device, settings.autocast_dtype
    generator = torch.Generator().manual_seed(settings.seed)
    encoder, network = make_image_model(task.model(encoding), image.resolution, generator=generator)
    model = nn.Sequential(encoder, network).to(device)
    optimizer = recipes.make_optimizer(
        model, settings.optimizer, settings.lr, encoding=encoding, adam_lr=settings.adam_lr
    )
    batches = PixelBatches(image, settings.batch_size, seed=settings.seed, device=device)
    state, times = FitState(model, optimizer, _PROBED_STEPS), [time.perf_counter()]
    fit(
        state,
        batches,
        autocast_dtype=dtype,
        record_every=1,
        on_record=lambda _: times.append(time.perf_counter()),
    )
    steps = [end - begin for begin, end in itertools.pairwise(times)]
    points = batches.inputs_at(torch.arange(min(image.num_pixels, _PROBED_PIXELS), device=device))
    renderings = []
    # The first time also chooses kernels.
    for _ in range(_PROBED_STEPS):
        begin = time.perf_counter()
        with autocast(device, dtype):
            predict(model, points, chunk_size=2048 if device.type == "cpu" else 1 << 18)
        renderings.append((time.perf_counter() - begin) / len(points))
    return min(steps), min(renderings), num_parameters(model)
