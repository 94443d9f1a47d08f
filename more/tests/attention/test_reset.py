"""First values of biases and learned tables, which the family of encoders does not hold."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from nerf_posenc_attention import (
    ClippedRelativeBias,
    FireBias,
    FourierSeriesRotaryEncoder,
    KerpleBias,
    LearnedAxialEncoder,
    LearnedGridEncoder,
    LearnedPositionEncoder,
    LogCPBBias,
    T5RelativeBias,
    WindowBias,
)

MAKERS = {
    "t5": lambda: T5RelativeBias(4),
    "clipped": lambda: ClippedRelativeBias(4, ends=(-2, 3)),
    "kerple": lambda: KerpleBias(4),
    "kerple-power": lambda: KerpleBias(4, kind="power"),
    "fire": lambda: FireBias(4),
    "window": lambda: WindowBias(4, (3, 3)),
    "cpb": lambda: LogCPBBias(4),
    "fope": lambda: FourierSeriesRotaryEncoder(16, 2, trained_length=64),
    "positions": lambda: LearnedPositionEncoder(9, 6),
    "grid": lambda: LearnedGridEncoder((3, 4), 6, num_prefix=1),
    "axial": lambda: LearnedAxialEncoder((3, 4), 6),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_is_drawn_is_what_the_constructor_draws(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    expected = make().state_dict()
    with torch.device("meta"):
        module = make()
    module.to_empty(device="cpu")
    torch.manual_seed(0)
    module.reset_parameters()  # type: ignore[operator]
    for name, value in module.state_dict().items():
        assert torch.equal(value, expected[name])
    module.reset_parameters(torch.Generator().manual_seed(5))  # type: ignore[operator]
    again = make()
    again.reset_parameters(torch.Generator().manual_seed(5))  # type: ignore[operator]
    for name, value in module.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
