"""Measures that fits are scored by, and how a score is written."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from nerf_posenc.metrics.image import psnr_from_mse

# The smallest difference of two scores that counts, by the unit of the measure.
_LEAST_GAINS = {"dB": 0.05, "%": 0.1}
# In other units, as a share of the larger score.
_LEAST_SHARE = 0.01


@dataclass(frozen=True)
class Measure:
    """A column of the table of results.

    Two measures of one name are the same quantity: their scores can be averaged and compared.

    Attributes:
        name: name in ``metrics.json``.
        quantity: what is measured, such as ``"PSNR"``.
        unit: its unit, such as ``"dB"``; empty for a number without one.
        digits: digits that are shown after the point.
        higher_is_better: whether a gain is more of it.
        meaning: one sentence for the report.
        count: number of test examples that it is a share of; None for other measures.
        least_gain: smallest difference of two scores that counts; None for 0.05 dB, 0.1 percentage
            points, or of other units a hundredth of the larger score.
    """

    name: str
    quantity: str
    unit: str = ""
    digits: int = 2
    higher_is_better: bool = True
    meaning: str = ""
    count: int | None = None
    least_gain: float | None = None

    @property
    def label(self) -> str:
        """Heading of the column: ``"PSNR (dB)"``."""
        return f"{self.quantity} ({self.unit})" if self.unit else self.quantity

    @property
    def of_batches(self) -> str:
        """Label of the same quantity while a fit is trained."""
        unit = f" ({self.unit})" if self.unit else ""
        return f"{self.quantity} of the batches{unit}"

    @property
    def suffix(self) -> str:
        """The unit as it follows a number: ``" dB"``, ``"%"``, or nothing."""
        return self.unit if self.unit in ("", "%") else f" {self.unit}"

    def sentence(self, value: float) -> str:
        """Quantity, value and unit, as ``"PSNR 26.92 dB"``."""
        return f"{self.quantity} {value:z.{self.digits}f}{self.suffix}"

    def is_difference(self, a: float, b: float) -> bool:
        """Whether two scores differ by more than the least gain."""
        relative = _LEAST_SHARE * max(abs(a), abs(b))
        least = (
            _LEAST_GAINS.get(self.unit, relative) if self.least_gain is None else self.least_gain
        )
        return abs(a - b) > least

    @property
    def direction(self) -> str:
        """Direction of the measure, in words."""
        return "higher is better" if self.higher_is_better else "lower is better"


@dataclass(frozen=True)
class TrainingScore:
    """Score that the progress line, the curves and the video compute from the training loss.

    Attributes:
        measure: name and unit, in the units of the table where the batches have it.
        score_from_loss: function from the mean loss to the score.
    """

    measure: Measure
    score_from_loss: Callable[[float], float]


BATCH_PSNR = TrainingScore(Measure("psnr_db", "PSNR", "dB"), psnr_from_mse)
"""Score of a mean squared error of values in [0, 1]."""


def score_text(value: float, digits: int) -> str:
    """Format a score with this many digits after the point; a dash if it is undefined."""
    if math.isnan(value):
        return "-"
    # Values that round to 0 lose their sign.
    return f"{value:z.{digits}f}" if math.isfinite(value) else str(value).replace("inf", "∞")
