"""Pinhole cameras with lens distortion.

Camera axes are OpenGL's: x right, y up, looking down -z. Pixel (column i, row j) has its center at
(i + 0.5, j + 0.5), row 0 being the top.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from nerf_posenc.core.checks import require_counts

if TYPE_CHECKING:
    from jaxtyping import Float

Distortion = tuple[int | float, int | float, int | float, int | float]
"""Radial k1, k2 and tangential p1, p2."""

# Newton's method on a lens converges in a few steps if it converges at all.
_MOST_LENS_STEPS = 30
_LENS_TOLERANCE = 1e-9
_LENS_ROUNDING = 1e-14

# A ray of a larger slope is less than a millionth from the plane of the image.
_MAX_SLOPE = 1e6
_MAX_DISTORTION = 1e6


@dataclass(frozen=True)
class Camera:
    """Pinhole camera with optional lens distortion (OpenCV's model).

    Attributes:
        width: pixels.
        height: pixels.
        fx: focal length in pixels, horizontally.
        fy: focal length in pixels, vertically.
        cx: column of the principal point in pixels; ``width / 2`` is the center.
        cy: row of the principal point in pixels.
        distortion: radial k1, k2 and tangential p1, p2 (OpenCV, "Camera calibration and 3D
            reconstruction"); all 0 for a pinhole.

    Raises:
        ValueError: If a size or a focal length is not positive, or a value not finite or too large
            for any camera.

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
        # NaN fails every comparison.
        if not all(abs(v) <= _MAX_DISTORTION for v in self.distortion):
            raise ValueError(
                f"distortion must be finite, of at most {_MAX_DISTORTION:g}; got {self.distortion}"
            )
        for name, center, side, focal in (
            ("x", self.cx, self.width, self.fx),
            ("y", self.cy, self.height, self.fy),
        ):
            if not max(abs(center), abs(side - center)) / focal <= _MAX_SLOPE:
                raise ValueError(
                    f"c{name} must be finite, and f{name} no less than a millionth of its distance "
                    f"to the edge of the image; got {center} and {focal}"
                )

    @classmethod
    def from_angle(cls, width: int, height: int, angle_x: float) -> "Camera":
        """Make a pinhole camera from its horizontal field of view.

        Args:
            width: pixels.
            height: pixels.
            angle_x: rad, between 0 and pi.

        Raises:
            ValueError: If the angle is out of its range.
        """
        if not 0 < angle_x < math.pi:
            raise ValueError(f"the field of view must be between 0 and pi rad; got {angle_x}")
        focal = 0.5 * width / math.tan(0.5 * angle_x)
        return cls(width, height, focal, focal, width / 2, height / 2)

    def resized(self, width: int, height: int) -> "Camera":
        """Return the camera of the same view at another size in pixels."""
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

    def scaled(self, scale: float) -> "Camera":
        """Return the camera of the same view, with its image scaled by a factor."""
        return self.resized(max(1, round(scale * self.width)), max(1, round(scale * self.height)))

    def lens_steps(self) -> int:
        """Steps of Newton's method that `undistort` takes at most in the image; 0 for a pinhole.

        Raises:
            ValueError: If the distortion cannot be inverted at every pixel.
        """
        if not any(self.distortion):
            return 0
        x = (torch.arange(self.width, dtype=torch.float64) + 0.5 - self.cx) / self.fx
        y = (torch.arange(self.height, dtype=torch.float64) + 0.5 - self.cy) / self.fy
        points = torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1)
        return undistort(points, self.distortion)[1]

    def project(self, points: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 2"]:
        """Project points to column and row in pixels.

        Points behind the camera are NaN, as are those so far aside that the formula of the lens
        folds them back into the image.

        Args:
            points: points in camera axes.
        """
        ahead = -points[..., 2:]
        flat = points[..., :2] / torch.where(ahead > 0, ahead, torch.nan)
        flat = flat * flat.new_tensor([1.0, -1.0])
        if any(self.distortion):
            is_seen = flat.square().sum(-1, keepdim=True) < _fold(self.distortion)
            flat = distort(flat, self.distortion).where(is_seen, torch.nan)
        focal, center = (self.fx, self.fy), (self.cx, self.cy)
        return flat * flat.new_tensor(focal) + flat.new_tensor(center)


def _fold(distortion: Distortion) -> float:
    """Squared distance from the axis at which the distorted one begins to fall; infinite if never.

    The tangential terms, which are small, are left out.
    """
    k1, k2, *_ = distortion
    # d/dr of r (1 + k1 r^2 + k2 r^4) is 0.
    roots = np.roots([5 * k2, 3 * k1, 1])
    real = [float(root.real) for root in roots if root.imag == 0 and root.real > 0]
    return min(real, default=math.inf)


def distort(
    points: Float[Tensor, "*batch 2"], distortion: Distortion | Sequence[Float[Tensor, " *#batch"]]
) -> Float[Tensor, "*batch 2"]:
    r"""Apply lens distortion to points of the plane z = 1, x right and y down.

    $x (1 + k_1 r^2 + k_2 r^4) + 2 p_1 x y + p_2 (r^2 + 2 x^2)$, and the same for y with
    $p_1$ and $p_2$ exchanged (OpenCV's model with four coefficients).

    Args:
        points: x and y.
        distortion: k1, k2, p1, p2; numbers, or one of each point.
    """
    k1, k2, p1, p2 = distortion
    x, y = points.unbind(-1)
    square = x * x + y * y
    # 1 + k1 r^2 + k2 r^4, as OpenCV has it; the products below are its tangential terms.
    radial = 1 + square * (k1 + k2 * square)
    return torch.stack(
        [
            x * radial + 2 * p1 * x * y + p2 * (square + 2 * x * x),
            y * radial + p1 * (square + 2 * y * y) + 2 * p2 * x * y,
        ],
        dim=-1,
    )


def undistort(
    points: Float[Tensor, "*batch 2"],
    distortion: Distortion | Sequence[Float[Tensor, " *#batch"]],
    *,
    steps: int | None = None,
) -> tuple[Float[Tensor, "*batch 2"], int]:
    """Invert `distort` by Newton's method in float64.

    Args:
        points: distorted x and y.
        distortion: k1, k2, p1, p2; numbers, or one of each point.
        steps: steps of Newton's method, where it is known how many these lenses take: the result is
            not checked then, for which a GPU would be waited for. None for as many as it takes.

    Returns:
        The points, and the number of steps.

    Raises:
        ValueError: If a point has no preimage, as far from the axis of a strong lens.
    """
    k1, k2, p1, p2 = distortion
    target = points.double()
    point = target.clone()
    taken = 0
    while taken < (_MOST_LENS_STEPS if steps is None else steps):
        x, y = point.unbind(-1)
        square = x * x + y * y
        # The Jacobian of `distort`, which is symmetric: slope is d radial / d r^2, twice.
        radial, slope = 1 + square * (k1 + k2 * square), 2 * (k1 + 2 * k2 * square)
        xx = radial + slope * x * x + 2 * p1 * y + 6 * p2 * x
        yy = radial + slope * y * y + 6 * p1 * y + 2 * p2 * x
        xy = slope * x * y + 2 * p1 * x + 2 * p2 * y
        error_x, error_y = (distort(point, distortion) - target).unbind(-1)
        # Step = inverse of the Jacobian (xx, xy; xy, yy) times the error.
        determinant = xx * yy - xy * xy
        step = torch.stack([yy * error_x - xy * error_y, xx * error_y - xy * error_x], dim=-1)
        step = step / determinant[..., None]
        point = point - step
        taken += 1
        # Newton's error squares with each step, so that a step of this size leaves rounding alone.
        if steps is None and bool((step.abs() < _LENS_ROUNDING).all()):
            break
    if steps is not None:
        return point, steps
    residual = (distort(point, distortion) - target).abs()
    # Where the determinant changes its sign, the lens maps two points to one.
    folds = determinant <= 0
    if not bool((residual < _LENS_TOLERANCE).all()) or bool(folds.any()):
        raise ValueError(
            f"the lens distortion {distortion} cannot be undone over the whole image: it bends "
            "outer rays over inner ones; check k1, k2, p1, p2 or crop the image"
        )
    return point, taken
