"""Forecast of the time and memory that the fit of a large image takes, in one line."""

import itertools
import time

import torch

from nerf_posenc.images import Image
from nerf_posenc.networks import num_parameters
from nerf_posenc.training.batches import PixelBatches
from nerf_posenc.training.corner_cache import cached_bytes
from nerf_posenc.training.devices import autocast
from nerf_posenc.training.loop import FitState, fit, mse, predict, weighted_mse
from nerf_posenc_app.kinds.image.options import ImageOptions
from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.values.names import FitName

PLANNED_PIXELS = 1 << 20
"""An image of more is announced with what its run will take."""

# Estimate for measures, figures and files of each fit.
_REPORT_SECONDS_PER_MEGAPIXEL = 2.0
# Weights, gradients, two moments, planes of the backward pass, and a copy while they are saved.
_BYTES_PER_PARAMETER = 32
_BASE_BYTES = 600e6
_PROBED_STEPS = 3
_PROBED_PIXELS = 1 << 14


def plan(kind: Kind[ImageOptions], image: Image, config: ImageOptions) -> str:
    """Say what will be fitted, about how long it takes, and what memory it needs.

    Three steps of each model, and the rendering of some pixels, are timed.

    Args:
        kind: the opened data, which builds the models.
        image: the image to fit.
        config: configuration of the run.
    """
    names = kind.fit_names(config)
    num_evaluated = image.evaluated.num_pixels
    seconds, working = 0.0, 0.0
    for name in names:
        step, render, size = _probe(kind, image, name, config)
        seconds += (step * config.steps) if config.seconds is None else config.seconds
        seconds += render * num_evaluated
        working = max(working, size)
    rendered_names = [*names, *config.references]
    seconds += _REPORT_SECONDS_PER_MEGAPIXEL * num_evaluated / 1e6 * len(rendered_names)
    length = f"{config.steps:,} steps of {config.batch_size:,} pixels each"
    if config.seconds is not None:
        length = f"{config.seconds:g} s each"
    # The image, its reconstructions, and two planes of the spectrum or of floating-point values.
    memory = _BASE_BYTES + working + num_evaluated * (3 + 3 * len(rendered_names) + 8)
    listed = ", ".join(map(str, names))
    return (
        f"plan     {listed}: {length}; about {max(1, round(seconds / 60))} min and "
        f"{memory / 1e9:.1f} GB in total"
    )


def _probe(
    kind: Kind[ImageOptions], image: Image, name: FitName, config: ImageOptions
) -> tuple[float, float, int]:
    """Seconds of a step and of rendering a pixel, and bytes of parameters and cached corners."""
    device, generator = torch.device(config.device), torch.Generator().manual_seed(config.seed)
    model, description = kind.build(name, config, generator)
    problem = kind.problem(model.to(device), description, config)
    # Not the problem's own batches, which would first find the grid's corners of all pixels.
    batches = PixelBatches(image, config.batch_size, seed=config.seed, device=device)
    state, times = FitState(model, problem.optimizer, _PROBED_STEPS), [time.perf_counter()]
    fit(
        state,
        batches,
        weighted_mse if batches.is_weighted else mse,
        autocast_dtype=problem.autocast_dtype,
        record_every=1,
        on_record=lambda _: times.append(time.perf_counter()),
    )
    steps = [end - begin for begin, end in itertools.pairwise(times)]
    count = min(image.num_pixels, _PROBED_PIXELS)
    points = batches.inputs_at(torch.arange(count, device=device))
    renderings = []
    # The first run also selects kernels.
    for _ in range(_PROBED_STEPS):
        begin = time.perf_counter()
        with autocast(device, problem.autocast_dtype):
            # Copied to the CPU, since a GPU computes asynchronously.
            predict(model, points, chunk_size=2048 if device.type == "cpu" else 1 << 18).cpu()
        renderings.append((time.perf_counter() - begin) / len(points))
    size = _BYTES_PER_PARAMETER * num_parameters(model)
    size += sum(cached_bytes(module, image.num_fitted) for module in model.modules())
    return min(steps), min(renderings), size
