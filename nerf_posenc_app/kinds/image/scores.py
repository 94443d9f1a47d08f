"""The scores of images: a row for each measure, which computes it for fits and references."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from nerf_posenc.images import Image, MuLaw, unit_range
from nerf_posenc.metrics.image import ssim
from nerf_posenc_app.kinds.coordinates import PSNR, SSIM
from nerf_posenc_app.kinds.image.reconstruction import Reconstruction, scored_pixels
from nerf_posenc_app.values.measures import Measure

MU_LAW_PSNR = Measure(
    "mu_psnr_db",
    "mu-law PSNR",
    "dB",
    meaning="PSNR of linear light after the mu-law curve, which maps it to [0, 1]",
)
FITTED = Measure(
    "psnr_fitted_db",
    "PSNR of the fitted pixels",
    "dB",
    meaning="PSNR over the pixels that were fitted",
)
MU_LAW_FITTED = replace(
    FITTED, name="mu_psnr_fitted_db", quantity="mu-law PSNR of the fitted pixels"
)
STOPS = Measure(
    "rmse_stops",
    "RMSE",
    "stops",
    3,
    higher_is_better=False,
    meaning=(
        "Root mean square of the differences of log2 of linear light. Light below the first "
        "percentile of the scored pixels counts as that percentile"
    ),
)


class Score(NamedTuple):
    """How a measure is computed.

    Attributes:
        compute: function from the image and the reconstruction of its evaluated pixels to the
            score; NaN where it does not apply.
        suits: function that says whether an image is scored by it.
    """

    compute: Callable[[Image, Reconstruction], float]
    suits: Callable[[Image], bool] = lambda _: True


def measures_of(image: Image) -> list[Measure]:
    """Columns of the table of an image."""
    return [measure for measure, score in SCORES.items() if score.suits(image)]


def scores_of(image: Image, found: Reconstruction) -> dict[str, float]:
    """Score a fit or a reference."""
    return {each.name: SCORES[each].compute(image, found) for each in measures_of(image)}


def _is_light(image: Image) -> bool:
    return image.tone is not None


def _ssim(image: Image, found: Reconstruction) -> float:
    truth, weights = scored_pixels(image)
    return ssim(found.values, truth, image.valid, None if weights is None else weights > 0)


def _rmse_in_stops(image: Image, found: Reconstruction) -> float:
    """Root mean square of the differences of log2 of linear light, above `_floor`."""
    truth, tone = image.evaluated, image.tone
    assert tone is not None
    floor = _floor(truth, tone)
    ours, theirs = (
        tone.light(unit_range(each).float()).clamp(min=floor).log2()
        for each in (found.values, truth.pixels)
    )
    errors = (ours - theirs).square().mean(-1)
    kept = errors if truth.weights is None else errors[truth.weights > 0]
    return math.sqrt(float(kept.mean()))


def _floor(image: Image, tone: MuLaw) -> float:
    """Light of the darkest hundredth of the scored pixels that are not black."""
    light = tone.light(image.pixels.float()).mean(-1)
    scored = light[light > 0] if image.weights is None else light[(light > 0) & (image.weights > 0)]
    ordered = scored.flatten().sort().values
    return float(ordered[len(ordered) // 100]) if len(ordered) else tone.peak / tone.mu


SCORES: dict[Measure, Score] = {
    PSNR: Score(lambda _, found: found.psnr, lambda image: not _is_light(image)),
    MU_LAW_PSNR: Score(lambda _, found: found.psnr, _is_light),
    FITTED: Score(
        lambda _, found: found.psnr_fitted,
        lambda image: image.held_out is not None and not _is_light(image),
    ),
    MU_LAW_FITTED: Score(
        lambda _, found: found.psnr_fitted,
        lambda image: image.held_out is not None and _is_light(image),
    ),
    STOPS: Score(_rmse_in_stops, _is_light),
    SSIM: Score(_ssim),
}
"""Scores in the order of the table; gains are of the first that suits an image."""
