"""Content-aware frequency encoding (CAFE+): products of learned mixtures of frequencies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.checks import require_coordinates, require_counts, without_autocast
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.encoders.random_fourier import GaussianEncoder

if TYPE_CHECKING:
    from jaxtyping import Float


class CAFEEncoder(Encoder):
    r"""Products of linear layers on Fourier and Chebyshev features (Ke et al. 2026, CAFE+).

    $$\prod_{j=1}^{N} \big(W_j\, e(x) + b_j\big), \quad
      e(x) = \big(\gamma(x), T_0(x), \dots, T_{M-1}(x)\big)$$

    with random Fourier features $\gamma$ and the Chebyshev polynomials of each coordinate. A
    product of sines holds sums and differences of their frequencies, so that the layers make many
    of few, and choose among them (arXiv:2603.01028, section 3).

    Args:
        in_dim: number of coordinates, in [-1, 1].
        num_features: width of the layers; None for that of the features that they read.
        num_frequencies: random frequencies.
        sigma: their standard deviation in cycles per unit; the paper has 30 for 512 pixels.
        num_polynomials: Chebyshev polynomials of each coordinate, of degree 0 and up; 0 for CAFE
            without them.
        num_branches: layers that are multiplied, 1 or more.
        generator: random number generator of frequencies and weights.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> encoder = CAFEEncoder(2)
        >>> encoder(torch.rand(5, 2)).shape
        torch.Size([5, 236])
    """

    def __init__(
        self,
        in_dim: int,
        num_features: int | None = None,
        *,
        num_frequencies: int = 88,
        sigma: int | float = 30.0,
        num_polynomials: int = 30,
        num_branches: int = 3,
        generator: torch.Generator | None = None,
    ) -> None:
        width = 2 * num_frequencies + num_polynomials * in_dim
        num_features = width if num_features is None else num_features
        require_counts(in_dim=in_dim, num_branches=num_branches, num_features=num_features)
        if num_polynomials < 0:
            raise ValueError(f"num_polynomials must be 0 or more; got {num_polynomials}")
        super().__init__(in_dim, num_features)
        self.num_polynomials = num_polynomials
        self.frequencies = GaussianEncoder(
            in_dim, num_frequencies, sigma=sigma, generator=generator, out_dtype=torch.float32
        )
        # Skip torch's initialization, which would draw from the global generator.
        device = torch.get_default_device()
        self.branches = nn.ModuleList(
            nn.utils.skip_init(nn.Linear, width, self.out_dim, device=device)
            for _ in range(num_branches)
        )
        bound = 1 / math.sqrt(width)
        for parameter in self.branches.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def forward(self, x: Float[Tensor, "*batch in_dim"]) -> Float[Tensor, "*batch out_dim"]:
        """Encode coordinates.

        Args:
            x: coordinates in [-1, 1]; those outside are moved to the edge, since polynomials grow
                fast there.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If a shape does not fit.
        """
        require_coordinates(x, self.in_dim)
        # Polynomials of half-precision coordinates would lose all digits on the way.
        wide = x.clamp(-1, 1).to(torch.promote_types(x.dtype, torch.float32))
        features = torch.cat([self.frequencies(wide), *self._polynomials(wide)], dim=-1)
        product = torch.ones((), dtype=features.dtype, device=features.device)
        with without_autocast(x):
            for branch in self.branches:
                if isinstance(branch, nn.Linear):
                    weight, bias = (t.to(features.dtype) for t in branch.parameters())
                    product = product * F.linear(features, weight, bias)
                else:  # A layer that quantization has put in its place.
                    product = product * branch(features)
        return product.to(self.features_dtype(x))

    def _polynomials(self, x: Tensor) -> list[Tensor]:
        """Chebyshev polynomials by their recurrence, T_n = 2 x T_{n-1} - T_{n-2}."""
        values = [torch.ones_like(x), x]
        while len(values) < self.num_polynomials:
            values.append(2 * x * values[-1] - values[-2])
        return values[: self.num_polynomials]

    def extra_repr(self) -> str:
        """Show all that changes the numbers, but for the weights."""
        return (
            f"in_dim={self.in_dim}, out_dim={self.out_dim}, num_polynomials={self.num_polynomials}"
        )
