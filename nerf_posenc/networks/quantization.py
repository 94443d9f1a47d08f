"""Models in half precision and in 8 bits: what is stored, and what it costs in PSNR."""

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

_BLOCK = 64
_LEVELS = 127
# Of all parameters, at most so many stay in float16: those of the smallest tensors.
_SMALL_SHARE = 0.04


@dataclass(frozen=True)
class Quantized:
    """A model whose parameters were rounded.

    Attributes:
        module: the rounded copy; it computes in float32.
        num_bits: bits to store it, with the scales.
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
    their parameters changes every pixel.

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
    trained = [p for p in rounded.parameters() if p.requires_grad]
    small = _small_tensors(trained)
    for parameter in trained:
        values = torch.view_as_real(parameter) if parameter.is_complex() else parameter
        if bits == 16 or values.numel() < _BLOCK or id(parameter) in small:
            values.copy_(values.half())
            num_bits += 16 * values.numel()
        else:
            num_bits += _round_blocks(values)
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
    # The scale is rounded to float16 first, as it is stored, and the values by that scale.
    scale = (padded.abs().amax(1, keepdim=True) / _LEVELS).half().float()
    scale = scale.clamp(min=torch.finfo(torch.float16).tiny)
    rounded = (padded / scale).round().clamp(-_LEVELS, _LEVELS) * scale
    values.copy_(rounded.reshape(-1)[: len(flat)].reshape(values.shape))
    return 8 * len(flat) + 16 * len(padded)
