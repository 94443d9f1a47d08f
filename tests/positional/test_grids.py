"""Positions on grids, tables that are resized, and padded sentences."""

from typing import Literal

import pytest
import torch

from nerf_posenc import (
    GridSinusoidalEncoder,
    LearnedGridEncoder,
    geometric_bands,
    grid_positions,
    preset,
)
from nerf_posenc.positional import (
    LearnedAxialEncoder,
    MemN2NPositionEncoder,
    TemporalEncoder,
    augmented_positions,
    resize_positions,
)


def test_indices_count_row_by_row() -> None:
    positions = grid_positions((2, 3))
    assert positions.shape == (2, 3, 2)
    assert positions[1, 2].tolist() == [1, 2]


@pytest.mark.parametrize(("units", "spans"), [("box", (2, 2)), ("longer", (1, 2))])
def test_cells_fill_the_interval_of_their_units(
    units: Literal["box", "longer"], spans: tuple[int, int]
) -> None:
    centers = grid_positions((4, 8), units=units)
    assert torch.equal(grid_positions((4, 8), units=units, xy=True), centers.flip(-1))
    for axis, (size, span) in enumerate(zip((4, 8), spans, strict=True)):
        along = centers.select(1 - axis, 0)[:, axis]
        width = span / size
        torch.testing.assert_close(along.diff(), torch.full((size - 1,), width))
        assert along[0] == pytest.approx(-span / 2 + width / 2)


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


@pytest.mark.parametrize("widths", [None, (6, 10)])
def test_embeddings_have_the_type_that_was_asked_for(widths: tuple[int, int] | None) -> None:
    exact = GridSinusoidalEncoder(16, axis_dims=widths).table((3, 4))
    half = GridSinusoidalEncoder(16, axis_dims=widths, out_dtype=torch.bfloat16).table((3, 4))
    assert half.dtype == torch.bfloat16
    assert torch.equal(half, exact.bfloat16())


def test_padding_moves_no_position_of_what_is_not_padded() -> None:
    encoder = GridSinusoidalEncoder.preset("detr", 16)
    mask = torch.zeros(1, 5, 6, dtype=torch.bool)
    mask[:, :3, :4] = True
    padded = encoder.masked_table(mask)
    torch.testing.assert_close(padded[0, :3, :4], encoder.table((3, 4)), atol=1e-6, rtol=0)


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


def test_padded_stories_count_memories_from_their_own_last_one() -> None:
    encoder = TemporalEncoder(8, 4)
    inputs, outputs = torch.randn(2, 2, 5, 4)
    lengths = torch.tensor([5, 3])
    padded = encoder(inputs, outputs, lengths=lengths)
    for story, length in enumerate(lengths.tolist()):
        alone = encoder(inputs[story, :length], outputs[story, :length])
        for ours, expected, given in zip(padded, alone, (inputs, outputs), strict=True):
            torch.testing.assert_close(ours[story, :length], expected)
            assert torch.equal(ours[story, length:], given[story, length:])


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused() -> None:
    grid = GridSinusoidalEncoder
    for call, message in (
        (lambda: grid_positions(()), "one or more sizes"),
        (lambda: grid_positions((4, 3), units="each"), "units must be 'index'"),  # type: ignore[arg-type]
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
        (lambda: grid(8, axis_dims=(6, 4)), "2 even widths"),
        (lambda: grid(10, axis_dims=(5, 5)), "2 even widths"),
        (lambda: grid(8, base_size=(1, 2, 3)), "base_size must be one number or 2"),
        (lambda: grid(8, position_scale=0), "must be finite and positive"),
        (lambda: grid(8).masked_table(torch.ones(3, 3)), "mask must have shape"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match=r"mask must be boolean; .* mask > 0\.5"):
        grid(8).masked_table(torch.ones(1, 3, 3))


def simple_vit_3d(shape: tuple[int, int, int], dim: int) -> torch.Tensor:
    """vit-pytorch's posemb_sincos_3d: dim // 6 bands of each axis, and zeros behind them."""
    count = dim // 6
    omega = 10_000.0 ** -(torch.arange(count, dtype=torch.float64) / (count - 1))
    z, y, x = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in shape), indexing="ij")
    parts = [f(axis[..., None] * omega) for axis in (x, y, z) for f in (torch.sin, torch.cos)]
    joined = torch.cat(parts, dim=-1)
    return torch.nn.functional.pad(joined, (0, dim - joined.shape[-1]))


@pytest.mark.parametrize("dim", [64, 128, 192, 1024])
def test_columns_that_axes_do_not_share_evenly_are_zero(dim: int) -> None:
    ours = GridSinusoidalEncoder.preset("simple-vit", dim, 3).table((2, 3, 5))
    torch.testing.assert_close(ours.double(), simple_vit_3d((2, 3, 5), dim), atol=5e-7, rtol=0)
    # TRELLIS: the sines of an axis, then its cosines, of 10000 ** (-i / n).
    count = dim // 6
    bands = 10_000.0 ** -(torch.arange(count, dtype=torch.float64) / count)
    points = torch.tensor([[3, 1, 7], [0, 5, 2]])
    angles = points[..., None].double() * bands
    expected = torch.cat([angles.sin(), angles.cos()], dim=-1).flatten(-2)
    ours = preset("trellis", dim, 3)(points)
    torch.testing.assert_close(ours[:, : 6 * count].double(), expected, atol=5e-7, rtol=0)
    assert not ours[:, 6 * count :].any()


@pytest.mark.parametrize(
    ("name", "scale", "temperature", "offset", "normalizes"),
    [
        ("mmdet-detr", 6.283185307179586, 10_000, 0.0, True),
        ("mmdet-deformable-detr", 6.283185307179586, 10_000, -0.5, True),
        ("mmdet-dino", 6.283185307179586, 20, 0.0, True),
        ("detr", 1.0, 10_000, 0.0, False),
    ],
)
def test_each_model_of_mmdet_has_its_own_row(
    name: str, scale: float, temperature: int, offset: float, normalizes: bool
) -> None:
    rows, columns, half = 5, 7, 12
    y, x = torch.meshgrid(
        *(torch.arange(1, n + 1, dtype=torch.float64) for n in (rows, columns)), indexing="ij"
    )
    if normalizes:
        y, x = (scale * (p + offset) / (n + 1e-6) for p, n in ((y, rows), (x, columns)))
    k = torch.arange(half, dtype=torch.float64)
    powers = temperature ** (2 * (k // 2) / half)
    parts = [p[..., None] / powers for p in (y, x)]
    pairs = [torch.stack([p[..., 0::2].sin(), p[..., 1::2].cos()], -1).flatten(-2) for p in parts]
    ours = GridSinusoidalEncoder.preset(name, 2 * half).table((rows, columns))
    torch.testing.assert_close(ours.double(), torch.cat(pairs, -1), atol=1e-6, rtol=0)


def test_encoders_with_other_bands_print_otherwise() -> None:
    plain = GridSinusoidalEncoder(32, layout="apk", axis_order=(1, 0))
    texts = {repr(each) for each in (plain, preset("simple-vit", 32), preset("clay", 32))}
    assert len(texts) == 3


def test_a_grid_is_added_to_its_tokens() -> None:
    encoder, tokens = GridSinusoidalEncoder(12), torch.rand(2, 15, 12)
    expected = tokens + encoder.table((3, 5)).flatten(0, 1)
    assert torch.equal(encoder.add_to(tokens, (3, 5)), expected)
    with pytest.raises(ValueError, match=r"must have shape \(\*batch, 12, 12\)"):
        encoder.add_to(tokens, (3, 4))
    with pytest.raises(ValueError, match="1 to 3 bands for each of 2 axes; got 4"):
        GridSinusoidalEncoder(12, bands=geometric_bands(8))


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
