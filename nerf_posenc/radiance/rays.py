"""Cameras, the rays through their pixels, and samples along rays.

Camera axes are OpenGL's: x right, y up, looking down -z. Pixel (column i, row j) has its centre at
(i + 0.5, j + 0.5), row 0 being the top.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from nerf_posenc.core.checks import require_counts

Distortion = tuple[int | float, int | float, int | float, int | float]
"""Radial k1, k2 and tangential p1, p2."""

# Newton's method on a lens settles in a few steps where it settles at all.
_LENS_ITERATIONS = 30
_LENS_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Camera:
    """Pinhole camera, with the distortion of OpenCV's lens model where there is any.

    Attributes:
        width: pixels.
        height: pixels.
        fx: focal length in pixels, horizontally.
        fy: focal length in pixels, vertically.
        cx: column of the principal point in pixels; ``width / 2`` is the middle.
        cy: row of the principal point in pixels.
        distortion: radial k1, k2 and tangential p1, p2 (OpenCV, "Camera calibration and 3D
            reconstruction"); all 0 for a pinhole.

    Raises:
        ValueError: where a size or a focal length is not positive, or a value not finite.

    Examples:
        >>> round(Camera.from_angle(4, 2, math.pi / 2).fx, 6)
        2.0
    """

    width: int
    height: int
    fx: int | float
    fy: int | float
    cx: int | float
    cy: int | float
    distortion: Distortion = (0.0, 0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        require_counts(width=self.width, height=self.height)
        if not (0 < self.fx < math.inf and 0 < self.fy < math.inf):
            raise ValueError(f"fx and fy must be finite and above 0; got {self.fx}, {self.fy}")
        if not all(math.isfinite(v) for v in (self.cx, self.cy, *self.distortion)):
            raise ValueError(
                f"cx, cy and distortion must be finite; got {self.cx}, {self.cy}, {self.distortion}"
            )

    @classmethod
    def from_angle(cls, width: int, height: int, angle_x: float) -> "Camera":
        """Make a pinhole camera from its horizontal field of view.

        Args:
            width: pixels.
            height: pixels.
            angle_x: rad, between 0 and pi.

        Raises:
            ValueError: where the angle is out of its range.
        """
        if not 0 < angle_x < math.pi:
            raise ValueError(f"the field of view must be between 0 and pi rad; got {angle_x}")
        focal = 0.5 * width / math.tan(0.5 * angle_x)
        return cls(width, height, focal, focal, width / 2, height / 2)

    def resized(self, width: int, height: int) -> "Camera":
        """Give the camera of the same view in other pixels."""
        x, y = width / self.width, height / self.height
        return replace(
            self,
            width=width,
            height=height,
            fx=self.fx * x,
            fy=self.fy * y,
            cx=self.cx * x,
            cy=self.cy * y,
        )

    def directions(self) -> Float[Tensor, "height width 3"]:
        """Direction through each pixel's centre in the camera's axes, with z = -1.

        Raises:
            ValueError: where the lens bends rays over one another, so that some pixel has none.
        """
        x = (torch.arange(self.width, dtype=torch.float64) + 0.5 - self.cx) / self.fx
        y = (torch.arange(self.height, dtype=torch.float64) + 0.5 - self.cy) / self.fy
        seen = torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1)
        if any(self.distortion):
            seen = undistort(seen, self.distortion)
        right, down = seen.unbind(-1)
        return torch.stack([right, -down, -torch.ones_like(right)], dim=-1).float()

    def project(self, points: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 2"]:
        """Column and row, in pixels, at which the camera sees points; NaN for those behind it.

        Args:
            points: in the camera's axes.
        """
        ahead = -points[..., 2:]
        flat = points[..., :2] / torch.where(ahead > 0, ahead, torch.nan)
        seen = flat * flat.new_tensor([1.0, -1.0])
        if any(self.distortion):
            seen = distort(seen, self.distortion)
        focal, centre = (self.fx, self.fy), (self.cx, self.cy)
        return seen * seen.new_tensor(focal) + seen.new_tensor(centre)


def distort(points: Float[Tensor, "*batch 2"], distortion: Distortion) -> Float[Tensor, "*batch 2"]:
    r"""Move points of the plane z = 1, x right and y down, to where a lens shows them.

    $x (1 + k_1 r^2 + k_2 r^4) + 2 p_1 x y + p_2 (r^2 + 2 x^2)$, and y alike with $p_1$ and
    $p_2$ in each other's place (OpenCV's model with four coefficients).

    Args:
        points: x and y.
        distortion: k1, k2, p1, p2.
    """
    k1, k2, p1, p2 = distortion
    x, y = points.unbind(-1)
    square = x * x + y * y
    radial = 1 + square * (k1 + k2 * square)
    return torch.stack(
        [
            x * radial + 2 * p1 * x * y + p2 * (square + 2 * x * x),
            y * radial + p1 * (square + 2 * y * y) + 2 * p2 * x * y,
        ],
        dim=-1,
    )


def undistort(
    points: Float[Tensor, "*batch 2"], distortion: Distortion
) -> Float[Tensor, "*batch 2"]:
    """Invert [distort][nerf_posenc.radiance.rays.distort], by Newton's method in float64.

    Args:
        points: x and y as the lens shows them.
        distortion: k1, k2, p1, p2.

    Raises:
        ValueError: where a point is not reached from any other, as far out under a strong lens.
    """
    k1, k2, p1, p2 = distortion
    target = points.double()
    found = target.clone()
    for _ in range(_LENS_ITERATIONS):
        x, y = found.unbind(-1)
        square = x * x + y * y
        radial, slope = 1 + square * (k1 + k2 * square), 2 * (k1 + 2 * k2 * square)
        xx = radial + slope * x * x + 2 * p1 * y + 6 * p2 * x
        yy = radial + slope * y * y + 6 * p1 * y + 2 * p2 * x
        xy = slope * x * y + 2 * p1 * x + 2 * p2 * y
        error_x, error_y = (distort(found, distortion) - target).unbind(-1)
        determinant = xx * yy - xy * xy
        step = torch.stack([yy * error_x - xy * error_y, xx * error_y - xy * error_x], dim=-1)
        found = found - step / determinant[..., None]
    residual = (distort(found, distortion) - target).abs()
    folds = determinant <= 0
    if not bool((residual < _LENS_TOLERANCE).all()) or bool(folds.any()):
        raise ValueError(
            f"the lens distortion {distortion} cannot be undone over the whole picture: it bends "
            "outer rays over inner ones; check k1, k2, p1, p2 or crop the picture"
        )
    return found


class Rays(NamedTuple):
    """Rays, one a row.

    Attributes:
        origins: where they start.
        directions: unit vectors.
        radii: radius of the pixel's cone at distance 1.
        background: colour behind each ray.
        seed: of the places of the samples; None for the same places each time.
    """

    origins: Float[Tensor, "n 3"]
    directions: Float[Tensor, "n 3"]
    radii: Float[Tensor, " n"]
    background: Float[Tensor, "n 3"]
    seed: int | None = None

    @classmethod
    def join(cls, parts: Iterable["Rays"]) -> "Rays":
        """Rays of several parts behind one another, with the seed of the first."""
        parts = list(parts)
        return cls(
            torch.cat([rays.origins for rays in parts]),
            torch.cat([rays.directions for rays in parts]),
            torch.cat([rays.radii for rays in parts]),
            torch.cat([rays.background for rays in parts]),
            parts[0].seed,
        )

    def rows(self, rows: slice | Tensor) -> "Rays":
        """Some of the rays."""
        parts = (self.origins[rows], self.directions[rows], self.radii[rows])
        return Rays(*parts, self.background[rows], self.seed)

    def to(self, device: torch.device | str) -> "Rays":
        """Give the same rays on a device."""
        parts = (self.origins.to(device), self.directions.to(device), self.radii.to(device))
        return Rays(*parts, self.background.to(device), self.seed)


def pixel_radii(directions: Float[Tensor, "height width 3"]) -> Float[Tensor, "height width"]:
    """Radius, at distance 1, of the cone that stands for each pixel.

    A disk of that radius has the variance of the pixel's square: its width times 2 / sqrt(12)
    (Barron et al. 2021, mip-NeRF, section 3.1).

    Args:
        directions: through the pixels' centres, with z = -1.
    """
    units = torch.nn.functional.normalize(directions, dim=-1)
    if directions.shape[1] > 1:
        widths = (units[:, 1:] - units[:, :-1]).norm(dim=-1)
        widths = torch.cat([widths, widths[:, -1:]], dim=1)
    else:
        widths = torch.zeros(directions.shape[:2])
    return widths * (2 / math.sqrt(12))


def box_interval(
    origins: Float[Tensor, "*batch 3"],
    directions: Float[Tensor, "*batch 3"],
    *,
    half_size: float = 1.0,
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """Distances at which rays enter and leave the cube [-half_size, half_size]^3.

    The slab test (Kay and Kajiya 1986).

    Args:
        origins: where the rays start; inside the cube they enter at 0.
        directions: of any length; distances are in multiples of it.
        half_size: half the edge of the cube.

    Returns:
        Near and far distances, equal for a ray that misses.
    """
    # A direction along a face divides 0 by 0 where the origin lies in it: such a ray is inside.
    inverse = 1 / directions
    first = torch.nan_to_num((-half_size - origins) * inverse, nan=-math.inf)
    second = torch.nan_to_num((half_size - origins) * inverse, nan=math.inf)
    near = torch.minimum(first, second).amax(-1).clamp(min=0)
    far = torch.maximum(first, second).amin(-1)
    misses = ~(far > near)
    return near.masked_fill(misses, 0.0), far.masked_fill(misses, 0.0)


def stratified_edges(
    near: Float[Tensor, "*batch"], far: Float[Tensor, "*batch"], num_samples: int
) -> Float[Tensor, "*batch edges"]:
    """Edges of equal intervals from near to far, ``num_samples + 1`` of them."""
    steps = torch.linspace(0, 1, num_samples + 1, device=near.device, dtype=near.dtype)
    return near[..., None] + (far - near)[..., None] * steps


def stratified_samples(
    edges: Float[Tensor, "*batch edges"], generator: torch.Generator | None = None
) -> Float[Tensor, "*batch samples"]:
    """One distance in each interval (Mildenhall et al. 2020, equation 2).

    Args:
        edges: rising along the last dimension.
        generator: to draw uniform places within the intervals; None for their middles.
    """
    low, high = edges[..., :-1], edges[..., 1:]
    if generator is None:
        return (low + high) / 2
    return low + (high - low) * _uniform(low.shape, generator, low)


def importance_samples(
    edges: Float[Tensor, "*batch edges"],
    weights: Float[Tensor, "*batch samples"],
    num_samples: int,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*batch new"]:
    """Distances from the piecewise-constant density that weights give (NeRF, section 5.2).

    The inverse of the cumulative distribution at stratified places. No gradient goes through.

    Args:
        edges: of the intervals, rising.
        weights: of the intervals, 0 or more; where all are 0 the intervals count by width.
        num_samples: how many to draw.
        generator: to draw the places; None for the middles of equal shares.

    Returns:
        Distances, rising.
    """
    weights, edges = weights.detach(), edges.detach()
    total = weights.sum(-1, keepdim=True)
    widths = (edges[..., 1:] - edges[..., :-1]).clamp(min=1e-12)
    share = torch.where(
        total > 1e-8, weights / total.clamp(min=1e-8), widths / widths.sum(-1, keepdim=True)
    )
    cumulative = torch.nn.functional.pad(share.cumsum(-1), (1, 0))
    cumulative = cumulative / cumulative[..., -1:]
    shape = (*weights.shape[:-1], num_samples)
    offsets = 0.5 if generator is None else _uniform(torch.Size(shape), generator, edges)
    places = (torch.arange(num_samples, device=edges.device) + offsets) / num_samples
    places = places.to(edges).expand(shape).contiguous()
    # The interval in which each place falls, and how far into it.
    upper = torch.searchsorted(cumulative[..., 1:-1].contiguous(), places, right=True)
    low, high = (torch.gather(cumulative, -1, upper + i) for i in (0, 1))
    start, end = (torch.gather(edges, -1, upper + i) for i in (0, 1))
    into = ((places - low) / (high - low).clamp(min=1e-12)).clamp(0, 1)
    return start + (end - start) * into


def cone_gaussians(
    edges: Float[Tensor, "*batch edges"],
    directions: Float[Tensor, "*batch 3"],
    radii: Float[Tensor, "*batch"],
) -> tuple[Float[Tensor, "*batch samples"], Float[Tensor, "*batch samples 3"]]:
    r"""Gaussians with the mean and the variances of the frustums between the edges.

    Barron et al. 2021, mip-NeRF, equations 7, 8 and 16, for unit directions.

    Args:
        edges: distances, rising.
        directions: unit vectors.
        radii: of the cones at distance 1.

    Returns:
        Mean distance of each frustum, and its variance along x, y and z.
    """
    middle = (edges[..., 1:] + edges[..., :-1]) / 2
    half = (edges[..., 1:] - edges[..., :-1]) / 2
    m2, h2 = middle.square(), half.square()
    denominator = (3 * m2 + h2).clamp(min=1e-12)
    mean = middle + 2 * middle * h2 / denominator
    along = h2 / 3 - (4 / 15) * h2.square() * (12 * m2 - h2) / denominator.square()
    across = m2 / 4 + (5 / 12) * h2 - (4 / 15) * h2.square() / denominator
    across = across * radii[..., None].square()
    squares = directions.square()[..., None, :]
    return mean, along[..., None] * squares + across[..., None] * (1 - squares)


def _uniform(shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
    return torch.rand(shape, generator=generator, device=like.device, dtype=like.dtype)
