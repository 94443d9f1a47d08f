"""Encoders of the globe, of space and time, and of directions with roughness."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from nerf_posenc import (
    FourierEncoder,
    IntegratedDirectionalEncoder,
    KPlanesEncoder,
    Sphere2VecEncoder,
    SphericalHarmonicsEncoder,
    Time2VecEncoder,
    contract,
    period_bands,
)
from nerf_posenc.encoders import contract_gaussian, directions_from_degrees, equal_earth, uncontract


def unit_vectors(count: int) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(count, 3, dtype=torch.float64), dim=-1)


def test_harmonics_to_degree_40_are_orthonormal() -> None:
    # The product of two harmonics is a polynomial of degree 78, which this rule integrates exactly.
    nodes, weights = (torch.from_numpy(values) for values in np.polynomial.legendre.leggauss(40))
    longitude = torch.arange(80, dtype=torch.float64) * (2 * math.pi / 80)
    ring = torch.stack([longitude.cos(), longitude.sin()], -1)
    radius = (1 - nodes * nodes).sqrt()
    points = torch.cat(
        [radius[:, None, None] * ring, nodes[:, None, None].expand(-1, 80, 1)], -1
    ).reshape(-1, 3)
    features = SphericalHarmonicsEncoder(40)(points)
    area = weights.repeat_interleave(80) * (2 * math.pi / 80)
    gram = features.T @ (features * area[:, None])
    torch.testing.assert_close(gram, torch.eye(1600, dtype=torch.float64), atol=1e-9, rtol=0)


def test_harmonics_to_degree_40_are_right_to_1e_6_in_float32() -> None:
    directions = unit_vectors(500).float()
    directions[:3] = torch.tensor([[0.0, 0, 1], [0, 0, -1], [1e-4, 0, 1]])
    encoder = SphericalHarmonicsEncoder(40)
    error = encoder(directions).double() - encoder(directions.double())
    assert error.abs().max() <= 1e-6


def test_integrated_directions_are_means_over_a_von_mises_fisher_distribution() -> None:
    # Of the exact attenuation the encoding keeps exp(-l (l + 1) / (2 kappa)), which is near it
    # for large kappa (Ref-NeRF, equation 8).
    generator = torch.Generator().manual_seed(0)
    mean, kappa = torch.tensor([0.36, 0.48, 0.8], dtype=torch.float64), 60.0
    share = torch.rand(200_000, generator=generator, dtype=torch.float64)
    along = 1 + torch.log(share + (1 - share) * math.exp(-2 * kappa)) / kappa
    angle = 2 * math.pi * torch.rand(200_000, generator=generator, dtype=torch.float64)
    across = (1 - along * along).clamp(min=0).sqrt()
    first = torch.linalg.cross(mean, torch.tensor([1.0, 0, 0], dtype=torch.float64))
    first = first / first.norm()
    second = torch.linalg.cross(mean, first)
    samples = along[:, None] * mean + across[:, None] * (
        angle.cos()[:, None] * first + angle.sin()[:, None] * second
    )
    encoder = IntegratedDirectionalEncoder(3)
    expected = encoder(samples).mean(0)
    integrated = encoder(mean, roughness=torch.tensor([1 / kappa], dtype=torch.float64))
    torch.testing.assert_close(integrated, expected, atol=6e-3, rtol=0)


def test_degrees_become_unit_vectors() -> None:
    corners = torch.tensor([[0.0, 0], [90, 0], [180, 0], [0, 90], [0, -90]])
    expected = torch.tensor([[1.0, 0, 0], [0, 1, 0], [-1, 0, 0], [0, 0, 1], [0, 0, -1]])
    torch.testing.assert_close(directions_from_degrees(corners), expected, atol=1e-6, rtol=0)


def test_equal_earth_keeps_areas() -> None:
    lon_lat = (torch.rand(50, 2, dtype=torch.float64) - 0.5) * torch.tensor([340.0, 160.0])
    jacobian = torch.func.vmap(torch.func.jacrev(equal_earth))(lon_lat)
    stretch = torch.linalg.det(jacobian) / torch.cos(torch.deg2rad(lon_lat[:, 1]))
    torch.testing.assert_close(stretch, stretch[:1].expand(50), rtol=1e-5, atol=0)


@pytest.mark.parametrize("kind", ["sphereC", "sphereC+", "sphereM", "sphereM+", "dfs"])
def test_degrees_and_radians_give_the_same_features(kind: str) -> None:
    lon_lat = (torch.rand(20, 2, dtype=torch.float64) - 0.5) * torch.tensor([360.0, 180.0])
    kwargs = dict(kind=kind, min_radius=0.1)
    degrees = Sphere2VecEncoder(3, unit="degrees", **kwargs)(lon_lat)  # type: ignore[arg-type]
    radians = Sphere2VecEncoder(3, unit="radians", **kwargs)(  # type: ignore[arg-type]
        torch.deg2rad(lon_lat)
    )
    torch.testing.assert_close(degrees, radians, atol=1e-9, rtol=0)


def test_at_scale_1_sphere_c_is_the_unit_vector() -> None:
    lon_lat = (torch.rand(20, 2) - 0.5) * torch.tensor([360.0, 180.0])
    encoder = Sphere2VecEncoder(1, unit="degrees", kind="sphereC", min_radius=1.0)
    x, y, z = directions_from_degrees(lon_lat).unbind(-1)
    torch.testing.assert_close(encoder(lon_lat), torch.stack([z, x, y], -1), atol=1e-6, rtol=0)


def test_known_periods_repeat() -> None:
    encoder = FourierEncoder(2, bands=period_bands(24, 7))
    times = torch.tensor([[5.0, 3.0]])
    torch.testing.assert_close(encoder(times + torch.tensor([48.0, 70.0])), encoder(times))
    hour = 2 * math.pi * 5 / 24
    torch.testing.assert_close(
        encoder(times)[0, :2], torch.tensor([math.sin(hour), math.cos(hour)])
    )


def test_time2vec_is_linear_in_one_column_and_periodic_in_the_others() -> None:
    encoder = Time2VecEncoder(4)
    with torch.no_grad():
        encoder.weight.copy_(torch.tensor([[2.0], [1.0], [3.0], [0.5]]))
        encoder.bias.copy_(torch.tensor([0.1, 0.2, 0.3, 0.4]))
    tau = torch.linspace(-9, 9, 7)[:, None]
    expected = torch.cat(
        [2 * tau + 0.1, (tau + 0.2).sin(), (3 * tau + 0.3).sin(), (0.5 * tau + 0.4).sin()], -1
    )
    torch.testing.assert_close(encoder(tau), expected, atol=1e-6, rtol=0)


def test_uncontract_is_the_inverse_of_contract() -> None:
    x = torch.randn(200, 3, dtype=torch.float64) * 5
    torch.testing.assert_close(uncontract(contract(x)), x, atol=1e-9, rtol=1e-9)


def test_a_contracted_covariance_is_that_of_the_contracted_map() -> None:
    mean = torch.randn(20, 3, dtype=torch.float64) * 2
    factor = torch.randn(20, 3, 3, dtype=torch.float64)
    covariance = factor @ factor.mT
    jacobian = torch.func.vmap(torch.func.jacrev(contract))(mean)
    expected = jacobian @ covariance @ jacobian.mT
    contracted, spread = contract_gaussian(mean, covariance)
    torch.testing.assert_close(contracted, contract(mean))
    torch.testing.assert_close(spread, expected, atol=1e-9, rtol=1e-9)


def test_planes_give_their_nodes_at_the_nodes() -> None:
    encoder = KPlanesEncoder(3, 2, resolution=(3, 4, 5), reduce="concat")
    x = torch.tensor([[-1.0 + 2 * 1 / 2, -1.0 + 2 * 2 / 3, -1.0 + 2 * 3 / 4]])
    planes = dict(zip(encoder.pairs, encoder.planes, strict=True))
    nodes = [planes[0, 1][2 * 3 + 1], planes[0, 2][3 * 3 + 1], planes[1, 2][3 * 4 + 2]]
    torch.testing.assert_close(encoder(x)[0], torch.cat(nodes), atol=1e-6, rtol=0)


def test_planes_with_time_start_without_effect() -> None:
    encoder = KPlanesEncoder(4, 2, resolution=4)
    x = torch.rand(6, 4) * 2 - 1
    later = x.clone()
    later[:, 3] = torch.rand(6)
    torch.testing.assert_close(encoder(x), encoder(later))


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused() -> None:
    for call, message in (
        (lambda: Sphere2VecEncoder(2, unit="miles"), "unit 'degrees' or"),  # type: ignore[arg-type]
        (lambda: Sphere2VecEncoder(2, unit="degrees", kind="flat"), "kind must be one of"),  # type: ignore[arg-type]
        (lambda: IntegratedDirectionalEncoder(7), "num_degrees must be 1 to 6"),
        (
            lambda: IntegratedDirectionalEncoder(2)(torch.zeros(4, 3), roughness=torch.zeros(4)),
            r"roughness must have shape \(4, 1\)",
        ),
        (lambda: Time2VecEncoder(1), "a linear column and a sine"),
        (lambda: period_bands(24, 0), "period must be finite and positive"),
        (lambda: contract_gaussian(torch.zeros(2, 3), torch.zeros(2, 3)), "covariance must have"),
        (lambda: KPlanesEncoder(3, reduce="hexplane"), "with in_dim=4 'hexplane'"),
        (lambda: KPlanesEncoder(4, resolution=(4, 4)), "resolution one number or"),
        (
            lambda: KPlanesEncoder(3, 2, resolution=4).set_plane((0, 1), torch.zeros(2, 3, 4)),
            r"has shape \(2, 4, 4\)",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
