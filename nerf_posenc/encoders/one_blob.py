"""Encoders by other waves than sinusoids: one-blob and triangle wave."""

import torch
from jaxtyping import Float
from torch import Tensor

from nerf_posenc.core.checks import require_coordinates, require_counts
from nerf_posenc.core.encoder import FixedWidths


class OneBlobEncoder(FixedWidths):
    r"""A blob around the coordinate, binned: a soft one-hot code.

    Each coordinate's blob, a quartic kernel of the width of one bin on either side, is
    integrated over ``num_bins`` equal bins of [0, 1]; what leaves at one end comes in at
    the other (Müller et al. 2019, Neural Importance Sampling, section 4.3, with the kernel
    of tiny-cuda-nn in place of a Gaussian).

    Args:
        in_dim: number of coordinates, 1 or more.
        num_bins: number of bins, 1 or more.

    Raises:
        ValueError: where a count is below 1.

    Examples:
        >>> OneBlobEncoder(2, 16)(torch.rand(5, 2)).shape
        torch.Size([5, 32])
    """

    def __init__(self, in_dim: int, num_bins: int = 16) -> None:
        super().__init__()
        require_counts(in_dim=in_dim, num_bins=num_bins)
        self._in_dim = in_dim
        self.num_bins = num_bins
        self._out_dim = in_dim * num_bins

    def forward(self, x: Float[Tensor, "*batch in_dim"]) -> Float[Tensor, "*batch out_dim"]:
        """Encode coordinates in [0, 1].

        Args:
            x: coordinates, any batch shape.

        Returns:
            Features, the bins of each coordinate together, in ``x.dtype``.

        Raises:
            TypeError: where ``x`` does not hold floating-point numbers.
            ValueError: where its last dimension is not ``in_dim``.
        """
        require_coordinates(x, self.in_dim)
        work = x.to(_work_dtype(x))
        edges = torch.arange(self.num_bins + 1, dtype=work.dtype, device=x.device) / self.num_bins
        distance = edges - work[..., None]
        cdf = sum(_quartic_cdf((distance + turn) * self.num_bins) for turn in (-1, 0, 1))
        assert isinstance(cdf, Tensor)
        return cdf.diff(dim=-1).flatten(-2).to(x.dtype)

    def extra_repr(self) -> str:
        """Show the widths."""
        return f"in_dim={self.in_dim}, out_dim={self.out_dim}"


class TriangleWaveEncoder(FixedWidths):
    r"""Triangle waves of doubling frequency, a cheap stand-in for sinusoids.

    $4\, |\mathrm{frac}(v) - \tfrac12| - 1$ with $v = 2^{k-1} x + k/4$, as in tiny-cuda-nn's
    ``TriangleWave``; for each coordinate, for each band k.

    Args:
        in_dim: number of coordinates, 1 or more.
        num_bands: number of bands, 1 or more.

    Raises:
        ValueError: where a count is below 1.

    Examples:
        >>> TriangleWaveEncoder(1, 3)(torch.tensor([0.1]))
        tensor([ 0.8000, -0.4000, -0.2000])
    """

    def __init__(self, in_dim: int, num_bands: int = 12) -> None:
        super().__init__()
        require_counts(in_dim=in_dim, num_bands=num_bands)
        self._in_dim = in_dim
        self.num_bands = num_bands
        self._out_dim = in_dim * num_bands

    def forward(self, x: Float[Tensor, "*batch in_dim"]) -> Float[Tensor, "*batch out_dim"]:
        """Encode coordinates.

        Args:
            x: coordinates of any range, any batch shape.

        Returns:
            Features in [-1, 1], the bands of each coordinate together, in ``x.dtype``.

        Raises:
            TypeError: where ``x`` does not hold floating-point numbers.
            ValueError: where its last dimension is not ``in_dim``.
        """
        require_coordinates(x, self.in_dim)
        work = x.to(_work_dtype(x))
        octaves = torch.arange(self.num_bands, dtype=work.dtype, device=x.device)
        # Whole turns go before the phase comes, while the product is still exact.
        turns = work[..., None] * torch.exp2(octaves - 1)
        turns = turns - turns.floor() + octaves / 4
        wave = 4 * (turns - turns.floor() - 0.5).abs() - 1
        return wave.flatten(-2).to(x.dtype)

    def extra_repr(self) -> str:
        """Show the widths."""
        return f"in_dim={self.in_dim}, out_dim={self.out_dim}"


def _quartic_cdf(u: Tensor) -> Tensor:
    """Integral of the quartic kernel $(15/16)(1-u^2)^2$ from -1 to u."""
    u = u.clamp(-1, 1)
    square = u * u
    return (15 / 16) * u * (1 - (2 / 3) * square + (1 / 5) * square * square) + 0.5


def _work_dtype(x: Tensor) -> torch.dtype:
    """Half precision is computed on in float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
