"""What an output of another implementation is found to be."""

import contextlib
import math

import pytest
import torch
from torch import Tensor

import nerf_posenc
from more.tests.audit.identified import EMBEDDINGS, ROTATIONS
from more.tools.library_numbers import expected, given
from nerf_posenc import FourierEncoder, GridSinusoidalEncoder, SinusoidalEncoder, grid_positions
from nerf_posenc.presets import FOURIER, GRID
from nerf_posenc_attention import ROTARY, MixedRotaryEncoder, RotaryEncoder
from nerf_posenc_audit import identify
from nerf_posenc_audit.catalog.equivalents import PRESET_ROWS
from nerf_posenc_audit.catalog.index import imports_of

# Thousands of candidates are compared; checks of shapes at run time would take most of the time.
pytestmark = pytest.mark.usefixtures("unchecked")

# Presets that are the same as an earlier one, on these positions and at this width.
ALIKE = {
    "rotary-embedding-torch": "roformer",
    "cogvideox-1.0": "cogvideox",
    "timm-rope": "eva02",
    "vggt": "croco",
    "kandinsky5": "cogvideox",
    "qwen-image": "flux",
}


def reproduced(line: str, **given: Tensor | None) -> Tensor:
    """What a line that was found gives."""
    names = {name: getattr(nerf_posenc, name) for name in dir(nerf_posenc)}
    names |= {"ROTARY": ROTARY, "torch": torch, **given}
    exec("\n".join(imports_of(line)), names)
    found: Tensor = eval(line, names)
    return found


def library_rotation(name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Positions of 64 tokens or so, a query, and what the library made of it."""
    line = f'RotaryEncoder.preset("{name}").rotate(q, positions)'
    vector = next(row.vector for row in PRESET_ROWS if row.line == line and row.vector)
    inputs = given(vector)
    return inputs["positions"], inputs["q"], expected(vector)


QUICK = ("llama3", "dinov3", "sam2")
# That every preset has its library's numbers is tested by the recipes.
SLOW = ("flux", "cogvideox", "vggt", "qwen3-vl-text", "pixtral", "cosmos", "flux2", "qwen-image")


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)])
def test_a_librarys_own_output_is_found(name: str) -> None:
    positions, before, after = library_rotation(name)
    best = identify(after, before=before, positions=positions)[0]
    assert best.is_exact
    assert best.name == ALIKE.get(name, name)
    assert best.changes == ()


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in ("flux", "wan", "sam2", "croco", "dinov3", "rope-vit-axial")
    ],
)
def test_swapped_axes_are_named(name: str) -> None:
    preset = ROTARY[name]
    shape = (7, 9) if RotaryEncoder.preset(name).in_dim == 2 else (3, 4, 5)
    positions = preset.positions(shape)
    wrong = positions.clone()
    wrong[:, -2:] = positions[:, -2:].flip(-1)
    before = torch.randn(len(positions), RotaryEncoder.preset(name).out_dim)
    after = RotaryEncoder.preset(name).rotate(before, wrong)
    best = identify(after, before=before, shape=shape, expected=name)[0]
    order = tuple(range(positions.shape[-1]))
    assert best.is_exact
    assert best.changes == (f"axes in the order {(*order[:-2], order[-1], order[-2])}",)


@pytest.mark.parametrize(
    ("arguments", "offset", "words"),
    [
        (dict(pairing="half"), 0, "pairing 'half'"),
        (dict(base=100.0), 0, "base 100"),
        ({}, 1, "positions +1"),
        (dict(scale=1.2), 0, "scale 1.2"),
        (dict(base=1000.0), 0, "base 1000"),
        (dict(base=777.0), 0, "base 777"),
    ],
)
def test_what_differs_from_the_expected_preset_is_named(
    arguments: dict[str, object], offset: int, words: str
) -> None:
    before = torch.randn(64, 64)
    encoder = RotaryEncoder(64, **arguments)  # type: ignore[arg-type]
    after = encoder.rotate(before, torch.arange(64) + offset)
    best = identify(after, before=before, shape=(64,), expected="roformer")[0]
    assert best.is_exact
    assert best.changes == (words,)


@pytest.mark.slow
def test_half_precision_and_rows_counted_from_1_are_recognized() -> None:
    preset = ROTARY["flux"]
    positions = preset.positions((6, 8))
    before = torch.randn(48, 128)
    half = RotaryEncoder.preset("flux").rotate(before.bfloat16(), positions)
    best = identify(half, before=before.bfloat16(), shape=(6, 8))[0]
    assert (best.name, best.is_exact) == ("flux", True)
    moved = RotaryEncoder.preset("flux").rotate(before, positions + torch.tensor([0, 1, 1]))
    best = identify(moved, before=before, shape=(6, 8), expected="flux")[0]
    assert best.is_exact
    assert best.changes == ("rows and columns +1",)
    torch.testing.assert_close(reproduced(best.line, before=before), moved, atol=1e-5, rtol=0)


UNNAMED = {**ROTATIONS, **EMBEDDINGS}
FAST = (
    "deepseek-v4",
    "hunyuan-image-3",
    "graphcast",
    "sam3 boxes",
    "signed bands",
    "descending positions",
)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in UNNAMED]
)
def test_encodings_without_a_preset_are_measured(name: str) -> None:
    given = UNNAMED[name]()
    best = identify(**given)[0]
    assert best.is_exact
    found = reproduced(best.line, before=given.get("before"), positions=given.get("positions"))
    torch.testing.assert_close(found, given["output"], atol=2 * best.tolerance, rtol=0)


@pytest.mark.parametrize("width", [5, 7, 33])
def test_odd_widths_are_found(width: int) -> None:
    best = identify(SinusoidalEncoder(width)(torch.arange(30)), shape=(30,))[0]
    assert (best.name, best.is_exact) == ("transformer", True)
    x = torch.rand(60, 1) * 2 - 1
    encoder = FourierEncoder(1, width // 2, include_input="front")
    assert identify(encoder(x), positions=x)[0].is_exact


def test_high_bands_may_be_off_by_the_rounding_of_their_angles() -> None:
    x = torch.rand(60, 3) * 2 - 1
    # As multinerf has it: cosines are sines of rounded angles.
    angles = (x[:, None] * 2.0 ** torch.arange(15)[:, None]).flatten(1)
    waves = torch.sin(torch.cat([angles, angles + math.pi / 2], dim=-1))
    best = identify(torch.cat([x, waves], dim=-1), positions=x)[0]
    assert (best.name, best.is_exact) == ("jaxnerf", True)


@pytest.mark.parametrize("is_half", [True, False])
def test_rotated_columns_may_be_the_last_with_slow_ones_among_them(is_half: bool) -> None:
    bands = torch.tensor([1.0, 0.5, 0.25, 0.1, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    encoder = RotaryEncoder(16, frequencies=bands, pairing="half" if is_half else "interleaved")
    before = torch.randn(40, 32)
    after = torch.cat([before[:, :16], encoder.rotate(before[:, 16:], torch.arange(40))], dim=-1)
    best = identify(after, before=before, positions=torch.arange(40))[0]
    found = reproduced(best.line, before=before, positions=torch.arange(40))
    torch.testing.assert_close(found, after, atol=1e-4, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_scale_is_found_in_half_precision(dtype: torch.dtype) -> None:
    before = torch.randn(60, 64).to(dtype)
    after = RotaryEncoder(64, scale=1.1386).rotate(before, torch.arange(60))
    best = identify(after, before=before, shape=(60,), expected="roformer")[0]
    assert best.is_exact
    assert best.changes[0].startswith("scale 1.13")


def test_a_base_is_found_on_two_axes() -> None:
    x = torch.rand(60, 2) * 2 - 1
    output = FourierEncoder(2, 4, base=3.0, include_input="front")(x)
    best = identify(output, positions=x)[0]
    assert best.is_exact
    assert best.changes[-1] == "base 3"


def test_a_line_has_all_the_digits_that_far_positions_need() -> None:
    positions = (torch.rand(60, 2) * 1e5).double()
    factor = torch.tensor([0.123456789, 0.987654321], dtype=torch.float64)
    before = torch.randn(60, 64)
    after = RotaryEncoder(64, 2).rotate(before, positions * factor)
    best = identify(after, before=before, positions=positions)[0]
    assert best.is_exact
    found = reproduced(best.line, before=before, positions=positions)
    torch.testing.assert_close(found, after, atol=best.tolerance, rtol=0)


@pytest.mark.parametrize("width", [6, 64])
def test_nothing_is_found_in_noise(width: int) -> None:
    noise, before = torch.randn(2, 24, width)
    for known in ({"shape": (24,)}, {"shape": (4, 6)}, {"positions": torch.rand(24, 3)}):
        assert not identify(noise, **known)[0].is_exact
        with contextlib.suppress(ValueError):  # A width of 6 is that of no preset of some axes.
            assert not identify(noise, before=before, **known)[0].is_exact


@pytest.mark.slow
def test_a_line_that_is_found_can_be_run() -> None:
    before = torch.randn(63, 64)
    positions = grid_positions((7, 9)).flatten(0, 1)
    after = RotaryEncoder(64, 2, base=100.0, pairing="half").rotate(before, positions.flip(-1))
    best = identify(after, before=before, shape=(7, 9))[0]
    torch.testing.assert_close(reproduced(best.line, before=before), after, atol=1e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FOURIER))
def test_encodings_of_coordinates_are_found(name: str) -> None:
    if FOURIER[name].arguments.get("frequencies", 0) is None:
        pytest.skip("its bands are the caller's")
    x = torch.rand(64, 3) * 2 - 1
    num_bands = FOURIER[name].arguments.get("num_bands", 6)
    output = FourierEncoder.preset(name, 3, num_bands)(x)
    best = identify(output, positions=x)[0]
    assert best.is_exact
    found = eval(best.line, dict(FourierEncoder=FourierEncoder, positions=x))
    torch.testing.assert_close(found, output, atol=1e-4, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(GRID))
def test_embeddings_of_grids_are_found_from_their_table(name: str) -> None:
    num_axes = 3 if name in ("cogvideox-sincos", "prithvi") else 2
    shape = (3, 4, 5) if num_axes == 3 else (7, 9)
    output = GridSinusoidalEncoder.preset(name, 32, num_axes).table(shape).flatten(0, -2)
    best = identify(output, shape=shape)[0]
    assert best.is_exact
    found = eval(best.line, dict(GridSinusoidalEncoder=GridSinusoidalEncoder))
    torch.testing.assert_close(found, output, atol=1e-4, rtol=0)


def test_a_table_whose_tokens_go_along_columns_is_named() -> None:
    # Ultralytics' RT-DETR: w and h of the map, "ij", flattened, beside tokens that go along rows.
    bands = 10_000.0 ** -(torch.arange(8) / 8)
    w, h = (axis.flatten()[:, None] * bands for axis in torch.meshgrid(
        torch.arange(9.0), torch.arange(7.0), indexing="ij"))  # fmt: skip
    table = torch.cat([w.sin(), w.cos(), h.sin(), h.cos()], dim=1)
    best = identify(table, shape=(7, 9), expected="rt-detr")[0]
    assert best.is_exact
    assert best.changes == ("columns counted before rows",)
    assert best.line.endswith(".table((9, 7)).flatten(0, -2)")


def test_embeddings_of_sequences_are_found() -> None:
    best = identify(SinusoidalEncoder(32, split=True).table(64, offset=1), shape=(64,))[0]
    assert best.is_exact
    assert (best.name, best.changes) == ("xlnet", ("positions +1",))
    timestep = SinusoidalEncoder.timestep(32)(torch.arange(64))
    assert identify(timestep, shape=(64,))[0].name == "whisper"


def test_embeddings_of_a_models_width_are_found() -> None:
    table = GridSinusoidalEncoder.preset("mae", 768).table((4, 5)).flatten(0, 1)
    assert identify(table, shape=(4, 5))[0].name == "mae"
    whisper = SinusoidalEncoder.preset("whisper", 512).table(20)
    assert identify(whisper, shape=(20,))[0].name == "whisper"


@pytest.mark.parametrize(
    ("name", "positions", "change"),
    [
        ("dinov3", grid_positions((8, 10)).flatten(0, 1), "positions counted as indices"),
        # An image after 32 tokens of text: nothing varies along the first axis.
        (
            "z-image",
            ROTARY["z-image"].positions((8, 10)) + torch.tensor([32, 0, 0]),
            "positions (32, 0, 0)",
        ),
    ],
)
def test_positions_that_are_counted_otherwise_are_named(
    name: str, positions: Tensor, change: str
) -> None:
    encoder = RotaryEncoder.preset(name)
    before = torch.randn(80, encoder.dim)
    after = encoder.rotate(before, positions)
    best = identify(after, before=before, shape=(8, 10), expected=name)[0]
    assert best.is_exact
    assert best.changes == (change,)


def test_the_nearest_is_given_and_said_not_to_be_it() -> None:
    before = torch.randn(64, 32)
    # Rotated by the sum of two positions, which no preset does.
    strange = MixedRotaryEncoder(32, matrix=torch.rand(16, 2)).rotate(
        before, grid_positions((8, 8)).flatten(0, 1)
    )
    best = identify(strange, before=before, shape=(8, 8))[0]
    assert not best.is_exact
    assert "is not the encoding" in str(best)


def test_what_does_not_fit_is_refused() -> None:
    x = torch.randn(6, 8)
    for call, message in (
        (lambda: identify(x, before=torch.randn(5, 8), shape=(6,)), r"\(length, width\)"),
        (lambda: identify(x, before=x), "give either shape"),
        (lambda: identify(x, shape=(7,)), "7 positions for 6 rows"),
        (lambda: identify(x, before=x, shape=(6,), expected="lama"), "did you mean llama"),
        (lambda: identify(x, before=x * math.nan, shape=(6,)), "before must hold finite numbers"),
        (lambda: identify(x, before=x * 0, shape=(6,)), "before is 0 everywhere"),
        (lambda: identify(x, positions=torch.ones(6)), "all positions are the same"),
        (lambda: identify(x[:1], shape=(1,)), "two rows or more"),
        (lambda: identify(x, positions=x[:, :2], expected="rff"), "bands of rff are the caller's"),
        (lambda: identify(x[:, :1], before=x[:, :1], shape=(6,)), "has a width of 1 "),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_modules_and_arrays_of_numpy_are_identified() -> None:
    cosines_first = SinusoidalEncoder(16, phases=("cos", "sin"))
    for table in (cosines_first, cosines_first.table(40), cosines_first.table(40).numpy()):
        (best, *_) = identify(table)
        assert (best.name, best.changes) == ("transformer", ("phases ('cos', 'sin')",))
        assert best.is_exact
