"""What a fit records and returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Measure:
    """A column of the table of results.

    Attributes:
        name: in ``metrics.json``.
        label: heading, with the unit.
        digits: shown after the point.
        higher_is_better: whether a gain is more of it.
        meaning: one sentence for the report.
    """

    name: str
    label: str
    digits: int = 2
    higher_is_better: bool = True
    meaning: str = ""

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


@dataclass(frozen=True)
class Snapshot:
    """Previews of a fit in progress.

    Attributes:
        step: steps taken.
        psnr: of the last batches, in dB.
        images: values in [0, 1], one or more, of the same content in every snapshot of a fit.
    """

    step: int
    psnr: float
    images: Sequence[Float[Tensor, "_height _width 3"]]


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """One fit, complete or stopped early.

    Attributes:
        encoding: its name.
        parameters: number of trainable parameters.
        seconds: training time.
        steps: steps taken; 0 for a solution in closed form.
        history: mean training loss at each record.
        details: further values for ``metrics.json``.
    """

    encoding: str
    parameters: int
    seconds: float
    steps: int
    history: Sequence[Record]
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def scores(self) -> Mapping[str, float]:
        """What was measured on test data, by the name of the measure."""
        return {}

    def has_all_steps(self, num_steps: int, seconds: float | None = None) -> bool:
        """Whether it was not ended early.

        Args:
            num_steps: of a fit that is trained.
            seconds: of its training, if its length is given so.
        """
        if seconds is not None:
            return self.steps == 0 or self.seconds >= seconds
        return self.steps in (0, num_steps)

    @property
    def is_fit(self) -> bool:
        """False for what takes no training, such as interpolation: it has no parameters."""
        return self.parameters > 0

    @property
    def is_closed_form(self) -> bool:
        """Whether it is a model that was computed without training steps."""
        return self.is_fit and self.steps == 0


FIELD_MEASURES = (
    Measure(
        "psnr_db",
        "PSNR (dB)",
        2,
        meaning="-10 log10(MSE) over all pixels of an image, with --held-out over those that were "
        "not fitted, or its mean over the test views; values clamped to [0, 1], float64; the "
        "string inf for a perfect fit, null if undefined",
    ),
    Measure(
        "ssim",
        "SSIM",
        4,
        meaning="Wang et al. 2004: 11 x 11 Gaussian window, sigma 1.5, mean over channels",
    ),
)
"""Columns of fits of images and scenes."""

STORAGE_MEASURES = (
    Measure(
        "bpp_float16",
        "bits/pixel (float16)",
        higher_is_better=False,
        meaning="bits of all parameters in float16, and of what says which are kept, per pixel",
    ),
    Measure(
        "bpp_8bit",
        "bits/pixel (8 bits)",
        higher_is_better=False,
        meaning="likewise with parameters in 8 bits, and their scales",
    ),
    Measure("psnr_8bit_db", "PSNR (dB, 8 bits)", meaning="PSNR with parameters rounded to 8 bits"),
)
"""Further columns of a fit within a number of parameters."""


@dataclass(frozen=True, kw_only=True)
class Storage:
    """What a model takes when its parameters are rounded.

    Attributes:
        bpp_float16: bits per pixel in float16.
        psnr_float16: PSNR then, in dB.
        bpp_8bit: bits per pixel in 8 bits, without further training.
        psnr_8bit: PSNR then, in dB.
    """

    bpp_float16: float
    psnr_float16: float
    bpp_8bit: float
    psnr_8bit: float


@dataclass(frozen=True, kw_only=True)
class FieldResult(FitResult):
    """Fit of an image or a scene; its history is the MSE of the batches.

    Attributes:
        psnr: in dB.
        ssim: structural similarity.
        bands: of the encoding, in rad per unit, if it has the same for every axis.
        kernel: distances along an axis, and the similarity of the features at each; None for
            features that are trained.
        snapshots: previews during the fit, for a video.
        storage: of a fit within a number of parameters; None if none was given.
    """

    psnr: float
    ssim: float
    bands: Sequence[float] = ()
    kernel: tuple[Sequence[float], Sequence[float]] | None = None
    snapshots: Sequence[Snapshot] = ()
    storage: Storage | None = None

    @property
    def scores(self) -> Mapping[str, float]:
        """PSNR and SSIM, and what is stored."""
        scores = {"psnr_db": self.psnr, "ssim": self.ssim}
        if self.storage is not None:
            scores |= {
                "bpp_float16": self.storage.bpp_float16,
                "psnr_float16_db": self.storage.psnr_float16,
                "bpp_8bit": self.storage.bpp_8bit,
                "psnr_8bit_db": self.storage.psnr_8bit,
            }
        return scores
