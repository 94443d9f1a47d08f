"""The core: bands, exact angles, layouts, derivatives."""

import math
from itertools import product
from typing import Literal

import pytest
import torch
from torch import Tensor

from nerf_posenc import FourierEncoder, GaussianEncoder, geometric_bands
from nerf_posenc.core import LAYOUTS, SinCos, column_labels, octave_bands, sincos, speed
from nerf_posenc.core.encoder import Encoder
from tests.oracles import sine_of_band, sine_of_octave

PHASES = ("sin", "cos")


def uniform(*shape: int, low: float = -1.0, high: float = 1.0, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator) * (high - low) + low


def test_octave_bands_double_from_the_base() -> None:
    bands = octave_bands(4, min_octave=-1, base=3.0)
    assert bands.dtype == torch.float64
    assert bands.tolist() == [1.5, 3.0, 6.0, 12.0]


def test_geometric_bands_have_wavelengths_from_2pi_towards_base_2pi() -> None:
    wavelengths = 2 * math.pi / geometric_bands(256)
    assert wavelengths[0] == pytest.approx(2 * math.pi)
    assert wavelengths[-1] == pytest.approx(10_000 ** (510 / 512) * 2 * math.pi)
    ratios = wavelengths[1:] / wavelengths[:-1]
    torch.testing.assert_close(ratios, torch.full_like(ratios, 10_000 ** (2 / 512)))


@pytest.mark.parametrize("octave", range(31))
@pytest.mark.parametrize("reach", [1.0, 1000.0])
def test_float32_error_stays_below_3e_7_at_every_octave_of_pi(octave: int, reach: float) -> None:
    x = uniform(4000, low=-reach, high=reach, seed=octave)
    features = sincos(x[:, None], octave_bands(1, min_octave=octave))
    for column, phase in enumerate(PHASES):
        error = features[:, column].double() - sine_of_octave(x, octave, phase)
        assert error.abs().max() <= 3e-7


@pytest.mark.parametrize("octave", range(0, 41, 8))
@pytest.mark.parametrize("base", [1.0, math.e, 0.1, 3 * math.pi])
@pytest.mark.parametrize("reach", [1.0, 1000.0])
def test_float32_error_is_within_its_bound_on_other_bases(
    octave: int, base: float, reach: float
) -> None:
    # The sentence of README.md and of `sine_of_fraction`; octaves of 1 have no second term.
    cycles = 0.0 if base == 1 else math.ldexp(base, octave) * reach / (2 * math.pi)
    bound = 3e-7 + 1.5e-15 * cycles
    x = uniform(100, low=-reach, high=reach, seed=octave)
    features = sincos(x[:, None], octave_bands(1, min_octave=octave, base=base))
    for column, phase in enumerate(PHASES):
        expected = sine_of_band(x, math.ldexp(base, octave), phase)
        assert (features[:, column].double() - expected).abs().max() <= bound


@pytest.mark.parametrize("octave", [0, 9, 20])
def test_float64_coordinates_are_encoded_in_float64(octave: int) -> None:
    x = uniform(500).double()
    features = sincos(x[:, None], octave_bands(1, min_octave=octave))
    assert features.dtype == torch.float64
    for column, phase in enumerate(PHASES):
        error = features[:, column] - sine_of_octave(x, octave, phase)
        assert error.abs().max() <= 1e-15


@pytest.mark.parametrize("base", [math.pi, 1.0, math.e])
def test_integer_positions_keep_their_digits(base: float) -> None:
    # float32 has no 2^24 + 1, and half a radian is no integer.
    positions = torch.tensor([[3], [2**24 + 1]])
    bands = octave_bands(3, min_octave=-1, base=base)
    expected = sincos(positions.double(), bands)
    torch.testing.assert_close(sincos(positions, bands), expected.float(), atol=3e-7, rtol=0)


def test_inside_autocast_the_error_is_the_same() -> None:
    x = uniform(1000, 3)
    table = SinCos(3, octave_bands(20))
    with torch.autocast("cpu", torch.bfloat16):
        inside = table(x)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, table(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32_and_only_the_output_is_cast(
    dtype: torch.dtype,
) -> None:
    x = uniform(100, 2).to(dtype)
    table = SinCos(2, octave_bands(18)).to(dtype)
    features = table(x)
    assert features.dtype == dtype
    assert torch.equal(features, SinCos(2, octave_bands(18))(x.float()).to(dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("phases", [("sin", "cos"), ("cos", "sin")])
def test_columns_stand_where_the_layout_puts_them(layout: str, phases: tuple[str, str]) -> None:
    x = uniform(5, 3)
    bands = torch.tensor([1.0, 0.7, 2.5, 11.0], dtype=torch.float64)
    features = sincos(x, bands, layout=layout, phases=phases)  # type: ignore[arg-type]
    labels = column_labels(3, 4, layout, phases)
    assert features.shape == (5, len(labels))
    for column, (band, phase, axis) in enumerate(labels):
        expected = sine_of_band(x[:, axis], float(bands[band]), phase)
        torch.testing.assert_close(features[:, column].double(), expected, atol=1e-6, rtol=0)


def test_layouts_are_all_nestings_of_band_phase_and_axis() -> None:
    assert sorted(LAYOUTS) == sorted(
        {"".join(p) for p in product("kpa", repeat=3) if len(set(p)) == 3}
    )


def test_each_axis_may_have_bands_of_its_own() -> None:
    x = uniform(6, 2)
    bands = torch.tensor([[1.0, 5.0], [2.0, 7.0]], dtype=torch.float64)
    features = sincos(x, bands, layout="apk").unflatten(-1, (2, 2, 2))
    for axis in range(2):
        alone = sincos(x[:, axis : axis + 1], bands[:, axis], layout="apk")
        torch.testing.assert_close(features[:, axis].flatten(1), alone)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("base", [math.pi, 1.0, math.e])
@pytest.mark.parametrize("side", ["front", "back"])
def test_chunks_of_rows_change_no_bit(
    monkeypatch: pytest.MonkeyPatch, layout: str, base: float, side: Literal["front", "back"]
) -> None:
    x, raw = uniform(301, 3).requires_grad_(), uniform(301, 2, seed=1)
    bands = octave_bands(4, base=base)
    table = SinCos(3, bands, layout=layout, phases=("cos", "sin"), raw_side=side)

    def features_and_gradient() -> tuple[Tensor, Tensor]:
        features = table(x, raw=raw)
        weight = uniform(*features.shape, seed=2)
        return features, torch.autograd.grad((features * weight).sum(), x)[0]

    whole, gradient = features_and_gradient()
    waves = table.recorded(x, torch.float32, None, None)
    assert torch.equal(whole, torch.cat([raw, waves] if side == "front" else [waves, raw], -1))
    monkeypatch.setattr(speed, "_CHUNK", 1000)
    monkeypatch.setattr(speed, "_GRADIENT_CHUNK", 1000)
    chunked, chunked_gradient = features_and_gradient()
    assert torch.equal(chunked, whole)
    torch.testing.assert_close(chunked_gradient, gradient)


def test_derivatives_reach_directions_and_raw_columns() -> None:
    x, raw = uniform(3, 2).double().requires_grad_(), uniform(3, 1).double().requires_grad_()
    basis = uniform(4, 2, seed=1).double().requires_grad_()
    for bands in (octave_bands(2), torch.tensor([2 * math.pi]).double()):
        table = SinCos(4, bands, layout="pka", raw_side="back")

        def encode(x: Tensor, basis: Tensor, raw: Tensor, table: SinCos = table) -> Tensor:
            return table(x, basis=basis, raw=raw)  # type: ignore[no-any-return]

        assert torch.autograd.gradcheck(encode, (x, basis, raw), check_batched_grad=True)
        assert torch.autograd.gradgradcheck(encode, (x, basis, raw))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("phases", [("sin", "cos"), ("cos", "sin")])
def test_first_second_and_forward_derivatives(layout: str, phases: tuple[str, str]) -> None:
    x = uniform(2, 2).double().requires_grad_()
    table = SinCos(2, octave_bands(3), layout=layout, phases=phases)  # type: ignore[arg-type]
    assert torch.autograd.gradcheck(table, x, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(table, x)


def test_derivatives_of_weighted_and_integrated_features() -> None:
    x = uniform(2, 2).double().requires_grad_()
    variance = uniform(2, 2, low=0.001, high=0.1).double().requires_grad_()
    weight = torch.tensor([1.0, 0.5], dtype=torch.float64, requires_grad=True)
    table = SinCos(2, octave_bands(2))

    def integrated(x: Tensor, variance: Tensor, weight: Tensor) -> Tensor:
        return table(x, variance=variance, weight=weight)  # type: ignore[no-any-return]

    assert torch.autograd.gradcheck(integrated, (x, variance, weight))
    assert torch.autograd.gradgradcheck(integrated, (x, variance, weight))


def test_transforms_agree_with_autograd() -> None:
    x = uniform(5, 3)
    table = SinCos(3, octave_bands(4))
    rows = torch.func.vmap(table)(x)
    assert torch.equal(rows, table(x))
    reverse = torch.func.vmap(torch.func.jacrev(table))(x)
    forward = torch.func.vmap(torch.func.jacfwd(table))(x)
    torch.testing.assert_close(reverse, forward)


def test_variance_gives_the_mean_over_a_gaussian() -> None:
    mean, variance = torch.tensor([[0.3, -0.8]]), torch.tensor([[0.01, 0.2]])
    generator = torch.Generator().manual_seed(0)
    draws = mean + variance.sqrt() * torch.randn(1_000_000, 2, generator=generator)
    bands = octave_bands(4, base=1.0)
    sampled = sincos(draws, bands).double().mean(0, keepdim=True)
    # The standard error of a mean of a million values of at most 1 is at most 1e-3.
    torch.testing.assert_close(
        sincos(mean, bands, variance=variance).double(), sampled, atol=5e-3, rtol=0
    )


def test_no_variance_is_the_plain_encoding() -> None:
    x = uniform(10, 2)
    bands = octave_bands(30)
    assert torch.equal(sincos(x, bands, variance=torch.zeros(10, 2)), sincos(x, bands))


def test_weights_multiply_both_phases_of_their_band() -> None:
    x = uniform(10, 2)
    weight = torch.tensor([1.0, 0.25, 0.0])
    features = sincos(x, octave_bands(3), layout="kpa", weight=weight)
    plain = sincos(x, octave_bands(3), layout="kpa")
    assert torch.equal(features, plain * weight.repeat_interleave(4))


def test_casts_do_not_reach_the_bands_and_the_state_dict_is_empty() -> None:
    x = uniform(50, 1)
    table = SinCos(1, octave_bands(25))
    expected = table(x)
    assert torch.equal(table.half().double().bfloat16()(x), expected)
    assert table.state_dict() == {}


def test_no_float32_coordinate_goes_missing_at_the_edges() -> None:
    x = torch.tensor([[0.0], [-0.0], [1.0], [-1.0], [0.5], [3.4e38], [1e-45]])
    features = sincos(x, octave_bands(1))
    expected = [[0, 1], [0, 1], [0, -1], [0, -1], [1, 0], [0, 1], [0, 1]]
    torch.testing.assert_close(features, torch.tensor(expected).float(), atol=2e-7, rtol=0)


def test_coordinates_that_are_not_finite_give_nan_in_their_own_columns() -> None:
    x = torch.tensor([[math.nan, 0.5], [math.inf, 0.5]])
    features = sincos(x, octave_bands(2), layout="akp")
    assert features[:, :4].isnan().all()
    assert features[:, 4:].isfinite().all()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(num_bands=-1), "num_bands must be 0 or more; got -1"),
        (dict(num_bands=3, base=0.0), "base must be finite and positive"),
        (dict(num_bands=3, base=math.inf), "base must be finite and positive"),
        (dict(num_bands=102), "leave the range"),
    ],
)
def test_octave_bands_refuse_what_they_cannot_make(
    arguments: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        octave_bands(**arguments)  # type: ignore[arg-type]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(in_dim=0), "in_dim must be 1 or more"),
        (dict(layout="abc"), "layout must be one of kpa"),
        (dict(phases=("sin", "sin")), "phases must be"),
        (dict(frequencies=torch.ones(2, 3, dtype=torch.float64)), r"frequencies must have shape"),
        (
            dict(frequencies=torch.tensor([math.nan], dtype=torch.float64)),
            "frequencies must be finite",
        ),
    ],
)
def test_sincos_tables_refuse_what_they_cannot_make(
    arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        SinCos(**{"in_dim": 2, "frequencies": octave_bands(3), **arguments})  # type: ignore[arg-type]


@pytest.mark.usefixtures("unchecked")
def test_shapes_that_do_not_fit_are_refused() -> None:
    table = SinCos(2, octave_bands(3))
    x = torch.zeros(4, 2)
    with pytest.raises(ValueError, match=r"x must have shape \(\*batch, 2\)"):
        table(torch.zeros(4, 3))
    with pytest.raises(ValueError, match=r"weight must have shape \(3,\)"):
        table(x, weight=torch.ones(2))
    with pytest.raises(ValueError, match="variance must have the shape of x"):
        table(x, variance=torch.ones(3, 2))


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("base", [math.pi, 1.0])
def test_compiled_whole_it_is_as_exact(base: float) -> None:
    table = SinCos(2, octave_bands(16, base=base))
    x = uniform(300, 2)
    compiled = torch.compile(table, fullgraph=True)
    torch.testing.assert_close(compiled(x), table(x), atol=3e-7, rtol=0)


@pytest.mark.usefixtures("unchecked")
def test_exported_it_takes_any_batch() -> None:
    table = SinCos(2, octave_bands(8))
    rows = torch.export.Dim("rows")
    program = torch.export.export(table, (uniform(4, 2),), dynamic_shapes=({0: rows},))
    x = uniform(9, 2)
    torch.testing.assert_close(program.module()(x), table(x), atol=3e-7, rtol=0)


@pytest.mark.parametrize("base", [math.pi, 1.0])
def test_on_the_meta_device_shapes_are_computed_and_the_way_back_loses_nothing(base: float) -> None:
    table = SinCos(2, octave_bands(3, base=base))
    x = torch.rand(5, 2)
    expected = table(x)
    assert table.to("meta")(torch.empty(5, 2, device="meta")).shape == (5, 12)
    constants = (table._cycles, table._omega)
    assert all(constant.device.type == "meta" for constant in constants)
    assert torch.equal(table.to_empty(device="cpu")(x), expected)


@pytest.mark.parametrize(
    "encoder",
    [
        FourierEncoder(2, 4),
        FourierEncoder(2, frequencies=geometric_bands(4)),
        GaussianEncoder(2, 16),
    ],
)
def test_stationary_encoders_have_products_of_the_offset_alone(encoder: Encoder) -> None:
    x, y, shift = torch.rand(3, 50, 2, dtype=torch.float64)
    products = (encoder(x) * encoder(y)).sum(-1)
    shifted = (encoder(x + shift) * encoder(y + shift)).sum(-1)
    torch.testing.assert_close(products, shifted, atol=1e-9, rtol=0)
