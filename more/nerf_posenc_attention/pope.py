"""Polar coordinate position embeddings (PoPE): content as length, position as angle."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.bands import geometric_bands
from nerf_posenc.core.checks import (
    require_coordinates,
    require_counts,
    require_positions,
    require_positive,
    require_tensor,
)
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.core.sinusoids import SinCos

if TYPE_CHECKING:
    from jaxtyping import Float, Num


class PoPEEncoder(Encoder):
    r"""Polar coordinate position embedding (Gopalakrishnan et al. 2025, arXiv:2509.10534).

    Every feature of a query or key becomes a point in the plane, whose length is the feature's
    softplus and whose angle is its position's. The score of a query at $t$ and a key at $s$ is

    $$\sum_i \mathrm{softplus}(q_i)\,\mathrm{softplus}(k_i) \cos((t - s)\,\omega_i - \delta_i)$$

    with the bands $\omega_i = \text{base}^{-i/d}$, one for each feature, and a learned phase
    $\delta_i$ in $[-2\pi, 0]$ for each head and feature. In a rotary embedding the features
    themselves add to the angle, so that what a token is and where it stands are mixed. The width
    of queries and keys doubles, that of values stays; scores are divided by the square root of
    ``dim``: ``scaled_dot_product_attention`` needs ``scale=dim**-0.5``.

    Phases begin at 0. Beyond their range they count as its end, with the gradient that they would
    have there, so that they find back.

    Args:
        dim: width of a head before the embedding.
        num_heads: number of heads, each with phases of its own.
        base: ratio of the longest wavelength (not reached) to the shortest.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> pope = PoPEEncoder(64, 8)
        >>> queries = keys = torch.rand(2, 8, 100, 64)
        >>> positions = torch.arange(100)
        >>> scores = pope.rotate(queries, positions) @ pope.rotate_keys(keys, positions).mT / 8
    """

    children_in_repr = ("sincos", "phase_sincos")

    def __init__(self, dim: int, num_heads: int, *, base: float = 10_000.0) -> None:
        require_counts(dim=dim, num_heads=num_heads)
        require_positive(base=base)
        super().__init__(1, 2 * dim)
        self.dim = dim
        self.num_heads = num_heads
        self.base = base
        make = functools.partial(SinCos, 1, layout="kpa", phases=("cos", "sin"))
        self.sincos = make(geometric_bands(dim, base=base))
        self.phase_sincos = make([1.0])
        self.phases = nn.Parameter(torch.empty(num_heads, dim))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Set the phases to 0."""
        nn.init.zeros_(self.phases)

    @property
    def frequency_bands(self) -> Float[Tensor, "dim 1"]:
        """Band of each feature, rad per unit of position."""
        return self.sincos.frequencies

    def forward(self, positions: Num[Tensor, "*batch"]) -> Float[Tensor, "*batch twice_dim"]:
        """Cosine and sine of each band's angle in turn, as queries have them.

        Args:
            positions: positions of tokens, integers or reals of any sign.
        """
        require_positions(positions, self.dim, "rotate(x, positions)")
        if positions.dtype in (torch.float16, torch.bfloat16):
            positions = positions.float()
        features: Tensor = self.sincos(positions[..., None])
        return features

    def rotate(
        self, x: Float[Tensor, "*batch heads length dim"], positions: Num[Tensor, "*shape"]
    ) -> Float[Tensor, "*batch heads length twice_dim"]:
        """Embed queries.

        Args:
            x: queries.
            positions: positions of the tokens, ``(length,)`` or with the batch dimensions of x.

        Raises:
            TypeError: If x does not hold floating-point numbers.
            ValueError: If the width, the number of heads or that of the positions does not fit.
        """
        self._require_shapes(x, positions)
        return self._placed(x, self(positions).unsqueeze(-3))

    def rotate_keys(
        self, x: Float[Tensor, "*batch heads length dim"], positions: Num[Tensor, "*shape"]
    ) -> Float[Tensor, "*batch heads length twice_dim"]:
        """Embed keys, each head with its phases.

        Args:
            x: keys.
            positions: positions of the tokens, as for ``rotate``.

        Raises:
            TypeError: If x does not hold floating-point numbers.
            ValueError: If the width, the number of heads or that of the positions does not fit.
        """
        self._require_shapes(x, positions)
        cosine, sine = self(positions).unsqueeze(-3).unflatten(-1, (-1, 2)).unbind(-1)
        phases = self.phases.to(torch.promote_types(self.phases.dtype, torch.float32))
        # Straight-through: the value is clamped to [-2 pi, 0], the gradient is that of `phases`.
        phases = phases + (phases.clamp(-2 * math.pi, 0) - phases).detach()
        phase_cosine, phase_sine = self.phase_sincos(phases[:, None, :, None]).unbind(-1)
        # cos(a + b) and sin(a + b) of the position's angle a and the phase b.
        angle = (
            cosine * phase_cosine - sine * phase_sine,
            sine * phase_cosine + cosine * phase_sine,
        )
        return self._placed(x, torch.stack(angle, -1).flatten(-2))

    def _placed(self, x: Tensor, features: Tensor) -> Tensor:
        """Multiply ``[cos0 sin0 cos1 sin1]`` by lengths ``[r0 r0 r1 r1]``, in float32 or better.

        ``(*batch, heads, length, dim)`` becomes ``(*batch, heads, length, 2 * dim)``.
        """
        length = F.softplus(x.to(torch.promote_types(x.dtype, features.dtype)))
        return (length.repeat_interleave(2, dim=-1) * features).to(x.dtype)

    def _require_shapes(self, x: Tensor, positions: Tensor) -> None:
        require_coordinates(x, self.dim)
        if x.ndim < 3 or x.shape[-3] != self.num_heads:
            raise ValueError(
                f"x must have shape (*batch, {self.num_heads}, length, {self.dim}); "
                f"got {tuple(x.shape)}"
            )
        require_tensor(positions, "positions")
        if positions.shape not in (x.shape[-2:-1], (*x.shape[:-3], x.shape[-2])):
            raise ValueError(
                f"positions must have shape ({x.shape[-2]},), one for each token, or for each "
                f"sequence its own, {(*x.shape[:-3], x.shape[-2])}; got {tuple(positions.shape)}"
            )

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        sizes = f"dim={self.dim}, out_dim={self.out_dim}, num_heads={self.num_heads}"
        return f"{sizes}, base={self.base:g}"
