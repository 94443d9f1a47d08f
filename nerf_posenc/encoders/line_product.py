"""Products of lines of trained features, one for each axis, that a fit may begin with blurred."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.checks import require_counts, require_positive
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.encoders.interpolation import (
    blurred,
    features_dtype,
    require_bounds,
    unit_coordinates,
)

if TYPE_CHECKING:
    from jaxtyping import Float

_STD = 0.1


class LineProductEncoder(Encoder):
    r"""Feature $r$ is the product over the axes of $v^a_r(x_a)$, each linearly interpolated.

    The CP decomposition of a grid (Chen et al. 2022, TensoRF, equation 2): a grid of $N^d$ nodes
    takes $O(d N)$ parameters per feature. In two dimensions each feature is an image of rank one.

    With the ``progress`` of a fit the lines are blurred by a Gaussian less and less. The blur is
    separable, so that blurring the lines blurs the whole grid (Cheng et al. 2024, Joint-TensoRF,
    theorem 4): a registration finds its way from coarse to fine, as with the bands of BARF.

    Args:
        in_dim: number of coordinates.
        features: number of features.
        resolution: nodes along each axis, 2 or more; the first and the last lie on the edge of the
            bounds.
        blur: standard deviation of the blur at a progress of 0, in units of the coordinate; it
            falls exponentially, to a quarter of a node at 1.
        bounds: the box that the lines cover. Coordinates outside are moved to its edge.
        generator: random number generator of the initial features, normal with a standard deviation
            of 0.1.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> LineProductEncoder(2, 16, resolution=64)(torch.rand(5, 2), progress=0.5).shape
        torch.Size([5, 16])
    """

    takes_progress = True

    def __init__(
        self,
        in_dim: int,
        features: int = 200,
        *,
        resolution: int = 512,
        blur: float = 0.25,
        bounds: tuple[float, float] = (-1.0, 1.0),
        generator: torch.Generator | None = None,
    ) -> None:
        require_counts(in_dim=in_dim, features=features, resolution=resolution - 1)
        require_positive(blur=blur)
        require_bounds(bounds)
        super().__init__(in_dim, features)
        self.resolution = resolution
        self.blur = blur
        self.bounds = bounds
        lines = torch.randn(in_dim, resolution, features, generator=generator)
        self.lines = nn.Parameter(lines * _STD)

    def forward(
        self,
        x: Float[Tensor, "*batch in_dim"],
        *,
        progress: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*batch out_dim"]:
        """Encode coordinates.

        Args:
            x: coordinates in the bounds, any batch shape.
            progress: progress of the fit, from 0 to 1; the lines are blurred less and less. None
                for sharp lines.

        Returns:
            Features in the type of the lines or of float64 coordinates.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If its last dimension is not ``in_dim``.
        """
        position = unit_coordinates(x, self.in_dim, self.bounds) * (self.resolution - 1)
        lines: Tensor = self.lines
        if progress is not None:
            low, high = self.bounds
            lines = blurred(lines, self.blur / (high - low), progress, resolution=self.resolution)
        # The node below each coordinate; the last cell holds the far edge too. What is not finite
        # gets some cell, and keeps a share that is not finite.
        cell = position.detach().floor().clamp(max=self.resolution - 2).nan_to_num()
        share = (position - cell)[..., None]
        below = cell.long()
        features = torch.ones((), dtype=lines.dtype, device=lines.device)
        for axis in range(self.in_dim):
            here = F.embedding(below[:, axis], lines[axis])
            there = F.embedding(below[:, axis] + 1, lines[axis])
            features = features * (here + share[:, axis] * (there - here))
        return features.to(features_dtype(position, self.lines)).reshape(
            *x.shape[:-1], self.out_dim
        )

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        sizes = f"in_dim={self.in_dim}, out_dim={self.out_dim}, resolution={self.resolution}"
        return f"{sizes}, blur={self.blur:g}, bounds={self.bounds}"
