"""Weights of attention that are ported to the other pairing."""

import pytest
import torch
from torch import Tensor, nn

from nerf_posenc_attention import RotaryEncoder, port_rotary


@pytest.mark.parametrize(("to", "rotary_dim"), [("half", None), ("interleaved", 4)])
def test_attention_scores_are_the_same_with_the_other_pairing(
    to: str, rotary_dim: int | None
) -> None:
    pairings = {"half": "interleaved", "interleaved": "half"}
    dim, widths = 8, None if rotary_dim is None else (rotary_dim,)
    was = RotaryEncoder(dim, pairing=pairings[to], axis_dims=widths)  # type: ignore[arg-type]
    now = RotaryEncoder(dim, pairing=to, axis_dims=widths)  # type: ignore[arg-type]
    layers = [nn.Linear(16, 3 * dim) for _ in range(2)]
    ported = [port_rotary(layer, 3, to=to, rotary_dim=rotary_dim) for layer in layers]
    x, positions = torch.randn(2, 6, 16), torch.arange(6)

    def scores(layers: list[nn.Linear], rotary: RotaryEncoder) -> Tensor:
        q, k = (
            rotary.rotate(layer(x).unflatten(-1, (3, dim)).transpose(1, 2), positions)
            for layer in layers
        )
        return q @ k.mT

    torch.testing.assert_close(scores(ported, now), scores(layers, was), atol=1e-5, rtol=0)


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused() -> None:
    layer = nn.Linear(8, 24)
    for call, message in (
        (lambda: port_rotary(layer, 5, to="half"), "5 heads do not divide 24"),
        (lambda: port_rotary(layer, 3, to="both"), "to must be 'half' or 'interleaved'"),
        (lambda: port_rotary(layer, 3, to="half", rotary_dim=3), "even number of 2 to 8"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="got a Conv1d"):
        port_rotary(nn.Conv1d(8, 8, 1), 2, to="half")  # type: ignore[arg-type]
