"""Ways to evaluate that must agree, and arguments at the edge of what is taken."""

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from nerf_posenc import FourierEncoder, GaussianEncoder, geometric_bands, octave_bands
from nerf_posenc.core import SinCos, dynamic_ntk_bands, ntk_bands, p_rope_bands, yarn_bands
from nerf_posenc.core.encoder import Encoder, inside_transform


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("base", [math.pi, 1.0])
def test_sines_are_taken_in_the_type_of_the_features(dtype: torch.dtype, base: float) -> None:
    # Angles are exact in float64 whatever the features; only their sines take time.
    x = torch.rand(6, 2, dtype=torch.float64)
    table = SinCos(2, octave_bands(3, base=base))
    assert table._evaluate(x, dtype).dtype == dtype
    torch.testing.assert_close(table(x, out_dtype=dtype), table(x).to(dtype))


def test_only_inside_a_transform_does_it_say_so() -> None:
    seen: list[bool] = []

    def noted(x: Tensor) -> Tensor:
        seen.append(inside_transform())
        return x * 2

    noted(torch.ones(2))
    torch.func.vmap(noted)(torch.ones(2))
    torch.func.jacrev(noted)(torch.ones(2))
    with forward_ad.dual_level():
        noted(torch.ones(2))
    noted(torch.ones(2))
    assert seen == [False, True, True, True, False]


@pytest.mark.parametrize("base", [math.pi, 1.0])
def test_on_the_meta_device_shapes_are_computed_and_the_way_back_loses_nothing(base: float) -> None:
    table = SinCos(2, octave_bands(3, base=base))
    x = torch.rand(5, 2)
    expected = table(x)
    assert table.to("meta")(torch.empty(5, 2, device="meta")).shape == (5, 12)
    constants = (table._cycles, table._offset, table._sign)
    assert all(constant.device.type == "meta" for constant in constants)
    assert torch.equal(table.to_empty(device="cpu")(x), expected)


@pytest.mark.parametrize(
    "encoder",
    [FourierEncoder(2, 4), FourierEncoder(2, bands=geometric_bands(8)), GaussianEncoder(2, 16)],
)
def test_stationary_encoders_have_products_of_the_offset_alone(encoder: Encoder) -> None:
    assert encoder.is_stationary
    x, y, shift = torch.rand(3, 50, 2, dtype=torch.float64)
    products = (encoder(x) * encoder(y)).sum(-1)
    shifted = (encoder(x + shift) * encoder(y + shift)).sum(-1)
    torch.testing.assert_close(products, shifted, atol=1e-9, rtol=0)


def test_octaves_are_ten_unless_told() -> None:
    # NeRF (Mildenhall et al. 2020), section 5.1: L = 10.
    assert FourierEncoder(3).out_dim == 3 * 2 * 10


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("x", [torch.tensor(0.5), torch.zeros(4, 1), torch.zeros(2, 3)])
def test_coordinates_need_a_last_dimension_of_their_number(x: Tensor) -> None:
    for encoder in (FourierEncoder(2, 3), GaussianEncoder(2, 4), SinCos(2, octave_bands(3))):
        with pytest.raises(ValueError, match=r"\(\*batch, 2\)"):
            encoder(x)


@pytest.mark.parametrize("dim", [2, 0, 5, 3])
def test_bands_are_only_scaled_in_even_widths_from_4_on(dim: int) -> None:
    for call in (
        lambda: ntk_bands(dim, factor=2.0),
        lambda: yarn_bands(dim, factor=2.0, trained_length=64),
        lambda: dynamic_ntk_bands(dim, length=9, trained_length=4),
    ):
        with pytest.raises(ValueError, match="dim must be an even number"):
            call()
    assert len(ntk_bands(4, factor=2.0)) == 2


@pytest.mark.parametrize("factor", [0.99, -1.0, math.inf, math.nan])
def test_bands_are_never_scaled_to_shorter_sequences(factor: float) -> None:
    for call in (
        lambda: ntk_bands(8, factor=factor),
        lambda: yarn_bands(8, factor=factor, trained_length=64),
    ):
        with pytest.raises(ValueError, match="factor must be 1 or more"):
            call()
    assert torch.equal(ntk_bands(8, factor=1.0), geometric_bands(8))
    for wrong in ({"trained_length": 0}, {"fast_cycles": 0.9}, {"slow_cycles": 0.0}):
        with pytest.raises(ValueError, match="0 < slow_cycles <= fast_cycles"):
            yarn_bands(8, factor=2.0, **{"trained_length": 64, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(("dim", "factor", "trained"), [(64, 4.0, 2048), (128, 16.0, 4096)])
def test_yarn_interpolates_slow_bands_and_keeps_fast_ones(
    dim: int, factor: float, trained: int
) -> None:
    # Peng et al. 2023, section 3.2: alpha = 1 and beta = 32 cycles over the trained length, and
    # the authors' code, whose ramp goes from the last band of 32 cycles or more to the first of
    # fewer than 1, both taken outward to whole bands.
    bands = geometric_bands(dim)
    found = yarn_bands(dim, factor=factor, trained_length=trained)
    cycles = trained * bands / (2 * math.pi)
    low = int((cycles >= 32).sum()) - 1
    high = int((cycles >= 1).sum())
    ramp = ((torch.arange(dim // 2).double() - low) / (high - low)).clamp(0, 1)
    torch.testing.assert_close(found, bands * (1 - ramp) + bands / factor * ramp)


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_all_or_none_of_the_pairs_may_be_rotated(fraction: float) -> None:
    assert torch.equal(p_rope_bands(8, fraction=fraction), geometric_bands(8) * fraction)
    with pytest.raises(ValueError, match="fraction must be 0 to 1"):
        p_rope_bands(8, fraction=-0.1)
