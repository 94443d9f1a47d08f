"""Triangle-wave encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc.core.checks import require_coordinates, require_counts
from nerf_posenc.core.encoder import Encoder

if TYPE_CHECKING:
    from jaxtyping import Float


class TriangleWaveEncoder(Encoder):
    r"""Triangle waves of doubling frequency, a cheap stand-in for sinusoids.

    $4\, |\mathrm{frac}(v) - \tfrac12| - 1$ with $v = 2^{k-1} x + k/4$, as in tiny-cuda-nn's
    ``TriangleWave``; for each coordinate, for each band k.

    Args:
        in_dim: number of coordinates, 1 or more.
        num_bands: number of bands, 1 or more.

    Raises:
        ValueError: If a count is below 1.

    Examples:
        >>> TriangleWaveEncoder(1, 3)(torch.tensor([0.1]))
        tensor([ 0.8000, -0.4000, -0.2000])
    """

    def __init__(self, in_dim: int, num_bands: int = 12) -> None:
        require_counts(in_dim=in_dim, num_bands=num_bands)
        super().__init__(in_dim, in_dim * num_bands)
        self.num_bands = num_bands

    def forward(self, x: Float[Tensor, "*batch in_dim"]) -> Float[Tensor, "*batch out_dim"]:
        """Encode coordinates.

        Args:
            x: coordinates of any range, any batch shape.

        Returns:
            Features in [-1, 1], the bands of each coordinate together, in ``x.dtype``.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If its last dimension is not ``in_dim``.
        """
        require_coordinates(x, self.in_dim)
        # Half precision is computed in float32.
        work = x if x.dtype == torch.float64 else x.float()
        octaves = torch.arange(self.num_bands, dtype=work.dtype, device=x.device)
        # Whole cycles are subtracted before the phase is added, while the product is exact.
        cycles = work[..., None] * torch.exp2(octaves - 1)
        cycles = cycles - cycles.floor() + octaves / 4
        wave = 4 * (cycles - cycles.floor() - 0.5).abs() - 1
        return wave.flatten(-2).to(x.dtype)

    def extra_repr(self) -> str:
        """Show the widths."""
        return f"in_dim={self.in_dim}, out_dim={self.out_dim}"
