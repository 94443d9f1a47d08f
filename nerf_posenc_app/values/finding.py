"""The headline of a run: the score of the best fit beside the baseline, and how both were made."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nerf_posenc_app.values.measures import Measure, score_text
from nerf_posenc_app.values.names import BASELINE, FitName
from nerf_posenc_app.values.results import Result

Verdict = Literal["gains", "loses", "unclear", "behind", "reaches", "doubtful"]
"""What the best fit does beside the one without an encoding or a better reference.

``reaches`` is that of fits with nothing to gain over, and ``doubtful`` that of scores which say
little of the encodings.
"""

# What two fits may differ in, as the difference is written.
_SETTINGS = {
    "network": "{} network",
    "width": "width {}",
    "depth": "depth {}",
    "parameters": "{} parameters",
    "optimizer": "optimizer {}",
    "lr": "learning rate {}",
    "adam_lr": "Adam learning rate {}",
    "schedule": "{} schedule",
    "ema_decay": "EMA decay {}",
    "batch_size": "batch size {}",
    "precision": "precision {}",
    "steps": "{} steps",
}
# A headline names the numbers of this many differences; of more, a note does.
_MAX_DIFFERENCES = 2


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
        best: name of the best fit or reference.
        baseline: name of the fit or reference beside the best; None if the best stands alone.
        verdict: outcome of that comparison; `Verdict` lists the values.
        qualifications: what to know before the scores are compared, as sentences.
        sentence: all of it in one sentence.
    """

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
    known = [each for each in results if not math.isnan(each.scores[measure.name])]
    known.sort(key=lambda each: each.scores[measure.name], reverse=measure.higher_is_better)
    fits = [each for each in known if not each.is_reference]
    if not fits:
        return None
    none = next((fit for fit in fits if fit.name == FitName(BASELINE)), None)
    if none is not None and not none.is_complete and len(fits) > 1:
        # A stopped fit is no baseline for a gain.
        known.remove(none)
        fits.remove(none)
        none = None
    best = known[0]
    first = fits if none is None or best.is_reference else [none, *fits]
    second = next((each for each in [*first, *known] if each is not best), None)
    encoded = next((fit for fit in fits if fit is not none), None)
    doubt = next((doubt for doubt in doubts if doubt.fit == fits[0].name), None)
    qualifications = [str(each) for each in doubts]
    listed = ", ".join(f"{_text(each, measure)} ({each.label})" for each in known)
    scores = sentence = f"{measure.quantity} {listed}"
    verdict: Verdict = "reaches"
    if none is not None and encoded is not None:
        verdict, outcome = _outcome(encoded, none, measure)
        conditions, notes = _conditions(encoded, none)
        sentence, qualifications = outcome + conditions, [*notes, *qualifications]
    if length is not None:
        verdict, sentence = "doubtful", f"After {length}, too few to compare: {scores}"
        qualifications.insert(0, f"{length[0].upper()}{length[1:]} are too few to compare")
    elif doubt is not None:
        verdict, sentence = "doubtful", f'"{doubt.fit}" {doubt.reason}: {scores}'
    elif best.is_reference:
        verdict, sentence = "behind", f"No fit reached {best.label}: {scores}"
    return Finding(
        best=best.label,
        baseline=None if second is None else second.label,
        verdict=verdict,
        qualifications=qualifications,
        sentence=sentence,
    )


def _text(result: Result, measure: Measure) -> str:
    return score_text(result.scores[measure.name], measure.digits) + measure.suffix


def _outcome(fit: Result, baseline: Result, measure: Measure) -> tuple[Verdict, str]:
    """What an encoding gains over none."""
    label = f'"{fit.label}"'
    title = label if fit.name.swept else fit.details.get("title", label)
    verdict: Verdict = "unclear"
    outcome = "made no clear difference"
    # Computed from the rounded scores, so that the numbers add up.
    mine, theirs = (round(each.scores[measure.name], measure.digits) for each in (fit, baseline))
    if measure.is_difference(mine, theirs) and not is_chance(fit, baseline, measure):
        # A difference of percentages is one of points.
        unit = " points" if measure.unit == "%" else measure.suffix
        amount = score_text(abs(mine - theirs), 1 if measure.unit else measure.digits) + unit
        is_gain = (mine > theirs) == measure.higher_is_better
        verdict = "gains" if is_gain else "loses"
        outcome = f"{'gained' if is_gain else 'lost'} {amount}"
    scores = f"{measure.quantity} {_text(fit, measure)} against {_text(baseline, measure)}"
    return verdict, f"{title} {outcome}: {scores} without it"


def _conditions(fit: Result, baseline: Result) -> tuple[str, list[str]]:
    """What two fits have in common and what differs, and a note if much does."""
    mine, theirs = (
        {**each.details, "parameters": each.parameters, "steps": each.steps}
        for each in (fit, baseline)
    )
    # What is not known of both is neither equal nor different.
    known = [key for key in _SETTINGS if None not in (mine.get(key), theirs.get(key))]
    differing = [key for key in known if mine[key] != theirs[key]]

    def is_equal(*keys: str) -> bool:
        return keys[0] in known and not {*keys} & {*differing}

    equal = []
    if is_equal("network", "width", "depth"):
        # The first layer has a weight for each feature of the encoding.
        equal.append("network" if is_equal("parameters") else "hidden layers")
    if is_equal("optimizer", "lr", "adam_lr", "schedule", "ema_decay"):
        equal.append("optimizer")
    if is_equal("steps"):
        equal.append(f"{fit.steps:,} steps")
    different = [
        _SETTINGS[key].format(f"{_plain(mine[key])} against {_plain(theirs[key])}")
        for key in differing
    ]
    notes = []
    if len(different) > _MAX_DIFFERENCES:
        notes = [f"{fit.label} against {baseline.label}: {', '.join(different)}"]
        nouns = [_SETTINGS[key].replace("{}", "").strip() for key in differing]
        different = [f"different {_listed(nouns)}"]
    parts = [f"same {_listed(equal)}"] * bool(equal) + different
    return f"; {', '.join(parts)}" if parts else "", notes


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value).replace("_", " ")


def _listed(texts: Sequence[str]) -> str:
    return " and ".join([", ".join(texts[:-1])] * (len(texts) > 1) + [*texts[-1:]])


def is_chance(fit: Result, baseline: Result, measure: Measure) -> bool:
    """Whether seeds overlap, or shares of few test examples differ by less than chance."""
    a, b = (
        [seed[measure.name] for seed in each.evaluation.by_seed if measure.name in seed]
        for each in (fit, baseline)
    )
    if len(a) > 1 and len(b) > 1 and min(a) <= max(b) and min(b) <= max(a):
        return True
    if measure.count is None:
        return False
    shares = [each.scores[measure.name] / 100 for each in (fit, baseline)]
    # Standard error of the difference of two shares, each with the variance p (1 - p) / n.
    error = math.sqrt(sum(share * (1 - share) for share in shares) / measure.count)
    return abs(shares[0] - shares[1]) < 2 * error
