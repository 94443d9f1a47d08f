"""Time2Vec: a learned representation of time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nerf_posenc.core.checks import require_coordinates, require_counts
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.core.sinusoids import SinCos

if TYPE_CHECKING:
    from jaxtyping import Float


class Time2VecEncoder(Encoder):
    r"""One linear column and sines of trained frequency and phase.

    $\omega_0 \tau + \varphi_0$, then $\sin(\omega_i \tau + \varphi_i)$ for
    $i = 1 \dots k$ (Kazemi et al. 2019, arXiv:1907.05321). For known periods, as
    hours and weekdays have, use ``FourierEncoder(n, frequencies=period_bands(...))``.

    Args:
        in_dim: number of time variables, 1 or more; each column has a weight for each.
        out_dim: number of columns k + 1, 2 or more.
        linear_last: put the linear column after the sines, as widely copied code does.
        generator: random number generator; None is torch's own.

    Raises:
        ValueError: If a width is out of its range.

    Examples:
        >>> Time2VecEncoder(1, 16)(torch.rand(5, 1)).shape
        torch.Size([5, 16])
    """

    children_in_repr = ("sincos",)

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        linear_last: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        require_counts(in_dim=in_dim, out_dim=out_dim)
        if out_dim < 2:
            raise ValueError(
                f"out_dim must be 2 or more, a linear column and a sine; got {out_dim}"
            )
        super().__init__(in_dim, out_dim)
        self.linear_last = linear_last
        self.weight = nn.Parameter(torch.empty(out_dim, in_dim))
        self.bias = nn.Parameter(torch.empty(out_dim))
        self.reset_parameters(generator)
        one_cycle = torch.tensor([2 * math.pi], dtype=torch.float64, device="cpu")
        self.sincos = SinCos(out_dim - 1, one_cycle, layout="pka")

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw frequencies and phases from a standard normal distribution."""
        for parameter in (self.weight, self.bias):
            nn.init.normal_(parameter, generator=generator)

    def forward(self, x: Float[Tensor, "*batch in_dim"]) -> Float[Tensor, "*batch out_dim"]:
        """Encode times.

        Args:
            x: times of any range; keep them in float32.

        Returns:
            Features in the type of the last cast, or ``x.dtype``.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If its last dimension is not ``in_dim``.
        """
        require_coordinates(x, self.in_dim)
        wide = torch.float32 if x.device.type == "mps" else torch.float64
        angles = x.to(wide) @ self.weight.to(wide).T + self.bias.to(wide)
        dtype = self.features_dtype(x)
        # Angles in cycles: the band of `sincos` is 2 pi, which reduces them exactly.
        waves: Tensor = self.sincos(angles[..., 1:] / (2 * math.pi), out_dtype=dtype)
        parts = [angles[..., :1].to(dtype), waves[..., : self.out_dim - 1]]
        return torch.cat(parts[::-1] if self.linear_last else parts, dim=-1)

    def extra_repr(self) -> str:
        """Show the widths and the order."""
        return f"in_dim={self.in_dim}, out_dim={self.out_dim}, linear_last={self.linear_last}"
