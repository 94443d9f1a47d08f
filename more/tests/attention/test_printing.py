"""Two encoders of attention that print alike give the same numbers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import nerf_posenc_attention as positional
from tests.test_printing import CaseOfPrinting, pairs, printed_apart, untried

POINTS = torch.rand(6, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
CELLS = torch.randint(0, 3, (6, 2), generator=torch.Generator().manual_seed(0))
QUERY = torch.rand(1, 2, 6, 48, generator=torch.Generator().manual_seed(0))


def rotation(*axes: int) -> Callable[[Any], Tensor]:
    """Rotate queries of one or more axes."""
    return lambda encoder: encoder.rotate(QUERY, POINTS[:, list(axes) if axes else 0] * 9)


def attention(size: Any) -> Callable[[Any], Tensor]:
    """Bias of a length, or of a window."""
    return lambda bias: bias(size)


CASES: list[CaseOfPrinting] = [
    (
        positional.RotaryEncoder,
        dict(dim=48, num_axes=2),
        dict(
            base=100.0,
            frequencies=torch.linspace(1, 0.1, 12).double(),
            axis_dims=(32, 16),
            axis_order=(1, 0),
            pair_axes=(0, 1) * 12,
            pairing="half",
            scale=1.5,
        ),
        rotation(0, 1),
    ),
    (positional.RotaryEncoder, dict(dim=48, axis_dims=(24,)), dict(trailing=True), rotation()),
    (
        positional.XPosEncoder,
        dict(dim=48),
        dict(scale_base=64.0, gamma=0.5, center=3.0, rotary=dict(base=100.0)),
        rotation(),
    ),
    (
        positional.MixedRotaryEncoder,
        dict(dim=48, num_axes=2, num_heads=2),
        dict(num_heads=None, base=100.0, matrix=torch.rand(2, 24, 2), pairing="half"),
        rotation(0, 1),
    ),
    (positional.PoPEEncoder, dict(dim=48, num_heads=2), dict(base=100.0), rotation()),
    (
        positional.FourierSeriesRotaryEncoder,
        dict(dim=48, num_heads=2, trained_length=64),
        dict(base=100.0, trained_length=16),
        lambda encoder: encoder.rotate(QUERY, torch.arange(6)),
    ),
    (
        positional.LearnedAxialEncoder,
        dict(lengths=(3, 4), dim=8),
        dict(reduce="sum", axis_order=(1, 0), axis_dims=(3, 5)),
        lambda encoder: encoder(CELLS),
    ),
    (positional.FireBias, dict(num_heads=2), dict(width=8, threshold=2.0), attention(6)),
    (positional.KerpleBias, dict(num_heads=2), dict(kind="power"), attention(6)),
    (
        positional.T5RelativeBias,
        dict(num_heads=2),
        dict(num_buckets=8, max_distance=16, bidirectional=False),
        attention(40),
    ),
    (
        positional.LogCPBBias,
        dict(num_heads=2),
        dict(width=8, pretrained_window=(4, 4)),
        attention((3, 3)),
    ),
    (
        positional.ClippedRelativeBias,
        dict(num_heads=2, ends=(-3, 3)),
        dict(ends=(-2, 4)),
        attention(6),
    ),
    (
        positional.WindowBias,
        dict(num_heads=2, window=(2, 3)),
        dict(has_class_token=True, is_absolute=True),
        lambda bias: bias(),
    ),
]


@pytest.mark.parametrize(("kind", "given", "changed", "evaluate"), pairs(CASES))
def test_an_argument_that_changes_the_numbers_is_printed(
    kind: Any, given: dict[str, Any], changed: dict[str, Any], evaluate: Callable[[Any], Tensor]
) -> None:
    printed_apart(kind, given, changed, evaluate)


def test_no_argument_of_an_encoder_is_left_out() -> None:
    assert not untried(CASES)
