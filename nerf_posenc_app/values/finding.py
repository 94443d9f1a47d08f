"""What a run has found: computed once, and said alike by the terminal, pages, cards and files."""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nerf_posenc.training.recipes import EncodingRecipe, get_recipe
from nerf_posenc_app.values.measures import Measure, score_text
from nerf_posenc_app.values.names import BASELINE, GUESS, FitName
from nerf_posenc_app.values.results import Result

Verdict = Literal["gains", "loses", "unclear", "behind", "reaches", "doubtful"]
"""What the best fit does beside the one without an encoding or a better reference.

``reaches`` is that of fits with nothing to gain over, and ``doubtful`` that of scores which say
little of the encodings.
"""


@dataclass(frozen=True)
class Doubt:
    """Why the score of a fit says little of its encoding.

    Attributes:
        fit: name of the fit.
        reason: rest of a sentence that begins with the fit, such as ``"did not learn the sound
            (0.4 dB; silence scores 0 dB)"``.
        advice: remedy in one sentence; empty if none is known.
    """

    fit: FitName
    reason: str
    advice: str = ""

    def __str__(self) -> str:
        return f'"{self.fit}" {self.reason}' + (f". {self.advice}" if self.advice else "")


@dataclass(frozen=True)
class Finding:
    """What a run has found.

    Attributes:
        measure: name of the measure that fits are compared by.
        best: name of the best fit or reference.
        baseline: name of the fit or reference beside the best; None if the best stands alone.
        verdict: outcome of that comparison; `Verdict` lists the values.
        qualifications: what to know before the scores are compared, as sentences.
        sentence: all of it in one sentence.
    """

    measure: str
    best: str
    baseline: str | None
    verdict: Verdict
    qualifications: Sequence[str]
    sentence: str

    @property
    def sides(self) -> tuple[str, str]:
        """What pages show side by side: the baseline, or the original, and the best."""
        return self.baseline or "original", self.best


def find(
    results: Sequence[Result],
    measure: Measure,
    doubts: Sequence[Doubt] = (),
    length: str | None = None,
) -> Finding | None:
    """Find what the best encoding scores, beside the model without one and what else there is.

    Args:
        results: the fits and references of one run.
        measure: what they are compared by.
        doubts: fits whose scores say little.
        length: how much shorter than usual the fits were, such as ``"30 of 600 steps"``; None if
            they were long enough.

    Returns:
        What was found, in the numbers of the table; None if no fit has a score.
    """
    search = _Search(results, measure)
    if not search.fits:
        return None
    best, second = search.best_two()
    doubt = next((doubt for doubt in doubts if doubt.fit == search.fits[0].name), None)
    verdict: Verdict = "doubtful"
    qualifications = [str(each) for each in doubts]
    if length is not None:
        qualifications.insert(0, f"{length[0].upper()}{length[1:]} are too few to compare")
    if length is not None:
        sentence = f"After {length}, too few to compare: {search.scores()}"
    elif doubt is not None:
        sentence = f"{_subject(doubt.fit)} {doubt.reason}: {search.scores()}"
    else:
        verdict, sentence = search.verdict()
    return Finding(
        measure=measure.name,
        best=best.label,
        baseline=None if second is None else second.label,
        verdict=verdict,
        qualifications=qualifications,
        sentence=sentence,
    )


class _Search:
    """The fits of a run by their scores.

    Attributes:
        fits: fits that have a score, the best first.
        references: references that have one, likewise.
        baseline: the fit without an encoding, if it was fitted whole.
    """

    def __init__(self, results: Sequence[Result], measure: Measure) -> None:
        self.measure = measure
        known = [fit for fit in results if not math.isnan(fit.scores[measure.name])]
        known.sort(key=self._score, reverse=True)
        self.references = [result for result in known if result.is_reference]
        self.fits = [result for result in known if not result.is_reference]
        self.baseline = next((fit for fit in self.fits if fit.name == FitName(BASELINE)), None)
        if self.baseline is not None and not self.baseline.is_complete and len(self.fits) > 1:
            # A stopped fit is no baseline for a gain.
            self.fits.remove(self.baseline)
            self.baseline = None

    def _score(self, result: Result) -> float:
        value = result.scores[self.measure.name]
        return value if self.measure.higher_is_better else -value

    def best_two(self) -> tuple[Result, Result | None]:
        """The best of all, and what it is compared with."""
        best, reference = self.fits[0], next(iter(self.references), None)
        if reference is not None and self._score(reference) > self._score(best):
            return reference, best
        rest = [fit for fit in self.fits[1:] if fit is not self.baseline]
        beside = None if best is self.baseline else self.baseline
        return best, beside or next(iter(rest), reference)

    def verdict(self) -> tuple[Verdict, str]:
        """What the best fit does, and the sentence that says so."""
        best, reference = self.fits[0], next(iter(self.references), None)
        if reference is not None and reference.name.encoding == GUESS:
            # Only fits that are no better than a guess are named.
            reference = reference if self._score(reference) > self._score(best) else None
        quantity = self.measure.quantity
        if reference is not None and self._score(reference) > self._score(best):
            ahead = f"{reference.label}, {quantity} {self._text(reference)}"
            fits = ", ".join(self._named(fit) for fit in self.fits)
            return "behind", f"No fit reaches {ahead}: {fits}"
        others = [fit for fit in self.fits if fit is not self.baseline]
        if self.baseline is None or not others:
            named = [_in_sentence(fit.name) + f" {self._text(fit)}" for fit in self.fits[1:]]
            named += [
                f"{fit.label} {self._text(fit)}"
                for fit in self.references
                if fit.name.encoding != GUESS
            ]
            found = f"{_does(best.name, 'reach')} {quantity} {self._text(best)}"
            return "reaches", ", ".join([found, *named])
        beside = "" if reference is None else f"; {reference.label} reaches {self._text(reference)}"
        verdict, sentence = self._against(others[0], self.baseline)
        return verdict, sentence + beside

    def _against(self, best: Result, baseline: Result) -> tuple[Verdict, str]:
        """What the best encoding gains over none."""
        measure, texts = self.measure, [self._text(fit) for fit in (best, baseline)]
        # Computed from the rounded scores, so that the numbers add up.
        shown = [round(self._score(fit), measure.digits) for fit in (best, baseline)]
        gained = abs(shown[0] - shown[1])
        if _is_unclear(best, baseline, measure) or gained < 0.05:
            return "unclear", (
                f"No encoding is clearly better than none: {measure.quantity} {texts[0]} with "
                f"{best.label}, {texts[1]} without"
            )
        is_gain = self._score(best) >= self._score(baseline)
        # A difference of percentages is one of points.
        unit = " points" if measure.unit == "%" else measure.suffix
        digits = 1 if measure.unit else measure.digits
        amount = f"{gained:.{digits}f}{unit}" if math.isfinite(gained) else "all that is missing"
        return "gains" if is_gain else "loses", (
            f"{_does(best.name, 'gain' if is_gain else 'lose')} {amount}: {measure.quantity} "
            f"{texts[0]} against {texts[1]} without it{_in_common(best, baseline)}"
        )

    def scores(self) -> str:
        """All scores, the best first, without a verdict."""
        named = [self._named(fit) for fit in self.fits]
        named += [f"{self._text(fit)} of {fit.label}" for fit in self.references]
        return f"{self.measure.quantity} {', '.join(named)}"

    def _named(self, fit: Result) -> str:
        if fit.name == FitName(BASELINE):
            return f"{self._text(fit)} without an encoding"
        return f"{self._text(fit)} with {_in_sentence(fit.name)}"

    def _text(self, result: Result) -> str:
        value = score_text(result.scores[self.measure.name], self.measure.digits)
        return value + self.measure.suffix


def encoding_title(name: FitName) -> str:
    """Name of a fit at the beginning of a sentence: the title of its encoding, if it has one."""
    if name.swept is not None:
        return _swept(name)
    if name == FitName(BASELINE):
        return "The network without an encoding"
    recipe = _recipe(name)
    return f"The encoding {name}" if recipe is None else recipe.title


def _subject(name: FitName) -> str:
    """A fit at the beginning of a sentence about the fit, not about its encoding."""
    return encoding_title(name) if name == FitName(BASELINE) else f'"{name}"'


def _swept(name: FitName) -> str:
    """A fit among those of several values of an option: ``"8 bands"``."""
    assert name.swept is not None
    option, value = name.swept
    if option == "num_bands":
        return f"{value:g} bands"
    return f"{name.encoding} with {option.replace('_', ' ')} {value:g}"


def _does(name: FitName, verb: str) -> str:
    """Subject and verb of a sentence; some encodings are several: random Fourier features."""
    title = encoding_title(name)
    if title.endswith(("features", "Products of lines", " bands")):
        return f"{title} {verb}"
    return f"{title} {verb}{'es' if verb == 'reach' else 's'}"


def _in_sentence(name: FitName) -> str:
    if name.swept is not None:
        return _swept(name)
    recipe = _recipe(name)
    if recipe is None:
        return str(name)
    # Acronyms such as SIREN keep their capitals.
    is_acronym = recipe.title[1:2].isupper()
    return recipe.title if is_acronym else recipe.title[0].lower() + recipe.title[1:]


def _recipe(name: FitName) -> EncodingRecipe | None:
    """Row of an encoding of coordinates; None for those of sequences, and for references."""
    with contextlib.suppress(ValueError):
        return get_recipe(name.encoding)
    return None


def _in_common(best: Result, baseline: Result) -> str:
    """What two fits have in common."""
    rows = [_recipe(fit.name) for fit in (best, baseline)]
    if rows[0] is None or rows[1] is None:
        # Sequences: one model, with encodings that have parameters or not.
        is_same = best.parameters == baseline.parameters
        return "" if not is_same else f", same network{_same_steps(best, baseline)}"
    is_same = (rows[0].network, rows[0].layers) == (rows[1].network, rows[1].layers)
    network = ", same network" if is_same else ", another network"
    if is_same and best.parameters > baseline.parameters:
        # The first layer has a weight for each feature.
        network += " with a wider first layer"
    return network + _same_steps(best, baseline)


def _same_steps(best: Result, baseline: Result) -> str:
    return f", same {best.steps:,} steps" if best.steps == baseline.steps else ""


def _is_unclear(best: Result, baseline: Result, measure: Measure) -> bool:
    """Whether seeds overlap, or shares of few test examples differ by less than chance."""
    a, b = ([s[measure.name] for s in fit.evaluation.by_seed] for fit in (best, baseline))
    if len(a) > 1 and len(b) > 1 and min(a) <= max(b) and min(b) <= max(a):
        return True
    if measure.count is None:
        return False
    shares = [fit.scores[measure.name] / 100 for fit in (best, baseline)]
    # Standard error of the difference of two shares, each with the variance p (1 - p) / n.
    error = math.sqrt(sum(share * (1 - share) for share in shares) / measure.count)
    return abs(shares[0] - shares[1]) < 2 * error
