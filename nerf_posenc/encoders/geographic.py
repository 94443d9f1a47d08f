"""Encoders of positions on the globe."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from nerf_posenc.core.bands import ratio_bands
from nerf_posenc.core.checks import require_coordinates, require_counts, require_positive
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.core.sinusoids import SinCos, sincos

if TYPE_CHECKING:
    from jaxtyping import Float

Unit = Literal["degrees", "radians"]
Kind = Literal["sphereC", "sphereC+", "sphereM", "sphereM+", "dfs"]

_NUM_TERMS = {"sphereC": 3, "sphereC+": 6, "sphereM": 5, "sphereM+": 8}


class Sphere2VecEncoder(Encoder):
    r"""Multi-scale encoding of a position on the globe that respects distances on it (Sphere2Vec).

    At each scale $f_s = 1 / (r_\min (r_\max / r_\min)^{s/(S-1)})$ products of sines and cosines of
    latitude and longitude, of which some or all are multiplied by the scale (Mai et al. 2023,
    arXiv:2306.17624). Space2Vec, for flat coordinates, is
    [FourierEncoder][nerf_posenc.FourierEncoder] with the same scales as bands.

    Args:
        num_scales: number S of scales, 1 or more.
        kind: ``"sphereC"`` (3 columns per scale), ``"sphereC+"`` (6), ``"sphereM"`` (5),
            ``"sphereM+"`` (8) or ``"dfs"``, all products of the sines and cosines of the two
            coordinates.
        unit: unit of the coordinates.
        min_radius: the smallest scale, by which angles in radians are divided whatever the unit
            of the coordinates; positive.
        max_radius: the largest scale.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> encoder = Sphere2VecEncoder(16, unit="degrees")
        >>> encoder(torch.tensor([[13.4, 52.5]])).shape
        torch.Size([1, 128])
    """

    children_in_repr = ("sincos",)

    def __init__(
        self,
        num_scales: int = 32,
        *,
        unit: Unit,
        kind: Kind = "sphereM+",
        min_radius: float = 1e-3,
        max_radius: float = 1.0,
    ) -> None:
        require_counts(num_scales=num_scales)
        require_positive(min_radius=min_radius, max_radius=max_radius)
        if kind not in (*_NUM_TERMS, "dfs") or unit not in ("degrees", "radians"):
            raise ValueError(
                f"kind must be one of {', '.join(_NUM_TERMS)} and dfs, and unit 'degrees' or "
                f"'radians'; got {kind!r} and {unit!r}"
            )
        per_scale = _NUM_TERMS.get(kind)
        width = 4 * num_scales**2 + 4 * num_scales if per_scale is None else num_scales * per_scale
        super().__init__(2, width)
        self.num_scales = num_scales
        self.kind = kind
        self.unit = unit
        self.min_radius = min_radius
        self.max_radius = max_radius
        ratio = (min_radius / max_radius) ** (1 / max(1, num_scales - 1))
        scales = ratio_bands(num_scales, first=1 / min_radius, ratio=ratio)
        one = torch.ones(1, dtype=torch.float64, device="cpu")
        radians_per_unit = math.pi / 180 if unit == "degrees" else 1.0
        bands = torch.cat([scales, one]) * radians_per_unit
        self.sincos = SinCos(2, bands, layout="pak")

    def forward(self, x: Float[Tensor, "*batch 2"]) -> Float[Tensor, "*batch out_dim"]:
        """Encode positions.

        Args:
            x: longitude and latitude, in this order and in the encoder's unit.

        Returns:
            Features in the type of the last cast, or ``x.dtype``; the columns of a scale together,
            those of sphereM+ being sine and cosine of the latitude, of the longitude, and four
            products.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If its last dimension is not 2.
        """
        require_coordinates(x, 2)
        # Phase, axis, band; the last band is the angle itself, which sphereM multiplies by.
        waves: Tensor = self.sincos(x, out_dtype=torch.promote_types(x.dtype, torch.float32))
        waves = waves.unflatten(-1, (2, 2, self.num_scales + 1))
        scaled, plain = waves[..., :-1], waves[..., -1:]
        (sin_lon, sin_lat), (cos_lon, cos_lat) = (part.unbind(-2) for part in scaled.unbind(-3))
        (sin_lon_1, _), (cos_lon_1, cos_lat_1) = (part.unbind(-2) for part in plain.unbind(-3))
        # Double Fourier sphere: all products of longitude's and latitude's waves, over all scales.
        if self.kind == "dfs":
            lon, lat = torch.cat([sin_lon, cos_lon], -1), torch.cat([sin_lat, cos_lat], -1)
            products = (lon[..., :, None] * lat[..., None, :]).flatten(-2)
            single = torch.stack([sin_lat, cos_lat, sin_lon, cos_lon], -1).flatten(-2)
            return torch.cat([products, single], -1).to(self.features_dtype(x))
        terms = [sin_lat]
        if self.kind.endswith("+"):
            terms += [cos_lat, sin_lon, cos_lon]
        if self.kind.startswith("sphereC"):
            terms += [cos_lat * cos_lon, cos_lat * sin_lon]
        else:
            terms += [
                cos_lat * cos_lon_1,
                cos_lat_1 * cos_lon,
                cos_lat * sin_lon_1,
                cos_lat_1 * sin_lon,
            ]
        return torch.stack(terms, -1).flatten(-2).to(self.features_dtype(x))

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        return (
            f"num_scales={self.num_scales}, out_dim={self.out_dim}, kind={self.kind!r}, "
            f"unit={self.unit!r}, min_radius={self.min_radius:g}, max_radius={self.max_radius:g}"
        )


def directions_from_degrees(lon_lat: Float[Tensor, "*batch 2"]) -> Float[Tensor, "*batch 3"]:
    """Unit vectors from the center of the globe, for spherical harmonics and directions.

    x points to longitude 0 on the equator, z to the North Pole. SatCLIP counts angles from
    the South Pole and longitude 180: its harmonics are those of the negated vectors.

    Args:
        lon_lat: longitude and latitude in degrees, in this order.

    Returns:
        ``(cos lat cos lon, cos lat sin lon, sin lat)``.

    Raises:
        TypeError: If the angles are not floating-point numbers.
        ValueError: If their last dimension is not 2.

    Examples:
        >>> directions_from_degrees(torch.tensor([45.0, 0.0])).round(decimals=3)
        tensor([0.7070, 0.7070, 0.0000])
    """
    require_coordinates(lon_lat, 2, name="lon_lat")
    one_degree = torch.tensor([math.pi / 180], dtype=torch.float64, device="cpu")
    waves = sincos(lon_lat, one_degree, layout="pak")
    sin_lon, sin_lat, cos_lon, cos_lat = waves.unbind(-1)
    return torch.stack([cos_lat * cos_lon, cos_lat * sin_lon, sin_lat], dim=-1)


def equal_earth(lon_lat: Float[Tensor, "*batch 2"]) -> Float[Tensor, "*batch 2"]:
    r"""Equal Earth projection, which GeoCLIP encodes: areas keep their proportions.

    Savric et al. 2018, The Equal Earth map projection, scaled so that x spans
    [-1, 1] and y about [-0.487, 0.487].

    Args:
        lon_lat: longitude and latitude in degrees, in this order. (GeoCLIP is given latitude
            and longitude.)

    Returns:
        x and y.

    Raises:
        TypeError: If the angles are not floating-point numbers.
        ValueError: If their last dimension is not 2.

    Examples:
        >>> equal_earth(torch.tensor([0.0, 0.0]))
        tensor([0., 0.])
    """
    require_coordinates(lon_lat, 2, name="lon_lat")
    # Coefficients of the polynomial of Savric, Patterson and Jenny (2018).
    a1, a2, a3, a4 = 1.340264, -0.081106, 0.000893, 0.003796
    lon = lon_lat[..., 0] * (math.pi / 180)
    sin_theta = math.sqrt(3) / 2 * directions_from_degrees(lon_lat)[..., 2]
    theta = torch.asin(sin_theta)
    # x is divided by dy / dtheta, which keeps areas equal.
    slope = 9 * a4 * theta**8 + 7 * a3 * theta**6 + 3 * a2 * theta**2 + a1
    # cos(theta), which is never negative here.
    x = 2 * math.sqrt(3) * lon * (1 - sin_theta * sin_theta).sqrt() / (3 * slope)
    y = a4 * theta**9 + a3 * theta**7 + a2 * theta**3 + a1 * theta
    # Degrees of the projected globe's half width, as GeoCLIP scales it.
    return torch.stack([x, y], dim=-1) * (66.50336 / 180)
