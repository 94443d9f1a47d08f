"""Bilinear, bicubic and Lanczos interpolation: what fits are compared with between the pixels."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from nerf_posenc.images import Image

if TYPE_CHECKING:
    from jaxtyping import Float

# Neighbors of a thin-plate spline: more change nothing visible, and the cost is cubic.
_NEIGHBORS = 24


def _bilinear(distance: Tensor) -> Tensor:
    return (1 - distance).clamp(min=0)


def _bicubic(distance: Tensor) -> Tensor:
    """Cubic convolution with a = -1/2 (Keys 1981, equation 15)."""
    near = (1.5 * distance - 2.5) * distance**2 + 1
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    return torch.where(distance < 1, near, torch.where(distance < 2, far, 0.0))


def _lanczos(distance: Tensor) -> Tensor:
    """Sinc times the main lobe of a sinc three times as wide (Duchon 1979)."""
    window = torch.where(distance < 3, torch.sinc(distance / 3), 0.0)
    return torch.sinc(distance) * window


INTERPOLATIONS: MappingProxyType[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {"bilinear": _bilinear, "bicubic": _bicubic, "lanczos": _lanczos}
)
"""Kernels by name, as functions of the distance in pixels."""


def interpolate(
    values: Float[Tensor, "height width channels"],
    rows: Float[Tensor, " out_height"],
    columns: Float[Tensor, " out_width"],
    method: str,
) -> Float[Tensor, "out_height out_width channels"]:
    """Interpolate an image at the crossings of rows and columns.

    At the edge the weights of the pixels that exist are scaled to sum to 1, as in Pillow.

    Args:
        values: values of the pixels.
        rows: y in pixels, the centers at 0, 1, ..., within a pixel of them.
        columns: x likewise.
        method: one of ``INTERPOLATIONS``.

    Raises:
        ValueError: If the method is unknown, or a row or column lies outside of the image.

    Examples:
        >>> pixels = torch.tensor([0.0, 1.0, 4.0]).reshape(1, 3, 1)
        >>> interpolate(pixels, torch.zeros(1), torch.tensor([0.5, 1.5]), "bilinear").flatten()
        tensor([0.5000, 2.5000])
    """
    if method not in INTERPOLATIONS:
        raise ValueError(f"no interpolation {method!r}; known are {', '.join(INTERPOLATIONS)}")
    kernel = INTERPOLATIONS[method]
    height, width, _ = values.shape
    by_row = _weights(rows, height, kernel, "rows").to(values)
    by_column = _weights(columns, width, kernel, "columns").to(values)
    # One axis after the other: einsum would first take the product of both weights.
    return torch.einsum("jw,iwc->ijc", by_column, torch.einsum("ih,hwc->iwc", by_row, values))


def _weights(positions: Tensor, size: int, kernel: Callable[[Tensor], Tensor], name: str) -> Tensor:
    """Weight of each pixel at each position, ``(positions, size)``, in float64."""
    positions = positions.double()
    if not bool(((positions > -1) & (positions < size)).all()):
        raise ValueError(f"{name} must be within one pixel of the image, which has {size}")
    weights = kernel((positions[:, None] - torch.arange(size, dtype=torch.float64)).abs())
    return weights / weights.sum(1, keepdim=True)


def interpolate_held_out(image: Image, method: str) -> Float[Tensor, "height width 3"]:
    """Interpolate the held-out pixels of an image from those that are fitted.

    Args:
        image: image with pixels held out.
        method: one of ``INTERPOLATIONS``.

    Raises:
        ValueError: If no pixels are held out, some of the fitted ones have no weight, or the
            method is unknown.
    """
    if image.fitted is not None and len(image.fitted) < image.num_pixels:
        raise ValueError("masked and missing pixels leave gaps; linear interpolates across them")
    if image.held_out is None:
        raise ValueError("the image has no pixels held out; see Image.split_held_out")
    # Held-out pixels lie diagonally between the fitted ones.
    width, height = image.held_out.size
    rows, columns = torch.arange(height) + 0.5, torch.arange(width) + 0.5
    return interpolate(image.rgb, rows, columns, method).clamp(0, 1)


def linear(image: Image) -> Float[Tensor, "height width 3"]:
    """Interpolate linearly in the triangles of the fitted pixels; outside, the nearest one."""
    from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator

    points, colors, places = _fitted(image)
    values = LinearNDInterpolator(points, colors)(places)
    outside = np.isnan(values[:, 0])
    values[outside] = NearestNDInterpolator(points, colors)(places[outside])
    return _as_image(values, image)


def radial(image: Image) -> Float[Tensor, "height width 3"]:
    """Interpolate by thin-plate splines through the nearest fitted pixels of each place."""
    from scipy.interpolate import RBFInterpolator

    points, colors, places = _fitted(image)
    spline = RBFInterpolator(points, colors, neighbors=min(_NEIGHBORS, len(points)))
    return _as_image(spline(places), image)


def _fitted(image: Image) -> tuple[Any, Any, Any]:
    """Coordinates and colors of the fitted pixels, and coordinates of all that are evaluated.

    Raises:
        ValueError: If the fitted pixels lie on one line, with no triangle between them.
    """
    fitted = slice(None) if image.fitted is None else image.fitted.numpy()
    points, places = (
        each.coordinates.reshape(-1, 2).double().numpy() for each in (image, image.evaluated)
    )
    points = points[fitted]
    if np.linalg.matrix_rank(points - points[:1]) < 2:
        raise ValueError("the fitted pixels lie on one line")
    return points, image.rgb.reshape(-1, 3).double().numpy()[fitted], places


def _as_image(values: Any, image: Image) -> Tensor:
    return torch.from_numpy(values).float().clamp(0, 1).reshape(image.evaluated.pixels.shape)
