"""Encoders of the globe, of space and time, and of directions with roughness."""

import pytest
import torch
from torch import Tensor

from nerf_posenc import (
    IntegratedDirectionalEncoder,
    KPlanesEncoder,
    Sphere2VecEncoder,
    SphericalHarmonicsEncoder,
    period_bands,
)
from nerf_posenc.encoders import contract_gaussian, directions_from_degrees, equal_earth


def unit_vectors(count: int) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(count, 3, dtype=torch.float64), dim=-1)


def test_harmonics_to_degree_40_are_right_to_1e_6_in_float32() -> None:
    directions = unit_vectors(500).float()
    directions[:3] = torch.tensor([[0.0, 0, 1], [0, 0, -1], [1e-4, 0, 1]])
    encoder = SphericalHarmonicsEncoder(40)
    error = encoder(directions).double() - encoder(directions.double())
    assert error.abs().max() <= 1e-6


def test_degrees_become_unit_vectors() -> None:
    corners = torch.tensor([[0.0, 0], [90, 0], [180, 0], [0, 90], [0, -90]])
    expected = torch.tensor([[1.0, 0, 0], [0, 1, 0], [-1, 0, 0], [0, 0, 1], [0, 0, -1]])
    torch.testing.assert_close(directions_from_degrees(corners), expected, atol=1e-6, rtol=0)


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


def test_sphere_m_multiplies_the_waves_of_a_scale_by_those_of_the_whole_globe() -> None:
    # Mai et al. 2023, equation 9, with all terms: SphereM+ for scales from 0.1 to 1.
    lon, lat = ((torch.rand(20, 2, dtype=torch.float64) - 0.5) * torch.tensor([6.2, 3.1])).unbind(1)
    x = torch.stack([lon, lat], -1)
    parts = []
    for scale in (0.1, 10**-0.5, 1.0):
        a, b = lon / scale, lat / scale
        parts += [b.sin(), b.cos(), a.sin(), a.cos()]
        parts += [b.cos() * lon.cos(), lat.cos() * a.cos()]
        parts += [b.cos() * lon.sin(), lat.cos() * a.sin()]
    encoder = Sphere2VecEncoder(3, unit="radians", kind="sphereM+", min_radius=0.1)
    torch.testing.assert_close(encoder(x), torch.stack(parts, -1), atol=1e-9, rtol=0)


def test_equal_earth_keeps_the_proportions_of_areas() -> None:
    lon_lat = (torch.rand(50, 2, dtype=torch.float64) - 0.5) * torch.tensor([360.0, 170.0])
    projected = equal_earth(lon_lat.requires_grad_())
    rows = [torch.autograd.grad(part.sum(), lon_lat, retain_graph=True) for part in projected.T]
    jacobian = torch.stack([row for (row,) in rows], 1)
    lon_lat = lon_lat.detach()
    # A degree of longitude is as wide as the cosine of the latitude.
    areas = torch.linalg.det(jacobian) / torch.deg2rad(lon_lat[:, 1]).cos()
    torch.testing.assert_close(areas, areas[:1].expand(50), rtol=1e-9, atol=0)
    corners = torch.tensor([[180.0, 0.0], [-180.0, 0.0], [0.0, 90.0]], dtype=torch.float64)
    found = equal_earth(corners)
    assert found[:2, 0].tolist() == pytest.approx([1.0, -1.0], abs=1e-6)
    assert found[2].tolist() == pytest.approx([0.0, 0.487], abs=1e-3)


def test_hexplane_multiplies_each_plane_by_that_of_the_other_axes() -> None:
    encoder = KPlanesEncoder(4, 1, resolution=2, reduce="hexplane")
    values = {(0, 1): 2.0, (0, 2): 3.0, (0, 3): 5.0, (1, 2): 7.0, (1, 3): 11.0, (2, 3): 13.0}
    for axes, value in values.items():
        encoder.set_plane(axes, torch.full((1, 2, 2), value))
    features = encoder(torch.rand(1, 4))[0].tolist()
    assert features == pytest.approx([2.0 * 13.0, 3.0 * 11.0, 7.0 * 5.0])


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
