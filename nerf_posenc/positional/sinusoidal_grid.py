"""Sinusoidal embeddings of positions on a grid, as of image patches."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import torch
from jaxtyping import Float, Num
from torch import Tensor

from nerf_posenc.core.bands import geometric_bands
from nerf_posenc.core.encoder import Encoder, require_counts
from nerf_posenc.core.sinusoids import SinCos

_WIDTH_FIRST = dict(layout="apk", last_axis_first=True)

_GRID_ARGUMENTS: dict[str, dict[str, Any]] = {
    "detr": dict(layout="akp", start=1),
    "detr-normalized": dict(layout="akp", start=1, span=2 * math.pi),
    "timm": dict(layout="pak"),
    "timm-interleaved": dict(layout="apk"),
    "mae": _WIDTH_FIRST,
    "diffusers": _WIDTH_FIRST,
    "monai": _WIDTH_FIRST,
    "tatp22": dict(layout="akp"),
}

GRID_PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {name: MappingProxyType(arguments) for name, arguments in _GRID_ARGUMENTS.items()}
)
"""Arguments of ``GridSinusoidalEncoder`` that give each library's numbers.

Axes are named as an array's: rows (height) first. ``monai`` in 3-D has width, height, depth.
``diffusers`` at its default scale; ``detr-normalized`` is ``normalize=True`` without padding.
"""


class GridSinusoidalEncoder(Encoder):
    r"""Sinusoidal embeddings of positions on a 2-D or 3-D grid, with a share of the width per axis.

    Args:
        dim: width of the embedding, 1 or more.
        num_axes: number of axes, 2 or 3 (any number of 1 or more works).
        base: ratio of the longest wavelength (not reached) to the shortest.
        layout: nesting of the columns, outermost first: a axis, p phase, k band.
        last_axis_first: put the columns of the last axis (width) before the others.
        start: index of the first row, column and so on in ``table``.
        span: scale the indices of ``table`` so that the last one of each axis is this;
            None leaves them as they are.

    Raises:
        ValueError: If ``dim`` or ``num_axes`` is below 1.

    Examples:
        >>> GridSinusoidalEncoder.preset("timm", dim=8).table((2, 3)).shape
        torch.Size([2, 3, 8])
    """

    # DETR adds this to the last index before it divides by it.
    _SPAN_EPS = 1e-6

    def __init__(
        self,
        dim: int,
        num_axes: int = 2,
        *,
        base: float = 10_000.0,
        layout: Literal["akp", "apk", "pak", "pka", "kap", "kpa"] = "akp",
        last_axis_first: bool = False,
        start: int = 0,
        span: float | None = None,
    ) -> None:
        require_counts(dim=dim, num_axes=num_axes)
        super().__init__(num_axes, dim)
        # An even number of columns per axis, enough to reach dim; the surplus is left out.
        axis_dim = 2 * math.ceil(dim / (2 * num_axes))
        self.last_axis_first = last_axis_first
        self.start = start
        self.span = span
        self.sincos = SinCos(num_axes, geometric_bands(axis_dim, base=base), layout=layout)

    @classmethod
    def preset(
        cls, name: str, dim: int, num_axes: int = 2, **overrides: Any
    ) -> "GridSinusoidalEncoder":
        """Make the encoder of another library: one of ``GRID_PRESETS``.

        Raises:
            ValueError: If the name is unknown.
        """
        if name not in GRID_PRESETS:
            raise ValueError(f"no preset {name!r}; there are {', '.join(sorted(GRID_PRESETS))}")
        return cls(dim, num_axes, **{**GRID_PRESETS[name], **overrides})

    def forward(self, positions: Num[Tensor, "*batch num_axes"]) -> Float[Tensor, "*batch dim"]:
        """Encode positions.

        Args:
            positions: one number for each axis, rows first; integers or reals.

        Returns:
            Embeddings in the positions' floating-point type (integers: the default one).
        """
        if self.last_axis_first:
            positions = positions.flip(-1)
        features: Tensor = self.sincos(positions)
        return features[..., : self.out_dim]

    def table(self, shape: Sequence[int]) -> Float[Tensor, "*shape dim"]:
        """Embeddings of all positions of a grid.

        Args:
            shape: its size along each axis, rows first.

        Returns:
            Embeddings ``(*shape, dim)`` in the default floating-point type.

        Raises:
            ValueError: If the shape does not have one size per axis.
        """
        if len(shape) != self.in_dim or min(shape) < 0:
            raise ValueError(
                f"shape must have {self.in_dim} sizes of 0 or more; got {tuple(shape)}"
            )
        device = self.sincos._sign.device
        indices = [torch.arange(size, device=device) + self.start for size in shape]
        if self.span is not None:
            indices = [
                index.float() / (size - 1 + self.start + self._SPAN_EPS) * self.span
                for index, size in zip(indices, shape, strict=True)
            ]
        grid = torch.stack(torch.meshgrid(*indices, indexing="ij"), dim=-1)
        embeddings: Tensor = self(grid)
        return embeddings

    def extra_repr(self) -> str:
        """Show the width and the number of axes."""
        return f"dim={self.out_dim}, num_axes={self.in_dim}"
