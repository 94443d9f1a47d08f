"""Choose encodings, bands and sigma of an image by short fits (``auto``)."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from nerf_posenc.analysis.choose import choose, choose_sigma
from nerf_posenc.images import Image, unit_range
from nerf_posenc.training import recipes
from nerf_posenc.training.loop import FitState, fit
from nerf_posenc_app.kinds.image.options import ImageConfig, ImageOptions
from nerf_posenc_app.kinds.image.reconstruction import render, scored_pixels
from nerf_posenc_app.options import UsageError
from nerf_posenc_app.values.names import FitName

# Length of a short fit as a share of the whole fit.
_SHARE = 1 / 6
# Minimum steps of a short fit; shorter ones depend mostly on the initial weights.
_MIN_STEPS = 20
# Pixels that judge a short fit.
_JUDGED_PIXELS = 1 << 16
# Share of scattered pixels that judges the fits of the others.
_JUDGING_SHARE = 0.2
# The fewest samples that `choose_sigma` takes.
_MIN_SAMPLES = 10


def choose_open(
    config: ImageConfig, image: Image, opened: Callable[[ImageOptions, Image], Any]
) -> tuple[ImageConfig, dict[str, str]]:
    """Replace each ``auto`` by what short fits choose, and print what was tried.

    Args:
        config: configuration with every other option resolved.
        image: the image to fit.
        opened: makes the kind of an image, which builds its models.

    Returns:
        The complete configuration, and what was tried, for ``metrics.json``.
    """
    tried: dict[str, str] = {}
    if config.sigma == "auto":
        config.log("choosing sigma by held-out pixels ...")
        device = torch.device(config.device)
        sigma, errors = sigma_between_pixels(image, device, seed=config.seed)
        config.log(f"sigma    {sigma:.2f} cycles per unit; {errors}")
        config = replace(config, sigma=sigma)
    if config.num_bands != "auto" and config.encodings != ("auto",):
        return config, tried
    judge, octaves = image, 0
    if image.held_out is not None:
        # The pixels that are scored must not choose: the fitted ones are split once more.
        judge = replace(image, held_out=None)
        try:
            if config.held_out:
                # Every second pixel of those that are fitted leaves an octave less.
                judge, octaves = judge.split_held_out(), 1
            else:
                judge = split_at_random(judge, config.seed)
        except ValueError:
            raise UsageError(
                f"auto holds out some of the fitted pixels to choose by, and {judge.num_fitted:,} "
                "are too few for that; name the encoding and its --bands"
            ) from None
    kind = opened(config, judge)
    if config.num_bands == "auto":
        start = recipes.default_bands(judge.resolution)
        num_bands, errors = choose_bands(kind, config, most=start + 1, start=start)
        config = replace(config, num_bands=num_bands + octaves)
        config.log(f"bands    {errors}: {config.num_bands}")
        tried["auto_bands"] = errors
    if config.encodings == ("auto",):
        encoding, errors = choose_encoding(kind, config)
        config = replace(config, encodings=("none", encoding))
        config.log(f"auto     {errors}")
        tried["auto"] = errors
    return config, tried


def choose_encoding(kind: Any, config: ImageConfig) -> tuple[str, str]:
    """Choose among all encodings of images by short fits; also say what was tried."""
    names = [name for name, row in recipes.ENCODINGS.items() if not row.is_raw]
    best, errors = choose(names, lambda name: -_psnr(kind, FitName(name), config))
    return best, _tried(errors.items(), config)


def choose_bands(kind: Any, config: ImageConfig, most: int, start: int) -> tuple[int, str]:
    """Choose a number of frequency bands by short fits; also say what was tried.

    Args:
        kind: opened image.
        config: configuration of the run.
        most: largest number.
        start: number that is tried first.
    """
    # Those of the encodings auto are all.
    suiting = [*config.encodings, *recipes.ENCODINGS]
    name = FitName(recipes.encodings_with("num_bands", suiting)[0])

    def error(num_bands: int) -> float:
        return -_psnr(kind, name, replace(config, num_bands=num_bands))

    best, errors = choose(range(1, most + 1), error, start=min(start, most))
    return best, _tried(((f"{n} bands", each) for n, each in errors.items()), config)


def _steps(config: ImageConfig) -> int:
    share = _SHARE
    return min(config.steps, max(_MIN_STEPS, round(share * config.steps)))


def _tried(errors: Iterable[tuple[str, float]], config: ImageConfig) -> str:
    ranking = sorted(errors, key=lambda each: each[1])
    scores = ", ".join(f"{name} {-error:z.2f} dB" for name, error in ranking)
    return f"{scores} after {_steps(config)} steps each"


def _psnr(kind: Any, name: FitName, config: ImageConfig) -> float:
    """PSNR of a short fit in dB, at the pixels that a whole one is evaluated on."""
    device, generator = torch.device(config.device), torch.Generator().manual_seed(config.seed)
    model, description = kind.build(name, config, generator)
    problem = kind.problem(model.to(device), description, config)
    average: nn.Module = model
    if problem.ema_decay is not None:
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(problem.ema_decay)).eval()

    def after_step(_: FitState) -> None:
        if isinstance(average, AveragedModel):
            average.update_parameters(model)

    fit(
        FitState(model, problem.optimizer, _steps(config)),
        problem.draw_batch,
        problem.loss,
        forward=problem.forward,
        schedule=problem.schedule,
        autocast_dtype=problem.autocast_dtype,
        after_step=after_step,
    )
    image = kind.image.evaluated
    part = slice(None, None, max(1, math.isqrt(image.num_pixels // _JUDGED_PIXELS)))
    scored = scored_pixels(image).at(part, part)
    return scored.psnr(render(average, image.coordinates_at(part, part), device))


def split_at_random(image: Image, seed: int) -> Image:
    """Hold out a fifth of the fitted pixels, as they are fitted: of noisy ones, noisy values."""
    generator = torch.Generator().manual_seed(seed + 1)
    width, height = image.size
    return image.observed(torch.rand(height, width, generator=generator) > _JUDGING_SHARE)


def sigma_between_pixels(image: Image, device: torch.device, *, seed: int = 0) -> tuple[float, str]:
    """Choose sigma by held-out pixels of tiles that are evenly spread over the image.

    It is the choice for scattered samples, by short fits in float32; an image of a few pixels gets
    the default. Tancik et al. 2020 also chose theirs by held-out pixels, one for all images of a
    kind.

    Args:
        image: its fitted pixels.
        device: device to fit on.
        seed: random seed of the frequencies, the weights and the held-out pixels.

    Returns:
        Cycles per unit of the coordinate, and what was tried.
    """
    tiles = _tiles(*image.size)
    weights = torch.ones(image.pixels.shape[:2]) if image.weights is None else image.weights
    points = torch.cat([image.coordinates_at(*tile)[weights[tile] > 0] for tile in tiles])
    if len(points) < _MIN_SAMPLES:
        return recipes.default_sigma(
            image.resolution
        ), "the default, because the image has few pixels"
    targets = torch.cat([unit_range(image.pixels[tile])[weights[tile] > 0] for tile in tiles])
    choice = choose_sigma(points.to(device), targets.to(device), seed=seed)
    # Relative errors, since the values were scaled to one spread.
    least = min(choice.held_out_errors.values())
    tried = ", ".join(
        f"{sigma:.2f}: {error / least:.2f}"
        for sigma, error in sorted(choice.held_out_errors.items())
    )
    return choice.sigma, f"held-out errors relative to the least {tried}"


def _tiles(
    width: int, height: int, *, side: int = 32, across: int = 4
) -> list[tuple[slice, slice]]:
    """Square tiles evenly spread over an image, at most 4 x 4, or all of it."""
    if height * width <= (side * across) ** 2:
        return [(slice(0, height), slice(0, width))]
    tops, lefts = (
        torch.linspace(0, n - min(side, n), min(across, max(1, n // side))).long().tolist()
        for n in (height, width)
    )
    return [(slice(top, top + side), slice(left, left + side)) for top in tops for left in lefts]
