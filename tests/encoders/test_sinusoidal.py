"""Encoders of positions in a sequence."""

import math

import pytest
import torch

from nerf_posenc import GridSinusoidalEncoder, SinusoidalEncoder, geometric_bands
from tests.oracles import sine_of_band

# Worked by hand for dim 4 and base 100, positions 0 to 3.
TABLE = [
    [0, 1, 0, 1],
    [0.84147098, 0.54030231, 0.09983342, 0.99500417],
    [0.90929743, -0.41614684, 0.19866933, 0.98006658],
    [0.14112001, -0.9899925, 0.29552021, 0.95533649],
]


@pytest.mark.parametrize("dim", [1, 2, 5, 6, 33])
def test_sines_on_even_and_cosines_on_odd_columns(dim: int) -> None:
    positions = torch.tensor([0.0, 1.0, 2.5, -3.75, 1000.0])
    codes = SinusoidalEncoder(dim)(positions)
    assert codes.shape == (5, dim)
    for column in range(dim):
        band = 10_000 ** (-(column - column % 2) / dim)
        expected = sine_of_band(positions, band, "cos" if column % 2 else "sin")
        torch.testing.assert_close(codes[:, column].double(), expected, atol=4e-7, rtol=0)


def test_integers_are_exact_where_float32_is_not() -> None:
    position = 2**24 + 1
    codes = SinusoidalEncoder(8)(torch.tensor([position]))
    exact = torch.tensor([position], dtype=torch.float64)
    for column in range(8):
        band = float(geometric_bands(4)[column // 2])
        expected = sine_of_band(exact, band, "cos" if column % 2 else "sin")
        assert abs(codes[0, column].double() - expected[0]) < 3e-7


def test_tables_go_on_from_an_offset() -> None:
    encoder = SinusoidalEncoder(10)
    assert torch.equal(encoder.table(12)[5:], encoder.table(7, offset=5))
    assert encoder.table(0).shape == (0, 10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_codes_are_added_to_embeddings_in_their_type(dtype: torch.dtype) -> None:
    encoder = SinusoidalEncoder(6)
    embeddings = torch.rand(3, 9, 6).to(dtype)
    added = encoder.add_to(embeddings, offset=70_000)
    assert added.dtype == dtype
    assert torch.equal(added, embeddings + encoder.table(9, offset=70_000).to(dtype))


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="dim must be 1 or more; got 0"):
        SinusoidalEncoder(0)
    with pytest.raises(
        ValueError, match="frequencies must be 4 or more, half of the 8 columns; got 2"
    ):
        SinusoidalEncoder(8, frequencies=geometric_bands(2))
    with pytest.raises(ValueError, match="base must be finite and positive"):
        SinusoidalEncoder(4, base=-1.0)
    with pytest.raises(TypeError, match=r"length must be an integer; got \(4, 4\)"):
        SinusoidalEncoder(4).table((4, 4))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="length must be 0 or more"):
        SinusoidalEncoder(4).table(-1)
    with pytest.raises(ValueError, match=r"embeddings must have shape \(\*batch, length, 4\)"):
        SinusoidalEncoder(4).add_to(torch.zeros(2, 3, 5))


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("phases", [("sin", "cos"), ("cos", "sin")])
@pytest.mark.parametrize("offset", [1, -3, 0.5, 1000])
def test_the_shift_matrix_shifts(split: bool, phases: tuple[str, str], offset: float) -> None:
    encoder = SinusoidalEncoder(12, split=split, phases=phases)  # type: ignore[arg-type]
    positions = torch.arange(50, dtype=torch.float64)
    shifted = encoder(positions) @ encoder.shift_matrix(offset).T
    torch.testing.assert_close(shifted, encoder(positions + offset), atol=1e-11, rtol=0)


def test_shift_matrices_are_rotations_and_need_whole_pairs() -> None:
    encoder = SinusoidalEncoder(8)
    matrix = encoder.shift_matrix(5)
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(8, dtype=torch.float64))
    torch.testing.assert_close(matrix @ encoder.shift_matrix(2), encoder.shift_matrix(7))
    with pytest.raises(ValueError, match="use an even width"):
        SinusoidalEncoder(7).shift_matrix(1)


def test_similarity_is_the_sum_of_cosines_of_the_offset() -> None:
    encoder = SinusoidalEncoder(128)
    positions = torch.arange(256, dtype=torch.float64)
    similarity = encoder.similarity(positions, positions[128:129])[:, 0]
    offsets = positions - 128
    expected = torch.cos(offsets[:, None] * geometric_bands(64)).sum(-1)
    torch.testing.assert_close(similarity, expected)
    assert int(similarity.argmax()) == 128


def test_timestep_embeddings_of_odd_width_end_in_a_zero() -> None:
    codes = SinusoidalEncoder.timestep(9)(torch.tensor([3.0, 500.0]))
    assert torch.equal(codes[:, 8], torch.zeros(2))
    assert torch.equal(codes[:, :8], SinusoidalEncoder.timestep(8)(torch.tensor([3.0, 500.0])))
    with pytest.raises(ValueError, match="dim must be 4 or more"):
        SinusoidalEncoder.timestep(3)


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("shift", [0, 1, 0.5])
def test_timesteps_are_those_of_diffusers(flip: bool, shift: float) -> None:
    steps = torch.tensor([0.0, 3.0, 999.0]).double()
    encoder = SinusoidalEncoder.timestep(8, flip_sin_to_cos=flip, downscale_freq_shift=shift)
    angles = steps[:, None] * torch.exp(-math.log(10_000) * torch.arange(4).double() / (4 - shift))
    waves = [angles.cos(), angles.sin()] if flip else [angles.sin(), angles.cos()]
    torch.testing.assert_close(encoder(steps), torch.cat(waves, -1), atol=1e-10, rtol=0)


def blocks(name: str, height: int, width: int) -> list[torch.Tensor]:
    """Sines and cosines of rows and columns, as each library's documentation orders them."""
    bands = geometric_bands(2)
    rows = torch.arange(height).double()[:, None, None].expand(-1, width, 1) * bands
    columns = torch.arange(width).double()[None, :, None].expand(height, -1, 1) * bands
    parts = {"H": rows, "W": columns}
    order = {
        "timm": ["sinH", "sinW", "cosH", "cosW"],
        "timm-interleaved": ["sinH", "cosH", "sinW", "cosW"],
        "mae": ["sinW", "cosW", "sinH", "cosH"],
        "diffusers": ["sinW", "cosW", "sinH", "cosH"],
        "monai": ["sinW", "cosW", "sinH", "cosH"],
    }[name]
    return [getattr(torch, entry[:3])(parts[entry[3]]) for entry in order]


@pytest.mark.parametrize("name", ["timm", "timm-interleaved", "mae", "diffusers", "monai"])
def test_grids_have_the_orders_of_the_libraries(name: str) -> None:
    table = GridSinusoidalEncoder.preset(name, 8, base_size=None).table((3, 5))
    expected = torch.cat(blocks(name, 3, 5), -1)
    torch.testing.assert_close(table.double(), expected, atol=4e-7, rtol=0)


def test_tatp22_grids_interleave_each_axis_and_cut_at_the_width() -> None:
    table = GridSinusoidalEncoder.preset("tatp22", 6).table((2, 3))
    assert table.shape == (2, 3, 6)
    rows = SinusoidalEncoder(4).table(2)[:, None].expand(2, 3, 4)
    columns = SinusoidalEncoder(4).table(3)[None].expand(2, 3, 4)
    assert torch.equal(table, torch.cat([rows, columns], -1)[..., :6])


def test_columns_follow_the_order_of_the_axes() -> None:
    encoder = GridSinusoidalEncoder(12, 3, layout="apk", axis_order=(2, 0, 1))
    table = encoder.table((2, 3, 4))
    alone = SinusoidalEncoder(4, split=True)
    assert torch.equal(table[0, 0, :, :4], alone.table(4))
    assert torch.equal(table[:, 0, 0, 4:8], alone.table(2))
    assert torch.equal(table[0, :, 0, 8:], alone.table(3))
    with pytest.raises(ValueError, match="no preset 'vit'"):
        GridSinusoidalEncoder.preset("vit", 8)
    with pytest.raises(ValueError, match="shape must have 2 sizes"):
        GridSinusoidalEncoder(8).table((2, 3, 4))
    with pytest.raises(ValueError, match="num_axes must be 1 or more"):
        GridSinusoidalEncoder(8, 0)
