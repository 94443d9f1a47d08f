"""Products of a plane and a line of trained features for each axis (TensoRF)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.checks import require_counts, require_positive
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.encoders.interpolation import (
    Corners,
    blurred,
    cells_from_positions,
    combine_corners,
    features_dtype,
    require_bounds,
    sides_from_nodes,
    unit_coordinates,
    weighted_rows,
)

if TYPE_CHECKING:
    from jaxtyping import Float

_STD = 0.1
# Lines that start around 0 would hide the planes from the first gradients.
_LINE_MEAN = 0.5


class VectorMatrixEncoder(Encoder):
    r"""For each axis, a line of trained features times a plane over the other two axes.

    The vector-matrix decomposition of a 3-D grid (Chen et al. 2022, TensoRF, equations 3 and 4):
    feature $r$ of axis $m$ at a point is $v^m_r(x_m)\,M^m_r(x_{\setminus m})$, each linearly
    interpolated. The grid of $N^3$ nodes takes $O(N^2)$ parameters.

    A fit may start on every ``stride``-th node and be refined: few nodes see many samples each,
    and are fitted in few steps. With the ``progress`` of a fit planes and lines are blurred by a
    Gaussian less and less, and poses are found from coarse to fine (Cheng et al. 2024,
    Joint-TensoRF).

    Args:
        features: number of features of each axis; there are three times as many in all.
        resolution: nodes along each axis, 2 or more; the first and the last lie on the edge of the
            bounds.
        stride: use each ``stride``-th node alone, until `refine` is called; it divides
            ``resolution - 1``.
        blur: standard deviation of the blur at a progress of 0, in units of the coordinate; it
            falls exponentially, to a quarter of the distance between nodes at 1.
        bounds: the box that the grid covers. Coordinates outside are moved to its edge.
        generator: random number generator of the initial features, normal with standard deviation
            0.1 around 0 in planes and around 0.5 in lines.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> encoder = VectorMatrixEncoder(8, resolution=65, stride=4)
        >>> encoder(torch.rand(5, 3)).shape
        torch.Size([5, 24])
        >>> encoder.refine(1)
    """

    takes_progress = True

    stride: Tensor

    def __init__(
        self,
        features: int = 16,
        *,
        resolution: int = 129,
        stride: int = 1,
        blur: float = 0.25,
        bounds: tuple[float, float] = (-1.0, 1.0),
        generator: torch.Generator | None = None,
    ) -> None:
        require_counts(features=features, resolution=resolution - 1, stride=stride)
        require_positive(blur=blur)
        require_bounds(bounds)
        super().__init__(3, 3 * features)
        self.resolution = resolution
        self.blur = blur
        self.bounds = bounds
        self._require_stride(stride)
        # Saved with the features; the number beside it spares a GPU from being waited for.
        self.register_buffer("stride", torch.tensor(stride))
        self.stride_in_use = stride
        planes = torch.randn(3, resolution, resolution, features, generator=generator)
        lines = torch.randn(3, resolution, features, generator=generator)
        self.planes = nn.Parameter(planes * _STD)
        self.lines = nn.Parameter(lines * _STD + _LINE_MEAN)

    def forward(
        self, x: Float[Tensor, "*batch 3"], *, progress: float | Float[Tensor, ""] | None = None
    ) -> Float[Tensor, "*batch out_dim"]:
        """Encode points.

        Args:
            x: points in the bounds, any batch shape.
            progress: progress of the fit, from 0 to 1; planes and lines are blurred less and less.
                None for sharp ones.

        Returns:
            Features, first those with lines along z, then y and x, in the type of the planes or of
            float64 coordinates.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If its last dimension is not 3.
        """
        features = self.interpolate(*self.corners(x), progress=progress)
        return features.reshape(*x.shape[:-1], self.out_dim)

    def corners(self, x: Float[Tensor, "*batch 3"]) -> tuple[Corners, Corners]:
        """Find the nodes that points are interpolated from, and their weights.

        For points that several encoders of the same resolution and stride encode.

        Args:
            x: points in the bounds, any batch shape, which is flattened.

        Returns:
            Corners in the planes and in the lines.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If its last dimension is not 3.
        """
        last = (self.resolution - 1) // self.stride_in_use
        position = unit_coordinates(x, 3, self.bounds) * last
        x, y, z = position.unbind(-1)
        # The plane over each two axes, and the line along the third.
        pairs = torch.stack([x, x, y, y, z, z]).unflatten(0, (2, 3))
        planes = self._corners(pairs, self.resolution)
        lines = self._corners(torch.stack([z, y, x])[None], 1)
        return planes, lines

    def _corners(self, position: Tensor, row_length: int) -> Corners:
        """Corners in the three planes or lines, which lie one after the other in a table."""
        dtype = torch.int32 if 3 * self.resolution**2 < 1 << 31 else torch.int64
        cell, weights = cells_from_positions(position, "linear", dtype)
        num_axes = len(position)
        last = (self.resolution - 1) // self.stride_in_use
        # One row per axis; made on the device, since a copy would make a GPU wait.
        factors = cell.new_full((num_axes, 1, 1), self.stride_in_use)
        factors[0] *= row_length
        sides = sides_from_nodes(cell.clamp(max=last), (cell + 1).clamp(max=last), factors)
        first_row = torch.arange(3, dtype=dtype, device=cell.device)[:, None]
        first_row = first_row * self.resolution**num_axes
        return Corners(combine_corners(sides, torch.add, first_row.add), weights)

    def interpolate(
        self, planes: Corners, lines: Corners, *, progress: float | Float[Tensor, ""] | None = None
    ) -> Float[Tensor, "n out_dim"]:
        """Encode points whose corners are known.

        Args:
            planes: corners in the planes, from `corners`.
            lines: corners in the lines.
            progress: progress of the fit, as in a call.

        Returns:
            Features, one row per point, in the type of the planes or of float64 coordinates.
        """
        plane_features: Tensor = self.planes
        line_features: Tensor = self.lines
        if progress is not None:
            low, high = self.bounds
            blur = partial(
                blurred,
                sigma=self.blur / (high - low),
                progress=progress,
                resolution=self.resolution,
            )
            stride = self.stride_in_use
            # Blur the planes along one axis, and then along the other.
            plane_features = blur(
                blur(plane_features[:, ::stride, ::stride]).transpose(1, 2)
            ).transpose(1, 2)
            line_features = blur(line_features[:, ::stride])
        across = weighted_rows(plane_features.flatten(0, 2), *planes)
        along = weighted_rows(line_features.flatten(0, 1), *lines)
        features = (across * along).transpose(0, 1).flatten(1)
        return features.to(features_dtype(planes.weights, self.planes))

    @torch.no_grad()
    def refine(self, stride: int) -> None:
        """Use each ``stride``-th node from now on; the encoding of a point stays what it is.

        The nodes that join are interpolated from those that were in use.

        Args:
            stride: no more than the present one, which it divides.

        Raises:
            ValueError: If it does not.
        """
        require_counts(stride=stride)
        self._require_stride(stride)
        old = self.stride_in_use
        if old % stride:
            raise ValueError(f"stride must divide the present one, {old}; got {stride}")
        size = (self.resolution - 1) // stride + 1
        # The nodes in use lie `stride` apart in tables of full size, so that checkpoints and the
        # optimizer's state keep their shapes; finer nodes begin between the coarse ones.
        planes = self.planes[:, ::old, ::old].permute(0, 3, 1, 2)
        lines = self.lines[:, ::old].permute(0, 2, 1)
        finer_planes = F.interpolate(planes, (size, size), mode="bilinear", align_corners=True)
        finer_lines = F.interpolate(lines, size, mode="linear", align_corners=True)
        self.planes[:, ::stride, ::stride] = finer_planes.permute(0, 2, 3, 1)
        self.lines[:, ::stride] = finer_lines.permute(0, 2, 1)
        self.stride.fill_(stride)
        self.stride_in_use = stride

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        if not self.stride.is_meta:
            self.stride_in_use = int(self.stride)

    def _require_stride(self, stride: int) -> None:
        if (self.resolution - 1) % stride:
            raise ValueError(
                f"stride must divide resolution - 1, which is {self.resolution - 1}; got {stride}"
            )

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        sizes = f"out_dim={self.out_dim}, resolution={self.resolution}"
        return f"{sizes}, stride={self.stride_in_use}, blur={self.blur:g}, bounds={self.bounds}"
