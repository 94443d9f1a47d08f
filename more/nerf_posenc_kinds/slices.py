"""How kinds whose data are slices of a volume show and score them."""

import time
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc.metrics.image import ssim
from nerf_posenc.training import predict
from nerf_posenc_app.values.blocks import Evaluation, Video, View
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result

SLICES_PER_SECOND = 12
_MOST_REPEATED = 16
_CHUNK_POINTS = 1 << 15


def gray(values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape 3"]:
    """Values as equal red, green and blue."""
    return values[..., None].expand(*values.shape, 3)


def mean_ssim(
    values: Float[Tensor, "depth height width"], truth: Float[Tensor, "depth height width"]
) -> float:
    """Mean SSIM of the slices."""
    return sum(map(ssim, values[..., None], truth[..., None])) / len(values)


def slice_blocks(
    title: str,
    truth: Float[Tensor, "depth height width"],
    values: Float[Tensor, "depth height width"],
    *,
    shown: int,
    aspect: float = 1.0,
    bands: Sequence[float] = (),
) -> list[View | Video]:
    """A slice, a cut from the side, and all slices as a video.

    Args:
        title: name of the data.
        truth: the slices, the lowest first.
        values: slices of a fit.
        shown: number of the slice to show.
        aspect: distance of the slices, relative to that of pixels.
        bands: frequency bands of the encoding, in rad per unit.
    """
    row = truth.shape[1] // 2
    # The highest slice is at the top.
    before, after = (_enlarged(gray(each[:, row].flip(0)), aspect) for each in (truth, values))
    return [
        View(f"{title}, slice {shown + 1}", gray(truth[shown]), gray(values[shown]), bands=bands),
        View(f"{title}, from the side", before, after, is_section=True),
        Video(
            "Original on the left, fit on the right, slice by slice",
            gray(torch.cat([truth, values], dim=-1)),
            SLICES_PER_SECOND,
        ),
    ]


def reference(
    name: str, make: Callable[[], Tensor], scored: Callable[[Tensor], Evaluation]
) -> Result:
    """Make slices without training, timed, and score them."""
    started = time.perf_counter()
    values = make()
    seconds = time.perf_counter() - started
    return Result(name=FitName(name), seconds=seconds, evaluation=scored(values), is_reference=True)


def _enlarged(
    cut: Float[Tensor, "height width 3"], aspect: float
) -> Float[Tensor, "_height _width 3"]:
    """Repeat each row or column an integer number of times, so that pixels are about square."""
    rows, columns = (min(max(1, round(ratio)), _MOST_REPEATED) for ratio in (aspect, 1 / aspect))
    return cut.repeat_interleave(rows, dim=0).repeat_interleave(columns, dim=1)


@torch.no_grad()
def values_at(
    model: nn.Module, points: Float[Tensor, "n axes"], device: torch.device
) -> Float[Tensor, "n values"]:
    """Values that a model has at points, in [0, 1], on the CPU.

    Args:
        model: the encoder and the network, on the device.
        points: coordinates; computed in chunks, so that any number fits into memory.
        device: device of the model.
    """
    values = predict(model, points.to(device), chunk_size=_CHUNK_POINTS)
    return values.float().clamp(0, 1).cpu()
