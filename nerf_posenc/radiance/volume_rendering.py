"""From densities along a ray to a colour, and the grid that says where space is empty."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nerf_posenc.core.checks import require_counts


class Rendering(NamedTuple):
    """What rays see.

    Attributes:
        colour: with the background behind.
        opacity: share of the light that is stopped, in [0, 1].
        depth: mean distance of what stops it; 0 where nothing does.
        coarse_colour: colour by the coarse pass, where there is one.
    """

    colour: Float[Tensor, "*batch 3"]
    opacity: Float[Tensor, "*batch"]
    depth: Float[Tensor, "*batch"]
    coarse_colour: Float[Tensor, "*batch 3"] | None = None


def weights_from_density(
    density: Float[Tensor, "*batch samples"], lengths: Float[Tensor, "*batch samples"]
) -> Float[Tensor, "*batch samples"]:
    r"""Share of a ray's light that each interval stops.

    $w_i = T_i (1 - e^{-\sigma_i \delta_i})$, $T_i = \exp(-\sum_{j<i} \sigma_j \delta_j)$
    (Mildenhall et al. 2020, equation 3; Max 1995). With the light that passes all of them they
    sum to 1.

    Args:
        density: 0 or more, in 1 / length.
        lengths: of the intervals.
    """
    thickness = density * lengths
    # Summed without the interval itself: an endless one would swallow all before it in rounding.
    before = torch.nn.functional.pad(thickness[..., :-1].cumsum(-1), (1, 0))
    return torch.exp(-before) * -torch.expm1(-thickness)


def composite(
    weights: Float[Tensor, "*batch samples"],
    colours: Float[Tensor, "*batch samples 3"],
    distances: Float[Tensor, "*batch samples"],
    background: Float[Tensor, "*batch 3"],
) -> Rendering:
    """Sum the samples of each ray over its background.

    Args:
        weights: from `weights_from_density`.
        colours: of the samples.
        distances: of the samples from the ray's origin.
        background: colour behind.
    """
    opacity = weights.sum(-1)
    colour = (weights[..., None, :] @ colours)[..., 0, :]
    depth = (weights * distances).sum(-1) / opacity.clamp(min=1e-6)
    return Rendering(colour + (1 - opacity)[..., None] * background, opacity, depth)


class OccupancyGrid(nn.Module):
    """Where in [-1, 1]^3 there may be something (Müller et al. 2022, appendix C).

    All cells count as occupied until `update` or `carve` finds them empty.

    Args:
        resolution: cells an axis.
        threshold: opacity of a cell's diagonal under which it counts as empty.
        decay: factor, at each update, of the density remembered for a cell.

    Raises:
        ValueError: where an argument is out of its range.

    Examples:
        >>> grid = OccupancyGrid(2)
        >>> grid.update(lambda x: torch.where(x[:, 0] > 0, 100.0, 0.0), seed=0)
        >>> grid(torch.tensor([[-0.5, 0.0, 0.0], [0.5, 0.0, 0.0]]))
        tensor([False,  True])
    """

    occupied: Tensor
    density: Tensor
    possible: Tensor

    def __init__(
        self, resolution: int = 128, *, threshold: float = 0.01, decay: float = 0.8
    ) -> None:
        super().__init__()
        require_counts(resolution=resolution)
        if not (0 < threshold < 1 and 0 <= decay < 1):
            raise ValueError(
                f"threshold must be between 0 and 1 and decay in [0, 1); got {threshold}, {decay}"
            )
        self.resolution = resolution
        self.threshold = threshold
        self.decay = decay
        num_cells = resolution**3
        # Infinite until a cell is looked at, so that none is taken for empty unseen.
        self.register_buffer("density", torch.full((num_cells,), torch.inf))
        self.register_buffer("possible", torch.ones(num_cells, dtype=torch.bool))
        self.register_buffer("occupied", torch.ones(num_cells, dtype=torch.bool))

    def cells(self, positions: Float[Tensor, "*batch 3"]) -> Tensor:
        """Number of the cell of each position, those outside being moved to the edge."""
        index = ((positions + 1) * (self.resolution / 2)).long().clamp_(0, self.resolution - 1)
        x, y, z = index.unbind(-1)
        return (x * self.resolution + y) * self.resolution + z

    def forward(self, positions: Float[Tensor, "*batch 3"]) -> Bool[Tensor, "*batch"]:
        """Tell which positions lie in occupied cells; all outside the cube are empty."""
        inside = (positions.abs() <= 1).all(-1)
        return self.occupied[self.cells(positions)] & inside

    def centres(self) -> Float[Tensor, "cells 3"]:
        """Middle of every cell, in the order of their numbers."""
        axis = torch.arange(self.resolution, device=self.density.device) + 0.5
        axis = axis * (2 / self.resolution) - 1
        return torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)

    @torch.no_grad()
    def carve(self, empty: Bool[Tensor, " cells"]) -> None:
        """Mark cells as empty for good, as those that a picture sees through."""
        self.possible &= ~empty
        self.occupied &= ~empty

    @torch.no_grad()
    def update(
        self, density_at: Callable[[Tensor], Tensor], *, seed: int, share: float = 1.0
    ) -> None:
        """Look at the density at a random place in each cell, or in a share of them.

        A cell keeps the largest of what it remembers, decayed, and what is seen; cells that
        are not looked at remember in full.

        Args:
            density_at: from positions ``(n, 3)`` to densities ``(n,)``.
            seed: of the places and the share.
            share: of the cells to look at, above 0 and up to 1.
        """
        device = self.density.device
        generator = torch.Generator(device).manual_seed(seed)
        cells = self.possible.nonzero()[:, 0]
        if share < 1:
            drawn = torch.rand(len(cells), generator=generator, device=device) < share
            cells = cells[drawn]
        places = torch.rand(len(cells), 3, generator=generator, device=device)
        places = self.centres()[cells] + (2 * places - 1) / self.resolution
        seen = torch.cat([density_at(part).float() for part in places.split(1 << 15)] or [places])
        remembered = torch.nan_to_num(self.density[cells] * self.decay, posinf=0.0)
        self.density[cells] = torch.maximum(remembered, seen.view(-1))
        diagonal = 2 * 3**0.5 / self.resolution
        opacity = -torch.expm1(-self.density * diagonal)
        self.occupied.copy_((opacity > self.threshold) & self.possible)
