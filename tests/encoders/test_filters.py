"""Filtered encodings: means over areas, against quadrature of the encoding itself."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nerf_posenc import FourierEncoder, GaussianEncoder
from nerf_posenc.encoders import Box, Lanczos, icosahedron_basis

ENCODERS = {
    "fourier": lambda: FourierEncoder(3, 5, include_input="front"),
    "ragged": lambda: FourierEncoder(3, (2, 4, 1), layout="kpa"),
    "lifted": lambda: FourierEncoder(3, 3, basis=icosahedron_basis()),
    "cosines": lambda: GaussianEncoder(3, 7, sigma=1.0, offsets=torch.rand(7)),
    "gaussian": lambda: GaussianEncoder(3, 7, sigma=1.5, matrix=torch.randn(7, 3).double()),
}


def mean_over_offsets(
    encoder: nn.Module, x: Tensor, line: Tensor, weight: Tensor, scale: Tensor
) -> Tensor:
    """Mean of the encoding over a product of one-dimensional rules around each point."""
    offsets = torch.cartesian_prod(line, line, line)
    weights = torch.cartesian_prod(weight, weight, weight).prod(-1)
    inner = x[:, None] + offsets * scale
    mean: Tensor = (encoder(inner) * weights[:, None]).sum(1)
    return mean


@pytest.mark.parametrize("make", ENCODERS.values(), ids=list(ENCODERS))
def test_a_box_gives_the_mean_over_it(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    encoder, x = make(), torch.rand(4, 3).double() * 2 - 1
    node, weight = (torch.from_numpy(t) for t in np.polynomial.legendre.leggauss(24))
    for width in (torch.full((4, 1, 3), 0.2).double(), torch.rand(4, 1, 3).double() * 0.3):
        expected = mean_over_offsets(encoder, x, node, weight / 2, width / 2)
        torch.testing.assert_close(encoder(x, filter=Box(width[:, 0])), expected)
    torch.testing.assert_close(
        encoder(x, filter=Box(0.2)), encoder(x, filter=Box(torch.full((3,), 0.2).double()))
    )


@pytest.mark.parametrize("lobes", [1, 2, 3])
def test_lanczos_gives_the_mean_weighted_by_its_kernel(lobes: int) -> None:
    encoder, x = FourierEncoder(1, 8), torch.rand(4, 1).double() * 2 - 1
    node = torch.linspace(-lobes, lobes, 40_001).double()[1:-1]
    kernel = torch.sinc(node) * torch.sinc(node / lobes)
    inner = encoder(x[:, None] + 0.03 * node[:, None])
    expected = (inner * (kernel / kernel.sum())[:, None]).sum(1)
    filtered = encoder(x, filter=Lanczos(0.03, lobes))
    torch.testing.assert_close(filtered, expected, atol=1e-6, rtol=0)


def test_lanczos_keeps_what_the_grid_can_show_and_drops_the_rest() -> None:
    pitch = 2 / 64
    omega = torch.pi / pitch * torch.tensor([0.0, 0.5, 2.0, 5.0, 1e3])
    response = Lanczos(pitch)(omega[:, None].double())
    torch.testing.assert_close(response[:2], torch.ones(2).double(), atol=0.03, rtol=0)
    assert response[2:].abs().max() < 0.01


def test_any_function_of_the_frequencies_is_a_filter() -> None:
    encoder, x = FourierEncoder(2, 4), torch.rand(5, 2)
    deviation = 0.05
    gaussian = encoder(
        x, filter=lambda omega: torch.exp(-0.5 * (omega * deviation).square().sum(-1))
    )
    torch.testing.assert_close(gaussian, encoder(x, variance=torch.full_like(x, deviation**2)))


def test_a_width_can_be_learned_and_half_features_are_filtered_in_float32() -> None:
    encoder, x = FourierEncoder(2, 4), torch.rand(3, 2).double()
    width = torch.rand(3, 2).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda w: encoder(x, filter=Box(w)), width)
    half = encoder(x.bfloat16(), filter=Box(0.1))
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(
        half.double(), encoder(x.bfloat16().double(), filter=Box(0.1)), atol=8e-3, rtol=0
    )


def test_a_filter_beside_a_variance_multiplies() -> None:
    encoder, x = FourierEncoder(2, 4), torch.rand(5, 2)
    variance = torch.full_like(x, 0.01)
    ratio = encoder(x, filter=Box(0.3)) / encoder(x)
    both = encoder(x, variance=variance, filter=Box(0.3))
    torch.testing.assert_close(both, encoder(x, variance=variance) * ratio)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("filter", [Box(0.1), Lanczos(0.1)])
def test_a_compiled_encoder_takes_a_filter(filter: Box | Lanczos) -> None:
    encoder, x = FourierEncoder(2, 3), torch.rand(5, 2)
    compiled = torch.compile(
        lambda x: encoder(x, filter=filter), fullgraph=True, backend="aot_eager"
    )
    torch.testing.assert_close(compiled(x), encoder(x, filter=filter))


@pytest.mark.usefixtures("unchecked")
def test_wrong_widths_are_refused() -> None:
    encoder, x = FourierEncoder(2, 4), torch.rand(8, 2)
    torch.testing.assert_close(
        encoder(x, filter=Box(torch.tensor(0.2))), encoder(x, filter=Box(0.2))
    )
    for width in (0.0, -0.1, math.nan, math.inf):
        with pytest.raises(ValueError, match="width must be"):
            Box(width)
    for shape in ((5, 2), (3, 8, 2)):
        with pytest.raises(ValueError, match=r"a filter must give factors of shape \(16,\)"):
            encoder(x, filter=Box(torch.ones(shape)))
    with pytest.raises(ValueError, match="a filter must give factors"):
        encoder(x, filter=lambda omega: torch.tensor(0.5))


@pytest.mark.usefixtures("unchecked")
def test_a_box_without_a_width_for_each_axis_is_refused() -> None:
    with pytest.raises(ValueError, match=r"width must be a number or have shape \(\*batch, 2\)"):
        FourierEncoder(2, 4)(torch.rand(5, 2), filter=Box(torch.ones(5)))


@pytest.mark.parametrize(
    ("pitch", "lobes"), [(0.0, 3), (-1.0, 3), (math.nan, 3), (1.0, 0), (1.0, 17)]
)
def test_a_lanczos_filter_without_extent_is_refused(pitch: float, lobes: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        Lanczos(pitch, lobes)
