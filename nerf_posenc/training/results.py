"""What a fit records, and the measures that it is scored by."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """A column of the table of results.

    Attributes:
        name: name in ``metrics.json``.
        label: heading, with the unit in brackets.
        digits: digits that are shown after the point.
        higher_is_better: whether a gain is more of it.
        meaning: one sentence for the report.
    """

    name: str
    label: str
    digits: int = 2
    higher_is_better: bool = True
    meaning: str = ""

    @property
    def quantity(self) -> str:
        """Label without its unit."""
        return self.label.partition(" (")[0]

    @property
    def unit(self) -> str:
        """Unit of the label as it follows a number: ``" dB"``, ``"%"``, or nothing."""
        unit = self.label.partition(" (")[2].rstrip(")")
        return unit if unit in ("", "%") else f" {unit}"

    @property
    def of_batches(self) -> str:
        """Label of the same quantity while a fit is trained."""
        return self.label.replace(self.quantity, f"{self.quantity} of the batches", 1)

    def sentence(self, value: float) -> str:
        """Quantity, value and unit, as ``"PSNR 26.92 dB"``."""
        return f"{self.quantity} {value:z.{self.digits}f}{self.unit}"

    @property
    def direction(self) -> str:
        """Which values are better, in words."""
        return "higher is better" if self.higher_is_better else "lower is better"


@dataclass(frozen=True)
class Record:
    """One point of a fit's history.

    Attributes:
        step: steps taken.
        seconds: training time so far.
        loss: mean loss over the steps since the previous record.
    """

    step: int
    seconds: float
    loss: float
