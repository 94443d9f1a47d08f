"""Positions on grids and their sinusoidal embeddings."""

from collections.abc import Callable
from typing import Literal

import pytest
import torch

from nerf_posenc import (
    GridSinusoidalEncoder,
    SinusoidalEncoder,
    geometric_bands,
    grid_positions,
    preset,
)


def test_indices_count_row_by_row() -> None:
    positions = grid_positions((2, 3))
    assert positions.shape == (2, 3, 2)
    assert positions[1, 2].tolist() == [1, 2]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_ends_are_the_edges_as_in_siren(size: int) -> None:
    grid = grid_positions((size, 3), units="ends")
    assert torch.equal(grid[:, 0, 0], torch.linspace(-1, 1, size))
    assert torch.equal(grid[0, :, 1], torch.tensor([-1.0, 0.0, 1.0]))


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


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused() -> None:
    grid = GridSinusoidalEncoder
    for call, message in (
        (lambda: grid_positions(()), "one or more sizes"),
        (lambda: grid_positions((4, 3), units="each"), "units must be 'index'"),  # type: ignore[arg-type]
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
        GridSinusoidalEncoder(12, frequencies=geometric_bands(4))


MASK = torch.ones(1, 600, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    "table",
    [
        lambda: GridSinusoidalEncoder.preset("diffusers", 64).table((600, 2)),
        lambda: GridSinusoidalEncoder.preset("detr-normalized", 64).table((600, 2)),
        lambda: GridSinusoidalEncoder.preset("detr", 64).masked_table(MASK),
        lambda: SinusoidalEncoder(8).table(600, offset=0.5),
        lambda: grid_positions((600, 2), units="box"),
    ],
)
def test_tables_do_not_depend_on_the_default_dtype(table: Callable[[], torch.Tensor]) -> None:
    expected = table()
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.equal(table(), expected)
    finally:
        torch.set_default_dtype(torch.float32)
