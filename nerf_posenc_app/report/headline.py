"""The sentence at the top of a page: what the best encoding recovers, in numbers of the run."""

import contextlib
import math
from collections.abc import Sequence

from nerf_posenc.training.recipes import EncodingRecipe, get_recipe
from nerf_posenc_app.report.tables import BASELINE, score_text
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result


def headline(results: Sequence[Result], measure: Measure) -> str | None:
    """Say what the best encoding scores, with the model without one and others beside it.

    Args:
        results: the fits and references of one run.
        measure: what they are compared by.

    Returns:
        A sentence with the numbers of the table; None if no fit has an encoding.
    """
    sign = 1 if measure.higher_is_better else -1

    def score(result: Result) -> float:
        return sign * result.scores[measure.name]

    def text(result: Result) -> str:
        return score_text(result.scores[measure.name], measure.digits) + measure.suffix

    quantity = measure.quantity
    known = [result for result in results if not math.isnan(result.scores[measure.name])]
    fits = [result for result in known if not result.is_reference]
    references = [result for result in known if result.is_reference]
    baseline = next((fit for fit in fits if fit.name == FitName(BASELINE)), None)
    if baseline is not None and not baseline.is_complete:
        # Nothing is gained over a fit that was stopped.
        fits, baseline = [fit for fit in fits if fit is not baseline], None
    others = [fit for fit in fits if fit is not baseline]
    reference = max(references, key=score, default=None)
    if fits and reference is not None and score(reference) > score(max(fits, key=score)):
        compared = [f"{text(fit)} with {_in_sentence(fit.name)}" for fit in others]
        compared += [f"{text(fit)} without an encoding" for fit in fits if fit is baseline]
        return (
            f"No fit reaches {reference.label}, {quantity} {text(reference)}: {', '.join(compared)}"
        )
    if not others:
        return None
    best = max(others, key=score)
    beside = "" if reference is None else f"; {reference.label} reaches {text(reference)}"
    if baseline is None:
        rest = sorted((fit for fit in others if fit is not best), key=score, reverse=True)
        named = [*rest, *([] if reference is None else [reference])]
        compared = [f"{_in_sentence(fit.name)} {text(fit)}" for fit in named]
        found = f"{_does(best.name, 'reach')} {quantity} {text(best)}"
        return ", ".join([found, *compared])
    # Of the numbers that are shown, so that they add up.
    gained = abs(round(score(best), measure.digits) - round(score(baseline), measure.digits))
    if _is_unclear(best, baseline, measure) or gained < 0.05:
        return (
            f"No encoding is clearly better than none: {quantity} {text(best)} with "
            f"{best.label}, {text(baseline)} without{beside}"
        )
    verb = "gain" if score(best) >= score(baseline) else "lose"
    # A difference of percentages is one of points.
    unit = " points" if measure.unit == "%" else measure.suffix
    digits = 1 if measure.unit else measure.digits
    amount = f"{gained:.{digits}f}{unit}" if math.isfinite(gained) else "all that is missing"
    return (
        f"{_does(best.name, verb)} {amount}: {quantity} {text(best)} against "
        f"{text(baseline)} without it{_alike(best, baseline)}{beside}"
    )


def encoding_title(name: FitName) -> str:
    """Name of a fit at the beginning of a sentence: the title of its encoding, if it has one."""
    recipe = _recipe(name) if name.swept is None else None
    return f"The encoding {name}" if recipe is None else recipe.title


def _does(name: FitName, verb: str) -> str:
    """Subject and verb of a sentence; some encodings are several: random Fourier features."""
    title = encoding_title(name)
    if title.endswith(("features", "Products of lines")):
        return f"{title} {verb}"
    return f"{title} {verb}{'es' if verb == 'reach' else 's'}"


def _in_sentence(name: FitName) -> str:
    recipe = _recipe(name) if name.swept is None else None
    if recipe is None:
        return str(name)
    # Not of an acronym, such as SIREN.
    is_acronym = recipe.title[1:2].isupper()
    return recipe.title if is_acronym else recipe.title[0].lower() + recipe.title[1:]


def _recipe(name: FitName) -> EncodingRecipe | None:
    """Row of an encoding of coordinates; None for those of sequences, and for references."""
    with contextlib.suppress(ValueError):
        return get_recipe(name.encoding)
    return None


def _alike(best: Result, baseline: Result) -> str:
    """What two fits have in common."""
    rows = [_recipe(fit.name) for fit in (best, baseline)]
    is_same = best.parameters == baseline.parameters or (
        rows[0] is not None and rows[1] is not None and rows[0].layers == rows[1].layers
    )
    network = ", same network" if is_same else ""
    if is_same and best.parameters > baseline.parameters:
        # The first layer has a weight for each feature.
        network += " with a wider first layer"
    return network + (f", same {best.steps:,} steps" if best.steps == baseline.steps else "")


def _is_unclear(best: Result, baseline: Result, measure: Measure) -> bool:
    """Whether the scores of several seeds overlap."""
    a, b = ([s[measure.name] for s in fit.evaluation.by_seed] for fit in (best, baseline))
    return len(a) > 1 and len(b) > 1 and min(a) <= max(b) and min(b) <= max(a)
