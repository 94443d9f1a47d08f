"""Learned tables that are resized, augmented positions, and padded sentences."""

import pytest
import torch

from nerf_posenc import grid_positions
from nerf_posenc_attention import (
    LearnedAxialEncoder,
    LearnedGridEncoder,
    MemN2NPositionEncoder,
    augmented_positions,
    resize_positions,
)


def test_augmentation_moves_all_patches_alike() -> None:
    positions = grid_positions((5, 6), units="box").flatten(0, 1)
    generator = torch.Generator().manual_seed(0)
    factors, shifts = [], []
    for _ in range(300):
        moved = augmented_positions(
            positions, shift=0.1, jitter=1.5, rescale=2.0, generator=generator
        )
        scale = (moved[-1] - moved[0]) / (positions[-1] - positions[0])
        torch.testing.assert_close(
            moved, moved[:1] + (positions - positions[:1]) * scale, atol=1e-5, rtol=0
        )
        factors.append(scale)
        shifts.append(moved.mean(0) / scale)
    ratio = torch.stack(factors)
    assert 1 / 3 <= float(ratio.min()) < 0.5
    assert 2 < float(ratio.max()) <= 3
    # The anisotropy is the jitter's, since the rescaling is the same along both axes.
    between = ratio[:, 0] / ratio[:, 1]
    assert float(between.max()) <= 2.25
    assert 0.08 < float(torch.stack(shifts).abs().max()) <= 0.1001
    assert torch.equal(augmented_positions(positions), positions)


def test_rows_and_columns_have_embeddings_of_their_own() -> None:
    # PositionEmbeddingLearned of DETR: those of columns, then those of rows.
    encoder = LearnedAxialEncoder((6, 7), 8, axis_order=(1, 0))
    rows, columns = encoder.codes
    expected = torch.cat([columns[:5].expand(3, 5, 4), rows[:3, None].expand(3, 5, 4)], dim=-1)
    assert torch.equal(encoder.table((3, 5)), expected)
    added = LearnedAxialEncoder((2, 6, 7), 8, reduce="sum")
    first, second, third = added.codes
    whole = first[:, None, None] + second[:, None] + third
    assert torch.equal(added.table((2, 6, 7)), whole)
    added(torch.tensor([[0, 5, 6], [1, 5, 0]])).sum().backward()
    assert added.codes[1].grad is not None
    assert added.codes[1].grad.sum(1).tolist() == [0, 0, 0, 0, 0, 16]
    with pytest.raises(ValueError, match=r"at most \(6, 7\)"):
        encoder.table((7, 7))
    with pytest.raises(ValueError, match="divisible by 3"):
        LearnedAxialEncoder((2, 6, 7), 8)
    with pytest.raises(ValueError, match=r"below \[6, 7\]; got \[-1, 0\]"):
        encoder(torch.tensor([[3, 3], [-1, 0]]))
    with pytest.raises(ValueError, match=r"got \[6, 0\]"):
        encoder(torch.tensor([[6, 0]]))
    with pytest.raises(ValueError, match="each of 2 axes once"):
        LearnedAxialEncoder((6, 7), 8, axis_order=(1, 1))


def test_a_table_keeps_its_prefix_and_a_constant_when_it_is_resized() -> None:
    encoder = LearnedGridEncoder((4, 4), 3, num_prefix=2)
    with torch.no_grad():
        encoder.codes[2:] = 0.7
    resized = encoder.table((7, 9))
    assert resized.shape == (2 + 63, 3)
    assert torch.equal(resized[:2], encoder.codes[:2])
    torch.testing.assert_close(resized[2:], torch.full((63, 3), 0.7))
    embeddings = torch.zeros(2, 65, 3)
    assert torch.equal(encoder.add_to(embeddings, (7, 9))[1], resized)


def test_a_padded_sentence_has_the_weights_of_its_own_length() -> None:
    encoder = MemN2NPositionEncoder(4)
    embeddings = torch.randn(3, 6, 4)
    lengths = torch.tensor([6, 2, 0])
    weighted = encoder(embeddings, lengths=lengths)
    torch.testing.assert_close(weighted[0], encoder(embeddings[0]))
    torch.testing.assert_close(weighted[1, :2], encoder(embeddings[1, :2]))
    assert bool((weighted[1, 2:] == 0).all())
    assert bool((weighted[2] == 0).all())


def test_the_formula_in_circulation_has_twice_the_papers_weights() -> None:
    d, length = 6, 5
    k = torch.arange(1, d + 1)
    j = torch.arange(1, length + 1)[:, None]
    copied = 1 + 4 * (k - d / 2) * (j - length / 2) / (d * length)
    torch.testing.assert_close(MemN2NPositionEncoder(d, scale=2.0).table(length), copied)


def timm_resampled(
    positions: torch.Tensor, new: tuple[int, int], old: tuple[int, int], prefix: int
) -> torch.Tensor:
    """Timm's resample_abs_pos_embed, written from its description."""
    first, grid = positions[:, :prefix], positions[:, prefix:].float()
    image = grid.reshape(1, *old, -1).permute(0, 3, 1, 2)
    image = torch.nn.functional.interpolate(image, size=new, mode="bicubic", antialias=True)
    grid = image.permute(0, 2, 3, 1).reshape(1, new[0] * new[1], -1)
    return torch.cat([first, grid.to(positions.dtype)], dim=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_positions_of_a_checkpoint_are_resized_in_one_line(dtype: torch.dtype, prefix: int) -> None:
    square = torch.rand(1, prefix + 49, 8).to(dtype)
    assert torch.equal(resize_positions(square, (7, 7)), square)
    ours = resize_positions(square, (9, 5), antialias=True)
    assert torch.equal(ours, timm_resampled(square, (9, 5), (7, 7), prefix))
    oblong = torch.rand(prefix + 24, 8).to(dtype)
    ours = resize_positions(oblong, (6, 8), shape=(4, 6), antialias=True)
    assert torch.equal(ours, timm_resampled(oblong[None], (6, 8), (4, 6), prefix)[0])
    # DINOv2 scales by (new + 0.1) / old, without smoothing.
    ours = resize_positions(square, (9, 9), scale_offset=0.1)
    image = square[:, prefix:].float().reshape(1, 7, 7, 8).permute(0, 3, 1, 2)
    factor = float((9 + 0.1) / 7)
    expected = torch.nn.functional.interpolate(image, scale_factor=(factor, factor), mode="bicubic")
    grid = expected.permute(0, 2, 3, 1).reshape(1, 81, 8).to(dtype)
    assert torch.equal(ours[:, prefix:], grid)
    with pytest.raises(ValueError, match=r"is no square, .*; give shape="):
        resize_positions(torch.rand(1, 60, 8), (9, 9))


@pytest.mark.usefixtures("unchecked")
def test_a_side_alone_is_no_shape() -> None:
    with pytest.raises(TypeError, match=r"shape must be \(rows, columns\), as \(14, 14\); got 14"):
        LearnedGridEncoder(14, 768)  # type: ignore[arg-type]


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused() -> None:
    for call, message in (
        (lambda: augmented_positions(torch.zeros(1, 2), jitter=0.5), "1 or more"),
        (lambda: LearnedGridEncoder((4,), 3), r"shape must be \(rows, columns\)"),
        (lambda: LearnedGridEncoder((4, 4), 3).table((0, 4)), "1 or more"),
        (lambda: LearnedGridEncoder.from_table(torch.zeros(15, 3), (4, 4)), "15 embeddings"),
        (lambda: LearnedGridEncoder.from_table(torch.zeros(197, 3), (7, 14)), "7 x 14 = 98"),
        (
            lambda: LearnedGridEncoder.from_table(torch.zeros(17, 3), (4, 4), num_prefix=5),
            "5 tokens before",
        ),
        (lambda: LearnedGridEncoder.from_table(torch.zeros(2, 17, 3), (4, 4)), "table must have"),
        (
            lambda: LearnedGridEncoder((2, 2), 3).add_to(torch.zeros(1, 5, 3)),
            r"shape \(\*batch, 4, 3\)",
        ),
        (
            lambda: MemN2NPositionEncoder(4)(torch.rand(2, 3, 4), lengths=torch.tensor([2, 5])),
            "lengths must be numbers from 0 to 3",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
