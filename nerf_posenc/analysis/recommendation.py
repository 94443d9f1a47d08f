"""Choose the encoding of an image, with its bands, sigma or levels, before the first fit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nerf_posenc.analysis.forecasts import Forecast, ImageTraits, forecast
from nerf_posenc.images import Image
from nerf_posenc.training import recipes
from nerf_posenc.training.coordinate_model import CoordinateModel
from nerf_posenc.training.grid_sizes import COARSEST, TABLE_ROWS, level_nodes

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


def recommend(image: Image, *, steps: int | Mapping[str, int] = 600) -> Recommendation:
    """Recommend an encoding by forecasts of every candidate; nothing is fitted.

    Candidates are positional encoding with 4 to 10 bands, Gaussian features of seven sigmas and
    hash grids of 8 levels, the finest with 0.5 to 8 nodes per pixel, each with the network of its
    recipe. Sweeps of levels are in docs/howto/forecast.md. With pixels held out there is no
    forecast: what is best between the pixels is not what fits them best, and the choice is the one
    that was ahead on photographs and text alike (docs/experiments.md).

    Args:
        image: its fitted pixels, and those held out.
        steps: number of steps of each fit, 1 or more, or by encoding.

    Examples:
        >>> import torch
        >>> image = Image.from_rgb(torch.rand(64, 96, 3))
        >>> recommend(image, steps=600).model.encoding
        'hash'
    """
    if image.held_out is not None:
        return _between_pixels()
    traits = ImageTraits.from_image(image)
    names = ("fourier", "gaussian", "hash")
    budget = dict(steps) if isinstance(steps, Mapping) else dict.fromkeys(names, steps)
    grid = _coarsest_grid(traits, dict.fromkeys(_grids(image), budget["hash"]))
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
