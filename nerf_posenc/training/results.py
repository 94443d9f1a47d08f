"""What a fit records and returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor


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
        psnr: in dB.
        ssim: structural similarity.
        seconds: training time.
        steps: steps taken.
        history: mean loss (MSE of the batches) at each record.
        bands: of the encoding, in rad per unit, if it has the same for every axis.
        kernel: distances along an axis, and the similarity of the features at each; None for
            features that are trained.
        snapshots: previews during the fit, for a video.
        details: further values for ``metrics.json``.
    """

    encoding: str
    parameters: int
    psnr: float
    ssim: float
    seconds: float
    steps: int
    history: Sequence[Record]
    bands: Sequence[float] = ()
    kernel: tuple[Sequence[float], Sequence[float]] | None = None
    snapshots: Sequence[Snapshot] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
