"""Choose the encoding of an image, with its bands, sigma or levels, before the first fit."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from nerf_posenc.analysis.forecasts import BATCH_SIZE, Forecast, ImageTraits, forecast
from nerf_posenc.images import Image
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.coordinate_model import CoordinateModel, make_coordinate_model
from nerf_posenc.training.corner_cache import cache_corners
from nerf_posenc.training.devices import fastest_dtype
from nerf_posenc.training.grid_sizes import COARSEST, TABLE_ROWS, level_nodes
from nerf_posenc.training.loop import FitState, fit

# Candidates: more bands are no better on 768 pixels, and sigma beyond them far from any optimum.
_BANDS = tuple(range(4, 11))
_SIGMA_FACTORS = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
# Nodes of a grid's finest level per pixel. More than one are for images that its table has a row
# for each pixel of; with more pixels that was not measured.
_NODES_PER_PIXEL = (0.5, 1, 2, 3, 4, 8)
# Fewer bands or nodes, or the default sigma, are taken if the forecast loses less than this, in dB.
_NO_WORSE = 0.05

MAX_ERROR = 6.0
"""Error of a forecast in dB above which it would tell nothing, far from the calibrated fits."""


@dataclass(frozen=True)
class Recommendation:
    """Which model to fit an image with, and why.

    Attributes:
        model: recommended.
        reason: one line.
        forecasts: forecasts of the best model of each encoding, by its name; empty for held-out
            pixels, which are not forecast.
        models: those models.
        levels: nodes per axis of each level of the recommended hash grid, whether that is the best
            encoding or not; empty if none was looked for.
    """

    model: CoordinateModel
    reason: str
    forecasts: Mapping[str, Forecast]
    models: Mapping[str, CoordinateModel]
    levels: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"Recommendation({self.model.encoding!r}: {self.reason})"


def recommend(
    image: Image, *, steps: int | Mapping[str, int] | None = None, seconds: float | None = None
) -> Recommendation:
    """Recommend an encoding by forecasts of every candidate; nothing is fitted.

    Candidates are positional encoding with 4 to 10 bands, Gaussian features of seven sigmas and
    hash grids of 8 levels, the finest with 0.5 to 8 nodes per pixel, each with the network of its
    recipe. Sweeps of levels are in docs/howto/forecast.md. With pixels held out there is no
    forecast: what is best between the pixels is not what fits them best, and the choice is the one
    that was ahead on photographs and text alike (docs/experiments.md).

    Args:
        image: its fitted pixels, and those held out.
        steps: number of steps of each fit, 1 or more, or by encoding; 600 if ``seconds`` is not
            given either.
        seconds: budget of each fit on this machine, above 0: a few steps of each encoding are
            timed, and each is forecast for as many as it manages.

    Raises:
        ValueError: If both budgets are given, or one is not above 0.

    Examples:
        >>> import torch
        >>> image = Image.from_rgb(torch.rand(64, 96, 3))
        >>> recommend(image, steps=600).model.encoding
        'hash'
    """
    if steps is not None and seconds is not None:
        raise ValueError("give the budget as steps or as seconds, not as both")
    if seconds is not None and not seconds > 0:
        raise ValueError(f"a budget must be above 0; got {seconds} seconds")
    if image.held_out is not None:
        return _between_pixels()
    traits = ImageTraits.from_image(image)
    names = ("fourier", "gaussian", "hash")
    if isinstance(steps, Mapping):
        budget = dict(steps)
    else:
        budget = dict.fromkeys(names, 600 if steps is None else steps)
    grids = dict.fromkeys(_grids(image), budget["hash"])
    if seconds is not None:
        usual = {name: default_model(name) for name in names[:2]}
        budget = {name: _steps_within(seconds, image, model) for name, model in usual.items()}
        grids = {model: _steps_within(seconds, image, model) for model in grids}
    grid = _coarsest_grid(traits, grids)
    budget["hash"] = grids[grid]
    models = {
        "fourier": _fewest_bands(traits, budget["fourier"]),
        "gaussian": _best_sigma(traits, budget["gaussian"]),
        "hash": grid,
    }
    forecasts = {n: forecast(traits, m, steps=budget[n]) for n, m in models.items()}
    best = max(forecasts, key=lambda name: forecasts[name].psnr)
    max_resolution = grid.max_resolution or image.resolution
    levels = level_nodes(max_resolution)
    reason = _reason(traits, models, forecasts, len(levels), max_resolution)
    return Recommendation(models[best], reason, forecasts, models, levels)


def default_model(encoding: str) -> CoordinateModel:
    """An encoding with the network of its recipe."""
    width, depth = recipes.get_recipe(encoding).layers
    return CoordinateModel(encoding, width=width, depth=depth)


def _steps_within(seconds: float, image: Image, model: CoordinateModel) -> int:
    return max(1, round(seconds / seconds_per_step(image, model)))


def seconds_per_step(image: Image, options: CoordinateModel, *, num_steps: int = 3) -> float:
    """Time a few training steps of a model with a ReLU network on the CPU.

    Args:
        image: its fitted pixels.
        options: options of the model.
        num_steps: number of steps that are timed, after one that is not.
    """
    encoding = options.encoding
    is_small = recipes.get_recipe(encoding).is_small
    dtype = fastest_dtype(torch.device("cpu"), is_small=is_small)
    generator = torch.Generator().manual_seed(0)
    encoder, network = make_coordinate_model(options, image.resolution, generator=generator)
    model = nn.Sequential(encoder, network)
    lr = recipes.default_lr("relu", "muon", encoding)
    state = FitState(
        model, recipes.make_optimizer(model, "muon", lr, encoding=encoding), num_steps + 1
    )
    points, rgb = image.coordinates.reshape(-1, 2), image.rgb.reshape(-1, 3)
    batches = ShuffledBatches(points, rgb, BATCH_SIZE, seed=0)
    draw, forward = cache_corners(encoder, network, batches)
    started: list[float] = []
    fit(
        state,
        draw,
        forward=forward,
        autocast_dtype=None if dtype == torch.float32 else dtype,
        after_step=lambda _: started.append(time.perf_counter()),
    )
    return (started[-1] - started[0]) / num_steps


def _fewest_bands(traits: ImageTraits, steps: int) -> CoordinateModel:
    most = traits.spectrum.num_nyquist_bands + 2
    models = [
        replace(default_model("fourier"), num_bands=n) for n in _BANDS if n <= max(most, _BANDS[0])
    ]
    scores = [forecast(traits, model, steps=steps).psnr for model in models]
    return next(
        m for m, score in zip(models, scores, strict=True) if score >= max(scores) - _NO_WORSE
    )


def _best_sigma(traits: ImageTraits, steps: int) -> CoordinateModel:
    default = recipes.default_sigma(traits.spectrum.resolution)
    models = {
        factor: replace(default_model("gaussian"), sigma=factor * default)
        for factor in _SIGMA_FACTORS
    }
    scores = {f: forecast(traits, model, steps=steps).psnr for f, model in models.items()}
    best = max(scores, key=lambda factor: scores[factor])
    return models[1.0] if scores[1.0] >= scores[best] - _NO_WORSE else models[best]


def _grids(image: Image) -> list[CoordinateModel]:
    """Hash grids to choose from, from coarse to fine."""
    default = default_model("hash")
    most = _NODES_PER_PIXEL[-1] if image.num_pixels <= TABLE_ROWS else 1
    grids = []
    for nodes in _NODES_PER_PIXEL:
        max_resolution = round(nodes * image.resolution)
        if nodes == 1:
            grids.append(default)
        elif max_resolution > COARSEST and nodes <= most:
            grids.append(replace(default, max_resolution=max_resolution))
    return grids


def _coarsest_grid(traits: ImageTraits, grids: Mapping[CoordinateModel, int]) -> CoordinateModel:
    """The coarsest of those grids that are forecast best, each after its own steps."""
    scores = {g: forecast(traits, g, steps=steps).psnr for g, steps in grids.items()}
    return next(g for g, score in scores.items() if score >= max(scores.values()) - _NO_WORSE)


def _reason(
    traits: ImageTraits,
    models: Mapping[str, CoordinateModel],
    forecasts: Mapping[str, Forecast],
    num_levels: int,
    max_resolution: int,
) -> str:
    """Such as: 93% of the energy lies below octave 6: ... ; hash forecast best: 38.2 dB."""
    content = traits.spectrum
    octave = content.octave_below(0.9) if content.variance > 0 else 0
    share = content.share_below[octave] if content.variance > 0 else 1.0
    best = max(forecasts, key=lambda name: forecasts[name].psnr)
    bands, sigma = models["fourier"].num_bands, models["gaussian"].sigma or 0.0
    is_far = forecasts[best].error > MAX_ERROR
    told = {name: "" if is_far else f" {found.psnr:.1f} dB" for name, found in forecasts.items()}
    ending = (
        f"is forecast best, but a forecast may be {forecasts[best].error:.0f} dB off so far from "
        "the calibration: fit several encodings and compare"
        if is_far
        else f"forecast best: {forecasts[best].psnr:.1f} ± {forecasts[best].error:.1f} dB"
    )
    return (
        f"{share:.0%} of the energy lies below octave {octave + 1}: fourier with {bands} bands"
        f"{told['fourier']}; gaussian with sigma {sigma:.1f}{told['gaussian']}; hash with "
        f"{num_levels} levels and max resolution {max_resolution:,},{told['hash']}; "
        f"{best} {ending}"
    ).replace(",;", ";")


def _between_pixels() -> Recommendation:
    """The choice for pixels that are held out (docs/experiments.md)."""
    name = "gaussian"
    reason = (
        "held-out pixels cannot be forecast: gaussian, the best encoding between the pixels of "
        "photographs and text alike in docs/experiments.md"
    )
    return Recommendation(default_model(name), reason, {}, {name: default_model(name)})
