"""Rotary embeddings: widths, orders, pairings and layouts that models differ in."""

import contextlib

import pytest
import torch
from torch import Tensor

from more.tools.library_numbers import arrays
from nerf_posenc import geometric_bands
from nerf_posenc_attention import (
    ROTARY,
    FourierSeriesRotaryEncoder,
    MixedRotaryEncoder,
    PoPEEncoder,
    RotaryEncoder,
    XPosEncoder,
    mrope_axes,
)
from nerf_posenc_attention.presets.row import RotaryPreset
from nerf_posenc_attention.rotation import Pairing


def rotated_pair(x: Tensor, y: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
    """The rotation of a pair, written as complex numbers in float64."""
    turned = torch.complex(x.double(), y.double()) * torch.polar(torch.ones_like(angle), angle)
    return turned.real, turned.imag


def test_unequal_widths_rotate_each_block_by_its_own_axis_and_bands() -> None:
    widths, positions = (4, 8, 6), torch.rand(5, 3, dtype=torch.float64) * 40
    rotary = RotaryEncoder(20, 3, axis_dims=widths)
    x = torch.randn(5, 20, dtype=torch.float64)
    start = 0
    for axis, width in enumerate(widths):
        for pair in range(width // 2):
            angle = positions[:, axis] * 10_000.0 ** (-2 * pair / width)
            column = start + 2 * pair
            expected = rotated_pair(x[:, column], x[:, column + 1], angle)
            rotated = rotary.rotate(x, positions)[:, column : column + 2]
            torch.testing.assert_close(rotated, torch.stack(expected, -1), atol=1e-12, rtol=0)
        start += width
    assert torch.equal(rotary.rotate(x, positions)[:, 18:], x[:, 18:])


def test_columns_of_a_pair_with_angles_of_their_own_are_right_in_every_mode() -> None:
    rotary = RotaryEncoder(8, pairing="half").double()
    x = torch.randn(5, 8, dtype=torch.float64, requires_grad=True)
    angles = torch.rand(5, 8, dtype=torch.float64)
    cosine, sine = angles.cos(), angles.sin()

    def plain(x: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=-1)
        return x * cosine + torch.cat([-b, a], dim=-1) * sine

    def ours(x: Tensor) -> Tensor:
        return rotary.rotate_with(x, cosine, sine)

    expected = plain(x)
    torch.testing.assert_close(ours(x), expected)
    torch.testing.assert_close(ours(x.detach()), expected.detach())
    torch.testing.assert_close(torch.vmap(ours)(x[None])[0], expected)
    toward = torch.randn(5, 8, dtype=torch.float64)
    gradients = [torch.autograd.grad(f(x), x, toward)[0] for f in (ours, plain)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("form", ["shared", "columns", "lists"])
def test_bands_may_be_shared_or_given_for_each_axis(form: str) -> None:
    first, second = torch.tensor([1.0, 0.3]), torch.tensor([0.7, 0.2])
    bands: dict[str, Tensor | list[Tensor]] = {
        "shared": first,
        "columns": torch.stack([first, second], -1),
        "lists": [first, second],
    }
    rotary = RotaryEncoder(8, 2, frequencies=bands[form])
    x, positions = torch.randn(6, 8), torch.rand(6, 2) * 9
    rotated = rotary.rotate(x, positions)
    for axis, own in enumerate((first, first if form == "shared" else second)):
        half = slice(4 * axis, 4 * axis + 4)
        alone = RotaryEncoder(4, frequencies=own).rotate(x[:, half], positions[:, axis])
        torch.testing.assert_close(rotated[:, half], alone, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("pairing", "partner"),
    [("interleaved", lambda c: c ^ 1), ("half", lambda c: (c + 6) % 12),
     ("axis-half", lambda c: (c // 6) * 6 + (c % 6 + 3) % 6)],
)  # fmt: skip
def test_a_column_is_mixed_with_its_partner_alone(pairing: Pairing, partner: object) -> None:
    rotary = RotaryEncoder(12, 2, pairing=pairing)
    positions = torch.tensor([[1.3, 2.1]])
    for column in range(12):
        x = torch.zeros(1, 12)
        x[0, column] = 1
        touched = rotary.rotate(x, positions)[0].nonzero().flatten().tolist()
        assert touched == sorted({column, partner(column)})  # type: ignore[operator]


def test_left_over_columns_are_not_rotated() -> None:
    partial = RotaryEncoder(16, axis_dims=(6,), pairing="half")
    x, positions = torch.randn(5, 16), torch.arange(5)
    rotated = partial.rotate(x, positions)
    assert partial.rotary_dim == 6
    assert torch.equal(rotated[:, 6:], x[:, 6:])
    alone = RotaryEncoder(6, pairing="half").rotate(x[:, :6], positions)
    assert torch.equal(rotated[:, :6], alone)


def test_sections_take_their_axis_from_one_series_of_bands() -> None:
    bands = geometric_bands(6, base=100.0)
    axes = mrope_axes((3, 2, 1))
    assert axes == (0, 0, 0, 1, 1, 2)
    rotary = RotaryEncoder(12, 3, pair_axes=axes, base=100.0)
    positions = torch.rand(4, 3, dtype=torch.float64) * 30
    cosine, _ = rotary(positions)
    expected = torch.cos(positions[:, list(axes)] * bands).repeat_interleave(2, -1)
    torch.testing.assert_close(cosine, expected, atol=1e-12, rtol=0)
    # A token of text has one position along all axes: there it is the plain rotary embedding.
    text = torch.arange(4)
    x = torch.randn(4, 12)
    plain = RotaryEncoder(12, base=100.0).rotate(x, text)
    torch.testing.assert_close(rotary.rotate(x, text[:, None].expand(-1, 3)), plain)


@pytest.mark.parametrize("pairing", ["interleaved", "half", "axis-half"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_both_layouts_of_heads_are_rotated_alike(pairing: Pairing, dtype: torch.dtype) -> None:
    rotary = RotaryEncoder(8, 2, pairing=pairing)
    x, positions = torch.randn(2, 3, 5, 8).to(dtype), torch.rand(5, 2) * 9
    heads_first = rotary.rotate(x, positions)
    heads_last = rotary.rotate(x.transpose(1, 2), positions, sequence_dim=-3)
    assert heads_last.dtype == dtype
    tolerance = 1e-6 if dtype == torch.float32 else 1e-2
    torch.testing.assert_close(
        heads_last.transpose(1, 2), heads_first, atol=tolerance, rtol=tolerance
    )
    assert torch.equal(rotary.rotate(x.transpose(1, 2), positions, sequence_dim=1), heads_last)


def test_prefix_tokens_are_left_alone_to_the_bit() -> None:
    rotary = RotaryEncoder(8, scale=1.3)
    x, positions = torch.randn(2, 3, 7, 8), torch.arange(5)
    rotated = rotary.rotate(x, positions, num_prefix=2)
    assert torch.equal(rotated[:, :, :2], x[:, :, :2])
    assert torch.equal(rotated[:, :, 2:], rotary.rotate(x[:, :, 2:], positions))


def test_each_sequence_may_have_positions_of_its_own() -> None:
    rotary = RotaryEncoder(8)
    x, positions = torch.randn(2, 3, 5, 8), torch.randint(0, 50, (2, 5))
    rotated = rotary.rotate(x, positions)
    for i in range(2):
        assert torch.equal(rotated[i], rotary.rotate(x[i], positions[i]))


@pytest.mark.parametrize("pairing", ["interleaved", "half", "axis-half", "tiled"])
def test_derivatives_are_those_of_the_plain_formula(pairing: Pairing) -> None:
    rotary = RotaryEncoder(14, 2, axis_dims=(4, 8), pairing=pairing)
    x = torch.randn(2, 3, 14, dtype=torch.float64, requires_grad=True)
    positions = torch.rand(3, 2, dtype=torch.float64) * 9

    def rotate(x: Tensor) -> Tensor:
        return rotary.rotate(x, positions)

    assert torch.autograd.gradcheck(rotate, x, fast_mode=True)
    assert torch.autograd.gradgradcheck(rotate, x, fast_mode=True)
    mapped = torch.func.vmap(rotate)(x)
    torch.testing.assert_close(mapped, rotate(x), atol=1e-14, rtol=0)
    with torch.no_grad():
        torch.testing.assert_close(rotate(x), mapped, atol=1e-14, rtol=0)


def test_mixed_frequencies_learn_from_both_axes() -> None:
    rotary = MixedRotaryEncoder(8, num_heads=2, generator=torch.Generator().manual_seed(0))
    out = rotary.rotate(torch.randn(2, 3, 8), torch.rand(3, 2))
    (out * torch.randn_like(out)).sum().backward()
    assert rotary.matrix.grad is not None
    assert bool((rotary.matrix.grad != 0).all())


def test_drawn_frequencies_are_at_right_angles_with_rope_vits_lengths() -> None:
    matrix = MixedRotaryEncoder(16, num_heads=3, base=10.0).matrix.detach()
    lengths = 10.0 ** (-4 * torch.arange(4) / 16)
    torch.testing.assert_close(matrix.norm(dim=-1), torch.cat([lengths, lengths]).expand(3, -1))
    dot = (matrix[:, :4] * matrix[:, 4:]).sum(-1)
    torch.testing.assert_close(dot, torch.zeros(3, 4), atol=1e-6, rtol=0)


def test_fope_has_the_authors_bands() -> None:
    bands = FourierSeriesRotaryEncoder(24, 2, trained_length=1024).frequency_bands[:, 0]
    expected = arrays()["fope/output_frequencies"][0]
    torch.testing.assert_close(bands, expected, atol=1e-6, rtol=0)


def positions_of(preset: RotaryPreset) -> Tensor:
    """Positions on the first grid that has as many sizes as the model's."""
    for shape in ((6,), (4, 6), (2, 4, 6)):
        with contextlib.suppress(ValueError):
            return preset.positions(shape)
    raise AssertionError(preset)


@pytest.mark.parametrize("name", sorted(ROTARY))
def test_presets_of_other_widths_keep_scores_relative(name: str) -> None:
    preset = ROTARY[name]
    encoder = RotaryEncoder.preset(name, dim=96)
    if encoder.pairing == "tiled":
        pytest.skip("V-JEPA 2's form is no rotation")
    positions = positions_of(preset).double()
    query, key = torch.randn(2, 1, 96).double()
    at, other = positions[1:2], positions[-1:]

    def score(shift: float) -> Tensor:
        return (encoder.rotate(query, at + shift) * encoder.rotate(key, other + shift)).sum()

    torch.testing.assert_close(score(3.7), score(0.0), atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    ("name", "entry", "shape"),
    [
        ("cogvideox", "cogvideox-1.5-rope", (3, 4, 5)),
        ("cogvideox-1.0", "cogvideox-rope", (3, 4, 5)),
        ("croco", "rope2d", (7, 9)),
        ("dinov3", "dinov3", (7, 9)),
        ("eva02", "eva02", (7, 9)),
        ("flux", "flux-repo", (3, 4, 5)),
        ("llama", "llama", (64,)),
        ("qwen2-vl-vision", "qwen2-vl-vision", (6, 10)),
        ("sam2", "sam2", (7, 9)),
        ("timm-pixel", "timm-axial-pixel", (7, 9)),
    ],
)
def test_positions_are_counted_as_the_model_counts_them(
    name: str, entry: str, shape: tuple[int, ...]
) -> None:
    positions = ROTARY[name].positions(shape).double()
    expected = arrays()[f"{entry}/positions"].double()
    torch.testing.assert_close(positions, expected, atol=1e-12, rtol=0)


def test_cogvideox_1_0_fits_upright_frames_by_their_height() -> None:
    # A frame of 60 x 40 patches is halved to the 30 rows of the model's grid, in its middle.
    positions = ROTARY["cogvideox-1.0"].positions((1, 60, 40))
    torch.testing.assert_close(positions[::40, 1], torch.arange(60).double() * 30 / 60)
    last = (12 + 20) * 39 / 40
    assert positions[0, 2] == 12
    assert positions[39, 2] == pytest.approx(last)


@pytest.mark.usefixtures("unchecked")
def test_mistakes_with_positions_and_heads_are_named() -> None:
    rotary = RotaryEncoder(8)
    x = torch.zeros(2, 10, 3, 8)
    with pytest.raises(ValueError, match=r"10 positions for 3 tokens.*sequence_dim=-3"):
        rotary.rotate(x, torch.arange(10))
    with pytest.raises(ValueError, match="sequence_dim must be one of the dimensions"):
        rotary.rotate(x, torch.arange(10), sequence_dim=-1)
    with pytest.raises(ValueError, match="do not fit x, whose leading"):
        rotary.rotate(x.transpose(1, 2), torch.zeros(5, 10))
    with pytest.raises(ValueError, match=r"positions must have shape \(\*batch, 2\)"):
        RotaryEncoder(8, 2).rotate(torch.zeros(4, 8), torch.arange(4))
    with pytest.raises(ValueError, match=r"each of 2 heads"):
        MixedRotaryEncoder(8, num_heads=2).rotate(torch.zeros(3, 5, 8), torch.zeros(5, 2))
    with pytest.raises(ValueError, match=r"7 positions for 10 tokens, of which 2 are a prefix"):
        rotary.rotate(x[0, :, 0], torch.arange(7), num_prefix=2)
    with pytest.raises(ValueError, match="num_prefix must be 0 or more"):
        rotary.rotate(x[0, :, 0], torch.arange(11), num_prefix=-1)
    for wrong in (x[0, :, 0].long(), x[0, :, 0].numpy()):
        with pytest.raises(TypeError, match="x must"):
            rotary.rotate(wrong, torch.arange(10))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"positions must be a torch\.Tensor"):
        rotary.rotate(x[0, :, 0], 10)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a size for each axis"):
        ROTARY["llama"].positions(5)  # type: ignore[arg-type]
    for call, message in (
        (lambda: RotaryEncoder.preset("dinov3", base=100.0), "bands of its own"),
        (lambda: rotary.rotate_with(x, *[torch.ones(3, 4)] * 2), "must both have 8 columns"),
        (lambda: RotaryEncoder(8, 2, axis_dims=(4, 6)), "add up to at most dim = 8"),
        (lambda: RotaryEncoder(8, 2, axis_dims=(3, 3)), "even widths"),
        (lambda: RotaryEncoder(8, 2, axis_order=(0, 0)), "axis_order must be a permutation"),
        (lambda: RotaryEncoder(7), "positive multiple of 2"),
        (
            lambda: RotaryEncoder(8, frequencies=geometric_bands(2)),
            r"one number for each pair, \[4\]",
        ),
        (lambda: RotaryEncoder(64)(torch.rand(2, 8, 10, 64)), r"width 64; use rotate\(x, pos"),
        (lambda: PoPEEncoder(8, 2)(torch.rand(2, 5, 8)), r"width 8; use rotate\(x, pos"),
        (lambda: RotaryEncoder(8, 3), "multiple of 2 \\* num_axes = 6"),
        (lambda: RotaryEncoder(8, pairing="both"), "pairing must be"),  # type: ignore[arg-type]
        (lambda: RotaryEncoder(8).rotate(torch.zeros(3, 6), torch.arange(3)), "length, 8"),
        (lambda: RotaryEncoder(8, 2, pair_axes=(0, 1, 2)), "axes from 0 to 1"),
        (lambda: RotaryEncoder(8, 2, pair_axes=(0, 1), axis_dims=(4, 4)), "pair_axes gives"),
        (lambda: mrope_axes((1, 2), interleaved=True), "none more than the first"),
        (lambda: RotaryEncoder.preset("dinov4"), "did you mean dinov3"),
        (lambda: ROTARY["wan"].positions((4, 4)), "grid has 3 sizes"),
        (lambda: ROTARY["qwen2-vl-vision"].positions((3, 4)), "sizes must be even"),
        (lambda: MixedRotaryEncoder(8, 3), "give matrix="),
        (lambda: XPosEncoder(8, num_axes=2), "for one axis"),
        (lambda: FourierSeriesRotaryEncoder(8, 2, trained_length=2), "no band has a cycle"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_without_positions_tokens_count_from_0() -> None:
    queries, rotary = torch.rand(2, 7, 3, 8), RotaryEncoder(8)
    for sequence_dim, length in ((-2, 3), (-3, 7)):
        counted = rotary.rotate(queries, torch.arange(length), sequence_dim=sequence_dim)
        assert torch.equal(rotary.rotate(queries, sequence_dim=sequence_dim), counted)
    with_prefix = rotary.rotate(queries, torch.arange(2), num_prefix=1)
    assert torch.equal(rotary.rotate(queries, num_prefix=1), with_prefix)
    with pytest.raises(ValueError, match="give positions, which have 2 axes"):
        RotaryEncoder(8, 2).rotate(queries)


@pytest.mark.parametrize("start", [0, 65_536, 1_000_000])
def test_far_positions_are_right_inside_bf16_autocast(start: int) -> None:
    positions = torch.arange(start, start + 50)
    with torch.autocast("cpu", torch.bfloat16):
        cosine, sine = RotaryEncoder(32)(positions)
    angles = positions.double()[:, None] * geometric_bands(16)
    assert (cosine[:, ::2].double() - angles.cos()).abs().max() < 3e-7
    assert (sine[:, ::2].double() - angles.sin()).abs().max() < 3e-7


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("encoder", [RotaryEncoder(8), XPosEncoder(8), MixedRotaryEncoder(8)])
def test_positions_as_arrays_are_told_how_to_become_tensors(encoder: RotaryEncoder) -> None:
    with pytest.raises(TypeError, match=r"positions must be a torch.Tensor.*torch\.from_numpy"):
        encoder(torch.rand(5, 2).numpy())


def test_mixed_frequencies_follow_the_default_type_as_all_rotary_embeddings_do() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        for encoder, axes in ((RotaryEncoder(8, 2), 2), (MixedRotaryEncoder(8), 2)):
            assert {part.dtype for part in encoder(torch.arange(6).view(3, axes))} == {
                torch.float64
            }
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("unchecked")
def test_tables_of_every_form_rotate_alike() -> None:
    rotary, positions = RotaryEncoder(8, 2), torch.rand(5, 2) * 9
    x = torch.randn(5, 8)
    expected = rotary.rotate(x, positions)
    # Interleaved pairs as diffusers rotates them, and as complex numbers, as LLaMA does.
    cosine, sine = rotary.tables(positions, "interleaved")
    turned = torch.stack([-x[:, 1::2], x[:, 0::2]], -1).flatten(-2)
    torch.testing.assert_close(x * cosine + turned * sine, expected)
    numbers = rotary.tables(positions, "complex")
    assert isinstance(numbers, Tensor)
    product = torch.view_as_complex(x.view(5, 4, 2)) * numbers
    torch.testing.assert_close(torch.view_as_real(product).flatten(-2), expected)
    # Halves as transformers rotates them, with the columns of each pair brought there.
    cosine, sine = rotary.tables(positions, "half")
    halves = torch.cat([x[:, 0::2], x[:, 1::2]], -1)
    turned = torch.cat([-halves[:, 4:], halves[:, :4]], -1)
    first, second = (halves * cosine + turned * sine).chunk(2, -1)
    torch.testing.assert_close(torch.stack([first, second], -1).flatten(-2), expected)
    with pytest.raises(ValueError, match="form must be"):
        rotary.tables(positions, "quarter")  # type: ignore[arg-type]
