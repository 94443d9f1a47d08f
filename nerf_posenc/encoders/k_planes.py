"""Planes of trained features for points in space, or in space and time.

Interpolation is twice differentiable.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from nerf_posenc.core.checks import whole
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.encoders.interpolation import (
    Interpolation,
    combine_corners,
    nodes_from_positions,
    positions_from_unit,
    require_bounds,
    require_interpolation,
    sides_from_nodes,
    table_dtype,
    unit_coordinates,
    weighted_rows,
)

if TYPE_CHECKING:
    from jaxtyping import Float


class KPlanesEncoder(Encoder):
    """One plane of trained features for each pair of axes.

    The features at the projections onto the planes are multiplied (K-Planes, Fridovich-Keil et
    al. 2023), added (tri-planes, Chan et al. 2022) or concatenated; or those of
    complementary planes are multiplied and the products concatenated (HexPlane, Cao and Johnson
    2023). With 4 axes the last one is time.

    Args:
        in_dim: number of axes, 2 or more; 4 for space and time.
        features: width of a node's row, 1 or more.
        resolution: nodes along each axis, 2 or more; one number or one for each axis.
        reduce: how the planes' features are combined: ``"product"``, ``"sum"``, ``"concat"``, or
            with 4 axes ``"hexplane"``.
        interpolation: ``"linear"`` or ``"smoothstep"``.
        bounds: the box that the planes cover. Coordinates outside are moved to its edge.
        align_corners: whether the first and the last node lie on the edges of the box; otherwise,
            as in the tri-planes of LRM and TripoSR, they lie half a cell inside, and what is
            beyond them counts as 0.
        generator: random number generator of the initial features. What is multiplied starts
            uniform in 0.1 to 0.5, or at 1 in planes with time; what is added or concatenated starts
            normal, with standard deviation 0.1.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> encoder = KPlanesEncoder(4, 16, resolution=(64, 64, 64, 20))
        >>> encoder(torch.rand(5, 4)).shape
        torch.Size([5, 16])
        >>> tri_planes = KPlanesEncoder(3, 16, resolution=128, reduce="sum")
        >>> tri_planes(torch.rand(5, 3)).shape
        torch.Size([5, 16])
    """

    children_in_repr = ("planes",)

    def __init__(
        self,
        in_dim: int = 4,
        features: int = 32,
        *,
        resolution: int | Sequence[int] = 64,
        reduce: Literal["product", "sum", "concat", "hexplane"] = "product",
        interpolation: Interpolation = "linear",
        bounds: tuple[float, float] = (-1.0, 1.0),
        align_corners: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        sizes = [*resolution] if isinstance(resolution, Sequence) else [resolution] * in_dim
        sizes = [whole(size, "resolution") for size in sizes]
        if in_dim < 2 or features < 1 or len(sizes) != in_dim or min(sizes) < 2:
            raise ValueError(
                "in_dim must be 2 or more, features 1 or more, and resolution one number or "
                f"in_dim numbers of 2 or more; got {in_dim}, {features} and {resolution}"
            )
        if reduce not in ("product", "sum", "concat", "hexplane") or (
            reduce == "hexplane" and in_dim != 4
        ):
            raise ValueError(
                "reduce must be 'product', 'sum', 'concat', or with in_dim=4 'hexplane'; got "
                f"{reduce!r}"
            )
        require_bounds(bounds)
        require_interpolation(interpolation)
        self.pairs = list(itertools.combinations(range(in_dim), 2))
        widths = {"concat": len(self.pairs), "hexplane": len(self.pairs) // 2}
        super().__init__(in_dim, features * widths.get(reduce, 1))
        self.resolution = tuple(sizes)
        self.reduce = reduce
        self.interpolation = interpolation
        self.bounds = bounds
        self.align_corners = align_corners
        self.planes = nn.ParameterList(
            torch.empty(sizes[a] * sizes[b], features) for a, b in self.pairs
        )
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the features; see the generator of the class."""
        for (_, last), plane in zip(self.pairs, self.planes, strict=True):
            if self.reduce in ("sum", "concat"):
                nn.init.normal_(plane, std=0.1, generator=generator)
            elif self.in_dim == 4 and last == 3:
                nn.init.ones_(plane)
            else:
                nn.init.uniform_(plane, 0.1, 0.5, generator=generator)

    def set_plane(
        self, axes: tuple[int, int], values: Float[Tensor, "features second first"]
    ) -> None:
        """Take a plane of another library's checkpoint.

        Args:
            axes: the pair, in ascending order.
            values: features of its nodes, the second axis along rows and the first along columns,
                as nerfstudio keeps them. (HexPlane's planes with time are transposed.)

        Raises:
            ValueError: If there is no such plane, or the shape differs.
        """
        if axes not in self.pairs:
            raise ValueError(f"axes must be one of {self.pairs}; got {axes}")
        index = self.pairs.index(axes)
        first, second = (self.resolution[axis] for axis in axes)
        shape = (self.planes[index].shape[1], second, first)
        if values.shape != shape:
            raise ValueError(
                f"the plane of the axes {axes} has shape {shape}; got {tuple(values.shape)}"
            )
        with torch.no_grad():
            self.planes[index].copy_(values.flatten(1).T)

    def forward(self, x: Float[Tensor, "*batch in_dim"]) -> Float[Tensor, "*batch out_dim"]:
        """Encode points.

        Args:
            x: points in the bounds, any batch shape.

        Returns:
            Features in the type of the planes; of float64 coordinates in float64, if the module was
            not cast.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If its last dimension is not ``in_dim``.
        """
        if not self._is_looked_at:
            self.look_at(x, self.bounds[1] - self.bounds[0])
        # Filled on the device: a copy from the host would make a GPU wait.
        size = torch.stack([torch.full((1, 1), n, device=x.device) for n in self.resolution])
        unit = unit_coordinates(x, self.in_dim, self.bounds)
        position = positions_from_unit(unit.T.contiguous()[:, None], size, self.align_corners)
        axes = [slice(first, last + 1, last - first) for first, last in self.pairs]
        parts = [
            self._interpolated(plane, position[pair], size[pair])
            for plane, pair in zip(self.planes, axes, strict=True)
        ]
        features = self._reduced(parts).reshape(*x.shape[:-1], self.out_dim)
        return features.to(self._cast_dtype or table_dtype(x, self.planes[0]))

    def _interpolated(self, plane: Tensor, position: Tensor, size: Tensor) -> Tensor:
        low, high, weights = nodes_from_positions(position, size, self.interpolation)
        strides = torch.stack([torch.ones_like(size[0]), size[0]])
        sides = sides_from_nodes(low, high, strides)
        return weighted_rows(plane, combine_corners(sides, torch.add), weights)[0]

    def _reduced(self, parts: list[Tensor]) -> Tensor:
        if self.reduce == "concat":
            return torch.cat(parts, dim=-1)
        if self.reduce == "hexplane":
            # xy with zt, xz with yt, yz with xt.
            by_pair = dict(zip(self.pairs, parts, strict=True))
            complements = [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((1, 2), (0, 3))]
            return torch.cat([by_pair[a] * by_pair[b] for a, b in complements], dim=-1)
        stacked = torch.stack(parts)
        return stacked.prod(0) if self.reduce == "product" else stacked.sum(0)

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        return (
            f"in_dim={self.in_dim}, out_dim={self.out_dim}, resolution={self.resolution}, "
            f"reduce={self.reduce!r}, interpolation={self.interpolation!r}, bounds={self.bounds}, "
            f"align_corners={self.align_corners}"
        )
