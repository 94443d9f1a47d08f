"""Defects of other libraries' rotations, and their numbers without a line in the catalog."""

import math

import torch

from more.tools.library_numbers import small_vectors
from nerf_posenc import linear_bands
from nerf_posenc_attention import RotaryEncoder, alibi_slopes

VECTORS = small_vectors()


def test_axial_pixel_angles_are_those_of_rotary_embedding_torch() -> None:
    angles = torch.tensor(VECTORS["rotary_embedding_torch.axial_pixel"]["output"])
    rotary = RotaryEncoder(8, 2, frequencies=linear_bands(2, first=math.pi, last=math.pi * 5))
    grid = torch.cartesian_prod(torch.linspace(-1, 1, 2), torch.linspace(-1, 1, 3))
    ours = torch.stack(rotary(grid.view(2, 3, 2)))
    torch.testing.assert_close(ours, torch.stack([angles.cos(), angles.sin()]), atol=2e-6, rtol=0)


def test_slopes_are_those_of_x_transformers() -> None:
    for slopes in VECTORS["x_transformers.alibi_slopes"]["output"]:
        ours = alibi_slopes(len(slopes))
        torch.testing.assert_close(ours, torch.tensor(slopes), atol=1e-6, rtol=0)


def test_offsets_of_one_axis_do_not_reach_the_other() -> None:
    # rotary-embedding-torch caches the first axis' angles for the second: it gives 5, 6, 7.
    wrong = torch.tensor(VECTORS["rotary_embedding_torch.axial_offset_cache"]["output"])
    assert wrong[:, 0].tolist() == [5.0, 6.0, 7.0]
    positions = torch.cartesian_prod(torch.arange(3) + 5, torch.arange(3)).reshape(3, 3, 2)
    cosine, sine = RotaryEncoder(8, 2)(positions)
    angles = torch.atan2(sine, cosine)[0, :, 4:]
    expected = torch.tensor([0.0, 1.0, 2.0])[:, None] * torch.tensor([1.0, 1.0, 0.01, 0.01])
    torch.testing.assert_close(angles, expected, atol=1e-6, rtol=0)


def test_positions_of_half_precision_queries_stay_whole() -> None:
    # rotary-embedding-torch makes positions in bfloat16, where 257 is 256.
    wrong, right = torch.tensor(VECTORS["rotary_embedding_torch.bf16_pos"]["output"])
    queries = torch.ones(1, 300, 4)
    rotary = RotaryEncoder(4)
    torch.testing.assert_close(
        rotary.rotate(queries, torch.arange(300))[0, 257], right, atol=1e-6, rtol=0
    )
    half = rotary.rotate(queries.bfloat16(), torch.arange(300))[0, 257].float()
    torch.testing.assert_close(half, right, atol=8e-3, rtol=0)
    assert (wrong - right).abs().max() > 0.3
