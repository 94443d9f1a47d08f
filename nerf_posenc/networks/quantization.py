"""Models in half precision and in 8 bits: what is stored, and what it costs in PSNR."""

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nerf_posenc.networks.local_cosine import LocalCosineSeries

_BLOCK = 64
_LEVELS = 127
# Of all parameters, at most so many stay in float16: those of the smallest tensors.
_SMALL_SHARE = 0.04


@dataclass(frozen=True)
class Quantized:
    """A model whose parameters were rounded.

    Attributes:
        module: the rounded copy; it computes in float32.
        num_bits: to store it, with scales and masks.
    """

    module: nn.Module
    num_bits: int


@torch.no_grad()
def quantize(module: nn.Module, bits: int) -> Quantized:
    """Round a trained model to float16, or to 8 bits without further training.

    In 8 bits every 64 parameters have a scale of 16 bits, so that the largest is 127 (block-wise
    quantization, Dettmers et al. 2022, without their non-linear levels). The smallest tensors stay
    in float16: as many as are 4% of the parameters together, and those of fewer than 64. Such are
    biases, the weights of the output, and all of the network that follows a large grid: each of
    their parameters changes every pixel. The coefficients of a
    [LocalCosineSeries][nerf_posenc.networks.local_cosine.LocalCosineSeries] are rounded on a
    square-root scale of their own for each frequency, and its lowest frequencies to float16;
    all of them to float16 where there are too few for scales to pay.

    Args:
        module: its trainable parameters are rounded.
        bits: 16 or 8.

    Raises:
        ValueError: If ``bits`` is another number.

    Examples:
        >>> quantize(nn.Linear(64, 1, bias=False), 8).num_bits
        528
    """
    if bits not in (8, 16):
        raise ValueError(f"bits must be 8 or 16; got {bits}")
    rounded = copy.deepcopy(module)
    num_bits = 0
    series = [m for m in rounded.modules() if isinstance(m, LocalCosineSeries)]
    coefficients = {id(each.coefficients): each for each in series}
    trained = [p for p in rounded.parameters() if p.requires_grad]
    small = _small_tensors(trained)
    for parameter in trained:
        values = torch.view_as_real(parameter) if parameter.is_complex() else parameter
        if bits == 16 or values.numel() < _BLOCK or id(parameter) in small:
            values.copy_(values.half())
            num_bits += 16 * values.numel()
        elif id(parameter) in coefficients:
            num_bits += _round_series(coefficients[id(parameter)])
        else:
            num_bits += _round_blocks(values)
    num_bits += sum(16 * each.num_index_parameters for each in series)
    return Quantized(rounded, num_bits)


def _small_tensors(parameters: Sequence[Tensor]) -> set[int]:
    """Identities of the smallest tensors, as many as take a small share of all parameters."""
    by_size = sorted(parameters, key=torch.numel)
    sums = itertools.accumulate(each.numel() for each in by_size)
    most = _SMALL_SHARE * sum(each.numel() for each in by_size)
    return {id(each) for each, total in zip(by_size, sums, strict=True) if total <= most}


def _round_blocks(values: Tensor) -> int:
    """Round values in place to 8 bits with a scale per block; return the bits stored."""
    flat = values.reshape(-1)
    padded = nn.functional.pad(flat, (0, -len(flat) % _BLOCK)).reshape(-1, _BLOCK)
    scale = (padded.abs().amax(1, keepdim=True) / _LEVELS).half().float()
    scale = scale.clamp(min=torch.finfo(torch.float16).tiny)
    rounded = (padded / scale).round().clamp(-_LEVELS, _LEVELS) * scale
    values.copy_(rounded.reshape(-1)[: len(flat)].reshape(values.shape))
    return 8 * len(flat) + 16 * len(padded)


def _round_series(series: LocalCosineSeries) -> int:
    """Round the coefficients of a series in place; return the bits stored."""
    coefficients = series.coefficients
    groups = series.frequencies.to(coefficients.device)
    # The means of cells are large, and an error of one is seen as a square.
    is_lowest = groups % 64 == 0
    num_bits = 8 * len(groups) + 8 * int(is_lowest.sum()) + 2 * 16 * len(groups.unique())
    if num_bits >= 16 * len(groups):
        coefficients.copy_(coefficients.half())
        return 16 * len(groups)
    root = coefficients.abs().sqrt()
    bounds = [
        root.new_zeros(int(groups.max()) + 1)
        .scatter_reduce(0, groups, root, reduction, include_self=False)
        .half()
        .float()[groups]
        for reduction in ("amin", "amax")
    ]
    least, span = bounds[0], (bounds[1] - bounds[0]).clamp(min=torch.finfo(torch.float16).tiny)
    level = ((root - least) / span * _LEVELS).round().clamp(0, _LEVELS)
    rounded = (least + level / _LEVELS * span).square() * coefficients.sign()
    coefficients.copy_(torch.where(is_lowest, coefficients.half().float(), rounded))
    return num_bits
