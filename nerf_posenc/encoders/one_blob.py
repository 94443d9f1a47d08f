"""One-blob encoding: a soft one-hot vector of binned coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc.core.checks import require_coordinates, require_counts
from nerf_posenc.core.encoder import Encoder

if TYPE_CHECKING:
    from jaxtyping import Float


class OneBlobEncoder(Encoder):
    r"""A kernel around the coordinate, integrated over bins: a soft one-hot encoding.

    A quartic kernel, one bin wide on either side of the coordinate, is integrated over
    ``num_bins`` equal bins of [0, 1], which wraps around (Müller et al. 2019, Neural Importance
    Sampling, section 4.3, with tiny-cuda-nn's kernel instead of a Gaussian).

    Args:
        in_dim: number of coordinates, 1 or more.
        num_bins: number of bins, 1 or more.

    Raises:
        ValueError: If a count is below 1.

    Examples:
        >>> OneBlobEncoder(2, 16)(torch.rand(5, 2)).shape
        torch.Size([5, 32])
    """

    def __init__(self, in_dim: int, num_bins: int = 16) -> None:
        require_counts(in_dim=in_dim, num_bins=num_bins)
        super().__init__(in_dim, in_dim * num_bins)
        self.num_bins = num_bins

    def forward(self, x: Float[Tensor, "*batch in_dim"]) -> Float[Tensor, "*batch out_dim"]:
        """Encode coordinates in [0, 1].

        Args:
            x: coordinates, any batch shape. Blobs wrap around, as tiny-cuda-nn's do: -0.5 has the
                features of 0.5. Of coordinates in [-1, 1] give ``x / 2 + 0.5``.

        Returns:
            Features, the bins of each coordinate together, in ``x.dtype``.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If its last dimension is not ``in_dim``.
        """
        require_coordinates(x, self.in_dim)
        # Half precision is computed in float32.
        work = x if x.dtype == torch.float64 else x.float()
        edges = torch.arange(self.num_bins + 1, dtype=work.dtype, device=x.device) / self.num_bins
        # The last difference is 0, and NaN for an infinite coordinate, whose blob would be lost.
        distance = edges - work[..., None] + (work - work)[..., None]
        cdf = sum(_quartic_cdf((distance + period) * self.num_bins) for period in (-1, 0, 1))
        assert isinstance(cdf, Tensor)
        return cdf.diff(dim=-1).flatten(-2).to(x.dtype)

    def extra_repr(self) -> str:
        """Show the widths."""
        return f"in_dim={self.in_dim}, out_dim={self.out_dim}"


def _quartic_cdf(u: Tensor) -> Tensor:
    """Integral of the quartic kernel $(15/16)(1-u^2)^2$ from -1 to u."""
    u = u.clamp(-1, 1)
    square = u * u
    return (15 / 16) * u * (1 - (2 / 3) * square + (1 / 5) * square * square) + 0.5
