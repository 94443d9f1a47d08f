"""Contraction, boxes and spherical harmonics."""

import math

import numpy as np
import pytest
import torch
from scipy.special import sph_harm_y

from nerf_posenc import SphericalHarmonicsEncoder, contract, normalize_box


@pytest.mark.parametrize("order", [2.0, math.inf])
def test_contraction_keeps_the_inside_and_ends_at_radius_2(order: float) -> None:
    directions = torch.nn.functional.normalize(torch.randn(200, 3), dim=-1)
    directions = directions / torch.linalg.vector_norm(directions, ord=order, dim=-1, keepdim=True)
    for radius, expected in ((0.5, 0.5), (1.0, 1.0), (2.0, 1.5), (1e6, 2.0)):
        norm = torch.linalg.vector_norm(
            contract(directions * radius, order=order), ord=order, dim=-1
        )
        torch.testing.assert_close(norm, torch.full_like(norm, expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("order", [2.0, math.inf])
def test_contraction_has_finite_derivatives_everywhere(order: float) -> None:
    points = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1e-30, 0.0, 0.0], [1e6, 2.0, 3.0]]
    x = torch.tensor(points, requires_grad=True)
    (slope,) = torch.autograd.grad(contract(x, order=order).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.square().sum(), x)
    assert slope.isfinite().all()
    assert second.isfinite().all()
    torch.testing.assert_close(slope[0].detach(), torch.ones(3))
    away = torch.tensor([[0.3, 0.2, -0.4], [2.0, 1.0, -3.0]], dtype=torch.float64)
    assert torch.autograd.gradgradcheck(lambda x: contract(x, order=order), away.requires_grad_())


def test_contraction_of_another_order_is_refused() -> None:
    with pytest.raises(ValueError, match="order must be 2 or infinity"):
        contract(torch.zeros(1, 3), order=1.0)


def test_boxes_are_mapped_to_the_unit_range() -> None:
    bounds = ((-3.0, 0.0), (5.0, 10.0))
    corners = torch.tensor([[-3.0, 0.0], [5.0, 10.0], [1.0, 5.0]])
    expected = torch.tensor([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0]])
    torch.testing.assert_close(normalize_box(corners, bounds), expected)
    torch.testing.assert_close(normalize_box(torch.tensor([4.0]), (0.0, 4.0)), torch.tensor([1.0]))
    for wrong, message in (
        (((0.0,), (0.0,)), "above its lower"),
        (((0.0,) * 3, (1.0,) * 3), "or 2"),
    ):
        with pytest.raises(ValueError, match=message):
            normalize_box(corners, wrong)


@pytest.mark.parametrize("condon_shortley", [True, False])
def test_spherical_harmonics_are_scipys(condon_shortley: bool) -> None:
    generator = np.random.default_rng(0)
    directions = generator.normal(size=(50, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    x, y, z = directions.T
    theta, phi = np.arccos(z), np.arctan2(y, x)
    encoder = SphericalHarmonicsEncoder(8, condon_shortley=condon_shortley)
    features = encoder(torch.from_numpy(directions)).numpy()
    for degree in range(8):
        for m in range(-degree, degree + 1):
            # scipy's complex harmonics hold the phase (-1)^m.
            complex_harmonic = sph_harm_y(degree, abs(m), theta, phi)
            part = complex_harmonic.imag if m < 0 else complex_harmonic.real
            sign = 1.0 if condon_shortley else (-1.0) ** m
            expected = sign * part * (math.sqrt(2) if m else 1.0)
            column = degree * degree + degree + m
            np.testing.assert_allclose(features[:, column], expected, atol=1e-12)


def test_spherical_harmonics_of_0_or_65_levels_are_refused() -> None:
    for levels in (0, 65):
        with pytest.raises(ValueError, match="num_levels must be 1 to 64"):
            SphericalHarmonicsEncoder(levels)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_points_however_far_are_contracted(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    x = torch.tensor([[largest, 0, 0], [largest, -largest, largest], [300, 400, 0]], dtype=dtype)
    for order in (2.0, math.inf):
        contracted = contract(x, order=order).double()
        norm = contracted.norm(dim=-1) if order == 2 else contracted.abs().amax(-1)
        exact = torch.tensor([2, 2, 2 - 1 / (500 if order == 2 else 400)], dtype=torch.float64)
        torch.testing.assert_close(norm, exact, rtol=4 * torch.finfo(dtype).eps, atol=0)
