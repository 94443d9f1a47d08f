"""Rotary embeddings whose frequencies are learned, or mix the axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nerf_posenc.core.checks import default_dtype, format_values, require_counts, require_positive
from nerf_posenc.core.sinusoids import SinCos, project_cycles
from nerf_posenc_attention.rotation import PAIRINGS, Pairing, Rotation

if TYPE_CHECKING:
    from jaxtyping import Float, Num


class MixedRotaryEncoder(Rotation):
    r"""Rotary embedding with trained frequencies: each pair has one for every axis.

    A pair is rotated by $\sum_a \Theta_{ia} t_a$, so that diagonal directions have bands as well
    as the axes: RoPE-Mixed of RoPE-ViT, with frequencies of its own in every head (Heo et al.
    2024, arXiv:2403.13298), and the learnable encoding of LightGlue, with the same in
    all heads (Lindenberger et al. 2023, arXiv:2306.13643).

    Args:
        dim: width of a head, an even number.
        num_axes: number of axes of the positions, 1 or more.
        num_heads: heads with frequencies of their own; None for one set in all heads.
        matrix: frequencies to start with, rad per unit of position, ``(dim / 2, num_axes)`` or
            ``(num_heads, dim / 2, num_axes)``. None draws them as RoPE-ViT does:
            ``base ** (-4i / dim)`` in two directions at right angles, rotated at random in each
            head; for a number of axes other than 2 it must be given.
        base: ratio of the longest wavelength (not reached) to the shortest of the drawn
            frequencies; 10 in RoPE-ViT.
        pairing: ``"interleaved"`` or ``"half"``; see [RotaryEncoder][nerf_posenc.RotaryEncoder].
        generator: random number generator; None is torch's own.

    Raises:
        ValueError: If an argument does not fit.

    Examples:
        >>> rotary = MixedRotaryEncoder(64, num_heads=8)
        >>> rotary.rotate(torch.rand(2, 8, 100, 64), torch.rand(100, 2)).shape
        torch.Size([2, 8, 100, 64])
    """

    children_in_repr = ("sincos",)
    uncast = ("matrix",)

    def __init__(
        self,
        dim: int,
        num_axes: int = 2,
        *,
        num_heads: int | None = None,
        matrix: Float[Tensor, "*heads num_pairs num_axes"] | None = None,
        base: float = 10.0,
        pairing: Pairing = "interleaved",
        generator: torch.Generator | None = None,
    ) -> None:
        require_counts(dim=dim, num_axes=num_axes, num_heads=1 if num_heads is None else num_heads)
        if dim % 2 or pairing not in PAIRINGS[:2]:
            raise ValueError(
                f"dim must be even and pairing 'interleaved' or 'half'; got {dim}, {pairing!r}"
            )
        heads = () if num_heads is None else (num_heads,)
        shape = (*heads, dim // 2, num_axes)
        if matrix is None:
            _require_drawn(dim, num_axes, base)
        elif matrix.shape != shape:
            raise ValueError(f"matrix must have shape {shape}; got {tuple(matrix.shape)}")
        super().__init__(num_axes, dim, pairing=pairing, blocks=(dim,), num_heads=num_heads)
        self.base = base
        self._initial = matrix
        dtype = default_dtype() if matrix is None else matrix.dtype
        self.matrix = nn.Parameter(torch.empty(shape, dtype=dtype))
        self.reset_parameters(generator)
        one_cycle = torch.tensor([2 * math.pi], dtype=torch.float64, device="cpu")
        self.sincos = SinCos(dim // 2, one_cycle, layout="pka")

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the frequencies as RoPE-ViT does, or set those that the constructor was given."""
        drawn = self._initial
        if drawn is None:
            drawn = _drawn(self.dim, self.matrix.shape[:-2], self.base, generator)
        with torch.no_grad():
            self.matrix.copy_(drawn)

    def forward(
        self, positions: Num[Tensor, "*shape"]
    ) -> tuple[Float[Tensor, "*batch dim"], Float[Tensor, "*batch dim"]]:
        """Cosines and sines of every column, for ``rotate_with`` or elsewhere.

        Args:
            positions: ``(*batch, length, num_axes)``, or ``(*batch, length)`` for one axis;
                integers or reals of any sign.

        Returns:
            Cosines and sines in torch's default type (float64 positions: float64), each
            ``(*batch, length, dim)``, or ``(*batch, num_heads, length, dim)``.

        Raises:
            ValueError: If the positions have the wrong number of axes.
        """
        self.require_set()
        positions = self._positions(positions)
        dtype = positions.dtype if positions.is_floating_point() else default_dtype()
        if not positions.is_floating_point():
            positions = positions.to(
                torch.float32 if positions.device.type == "mps" else torch.float64
            )
        # (*batch, length, num_axes) @ matrix -> (*batch, length, num_heads * dim / 2)
        cycles = project_cycles(positions, self.matrix.flatten(0, -2) / (2 * math.pi))
        if self.num_heads is not None:
            # (*batch, num_heads, length, dim / 2)
            cycles = cycles.unflatten(-1, (self.num_heads, -1)).movedim(-2, -3)
        features: Tensor = self.sincos(cycles, out_dtype=dtype)
        # Layout "pka" with one band: [all sines, all cosines], each dim / 2 wide.
        sine, cosine = features.unflatten(-1, (2, -1)).unbind(-2)
        return self.to_columns(cosine), self.to_columns(sine)

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        return (
            f"dim={self.dim}, num_axes={self.in_dim}, num_heads={self.num_heads}, "
            f"pairing={self.pairing!r}, matrix={format_values(self.matrix)}"
        )


def _require_drawn(dim: int, num_axes: int, base: float) -> None:
    """Refuse sizes for which RoPE-ViT draws no frequencies."""
    require_positive(base=base)
    if num_axes != 2 or dim % 4:
        raise ValueError(
            "frequencies are drawn for 2 axes and a dim that 4 divides; give matrix= for "
            f"{num_axes} axes and dim {dim}"
        )


def _drawn(
    dim: int, heads: Sequence[int], base: float, generator: torch.Generator | None
) -> Tensor:
    """Draw RoPE-ViT's initial frequencies, ``(*heads, dim / 2, 2)``.

    The first dim / 4 pairs of a head point in one random direction, the others at right angles.
    """
    magnitude = base ** (-torch.arange(dim // 4, dtype=default_dtype()) * 4 / dim)
    turn = torch.rand(*heads, 1, generator=generator, dtype=default_dtype()) * 2 * math.pi
    turn = torch.cat(
        [turn.expand(*heads, dim // 4), turn.expand(*heads, dim // 4) + math.pi / 2], -1
    )
    magnitude = torch.cat([magnitude, magnitude])
    # (*heads, dim / 2, 2): the unit vector (cos, sin) of each pair. `core` alone computes sines.
    direction = SinCos(
        1, torch.ones(1, dtype=torch.float64, device="cpu"), layout="pka", phases=("cos", "sin")
    )
    drawn: Tensor = magnitude[..., None] * direction(turn[..., None])
    return drawn
