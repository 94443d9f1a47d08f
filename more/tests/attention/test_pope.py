"""Polar coordinate embeddings: scores against their formula."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc_attention import PoPEEncoder


def made(dim: int = 6, num_heads: int = 2) -> tuple[PoPEEncoder, Tensor, Tensor]:
    """An encoder with phases, queries and keys, in float64."""
    generator = torch.Generator().manual_seed(0)
    encoder = PoPEEncoder(dim, num_heads, base=50.0).double()
    encoder.phases.data = -torch.rand(num_heads, dim, generator=generator).double() * 2 * math.pi
    queries, keys = torch.randn(2, 3, num_heads, 9, dim, generator=generator).double()
    return encoder, queries, keys


def test_scores_are_cosines_of_offsets_and_phases_weighted_by_content() -> None:
    encoder, queries, keys = made()
    positions = torch.randn(9, generator=torch.Generator().manual_seed(1)).double() * 100
    scores = encoder.rotate(queries, positions) @ encoder.rotate_keys(keys, positions).mT
    bands = torch.tensor([50.0 ** (-i / 6) for i in range(6)], dtype=torch.float64)
    offsets = positions[:, None] - positions
    angles = offsets[..., None] * bands - encoder.phases[:, None, None]
    weights = F.softplus(queries)[..., :, None, :] * F.softplus(keys)[..., None, :, :]
    torch.testing.assert_close(scores, (weights * angles.cos()).sum(-1))


def test_positions_of_each_sequence_are_theirs() -> None:
    encoder, queries, keys = made()
    positions = torch.arange(27).view(3, 9) ** 2
    together = encoder.rotate(queries, positions), encoder.rotate_keys(keys, positions)
    for i in range(3):
        alone = (
            encoder.rotate(queries[i], positions[i]),
            encoder.rotate_keys(keys[i], positions[i]),
        )
        torch.testing.assert_close(alone, (together[0][i], together[1][i]))


def test_phases_stay_within_a_turn_and_find_back() -> None:
    encoder, _, keys = made()
    positions = torch.arange(9)
    with torch.no_grad():
        encoder.phases[0, 0], encoder.phases[1, 1] = 1.0, -9.0
        bounded, _, _ = made()
        bounded.phases.data = encoder.phases.clamp(-2 * math.pi, 0)
    found = encoder.rotate_keys(keys, positions)
    torch.testing.assert_close(found, bounded.rotate_keys(keys, positions))
    gradients = []
    for each in (encoder, bounded):
        each.rotate_keys(keys, positions).square()[..., ::2].sum().backward()
        assert each.phases.grad is not None
        gradients.append(each.phases.grad)
    assert (gradients[0] != 0).all()
    torch.testing.assert_close(*gradients)


def test_half_precision_is_computed_in_float32() -> None:
    encoder = PoPEEncoder(4, 2)
    x, positions = torch.randn(2, 5, 4).bfloat16(), torch.arange(5) + 100_000
    for embed in (encoder.rotate, encoder.rotate_keys):
        half = embed(x, positions)
        assert half.dtype == torch.bfloat16
        torch.testing.assert_close(half, embed(x.float(), positions).bfloat16())
    encoder.phases.data.fill_(-1.0)
    exact = encoder.rotate_keys(x.float(), positions)
    torch.testing.assert_close(encoder.bfloat16().rotate_keys(x.float(), positions), exact)
    assert encoder(torch.arange(5).half()).dtype == torch.float32


@pytest.mark.usefixtures("unchecked")
def test_wrong_shapes_are_refused() -> None:
    encoder = PoPEEncoder(4, 2)
    for shape in ((5, 4), (3, 5, 4), (2, 5, 8)):
        with pytest.raises(ValueError, match=r"x must have shape \(\*batch, "):
            encoder.rotate(torch.zeros(shape), torch.arange(5))
    for count in ((4,), (2, 1, 5), (3, 5), (5, 2)):
        with pytest.raises(ValueError, match=r"positions must have shape \(5,\)"):
            encoder.rotate_keys(torch.zeros(2, 2, 5, 4), torch.zeros(count))
    with pytest.raises(TypeError, match="floating-point"):
        encoder.rotate(torch.zeros(2, 2, 5, 4).long(), torch.arange(5))
    with pytest.raises(ValueError, match="num_heads must be"):
        PoPEEncoder(4, 0)
