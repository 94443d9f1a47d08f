"""A method of somebody else's for the arena: content-aware frequency encoding, CAFE+."""

import math

import torch
from torch import Tensor, nn

from nerf_posenc import GaussianEncoder
from nerf_posenc.networks import MLP


class CAFE(nn.Module):
    r"""Products of linear layers on Fourier and Chebyshev features (Ke et al. 2026, section 3).

    $$\prod_{j=1}^{3} \big(W_j\, e(x) + b_j\big), \quad
      e(x) = \big(\gamma(x), T_0(x), \dots, T_{M-1}(x)\big)$$

    with random Fourier features $\gamma$ and the Chebyshev polynomials of each coordinate, and a
    ReLU network of one hidden layer behind it (arXiv:2603.01028, github.com/JunboKe0619/CAFE).

    Args:
        in_dim: number of coordinates, in [-1, 1].
        out_dim: number of outputs.
        width: width of all layers; 176 of 236 features are random frequencies, as published.
        depth: not used; the authors' network has one hidden layer.
        bandwidth: factor of the frequencies' deviation, 30 cycles per unit for 512 pixels.
    """

    def __init__(
        self, in_dim: int, out_dim: int, *, width: int, depth: int = 1, bandwidth: float = 1.0
    ) -> None:
        super().__init__()
        self.num_polynomials = max(1, round(width * 30 / 236))
        num_frequencies = max(1, round(width * 88 / 236))
        num_features = 2 * num_frequencies + in_dim * self.num_polynomials
        self.frequencies = GaussianEncoder(in_dim, num_frequencies, sigma=30.0 * bandwidth)
        self.branches = nn.ModuleList(nn.Linear(num_features, width) for _ in range(3))
        self.network = MLP(width, out_dim, width=width, depth=1)

    def forward(self, x: Tensor) -> Tensor:
        """Values at coordinates of shape ``(..., in_dim)``."""
        features = torch.cat([self.frequencies(x), *self._polynomials(x)], dim=-1)
        product: Tensor = math.prod(branch(features) for branch in self.branches)
        values: Tensor = self.network(product)
        return values

    def _polynomials(self, x: Tensor) -> list[Tensor]:
        """Chebyshev polynomials by their recurrence, T_n = 2 x T_{n-1} - T_{n-2}."""
        values = [torch.ones_like(x), x]
        while len(values) < self.num_polynomials:
            values.append(2 * x * values[-1] - values[-2])
        return values[: self.num_polynomials]
