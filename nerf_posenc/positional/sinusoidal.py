"""Sinusoidal encoders of positions: in a sequence, on a grid, in time."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from nerf_posenc.core.bands import geometric_bands
from nerf_posenc.core.checks import require_counts, require_embeddings
from nerf_posenc.core.columns import Phases, column_labels
from nerf_posenc.core.sinusoids import SinCos


class SinusoidalEncoder(nn.Module):
    r"""The Transformer's sinusoidal code of a position.

    $$PE(t, 2i) = \sin(t / \text{base}^{2i/d}), \qquad
      PE(t, 2i + 1) = \cos(t / \text{base}^{2i/d})$$

    (Vaswani et al. 2017, section 3.5): sines on even columns, cosines on odd ones, with
    wavelengths in a geometric series from $2\pi$ towards $\text{base} \cdot 2\pi$. It is
    [FourierEncoder][nerf_posenc.FourierEncoder] with these bands on the one coordinate t.

    Args:
        dim: width of the code, 1 or more. With an odd width the last column is a sine
            without its cosine.
        base: ratio of the longest wavelength (not reached) to the shortest.
        bands: other bands, rad per position, float64. Columns beyond ``dim`` are left out,
            and where there are too few the last columns are 0.
        split: all of the first phase, then all of the second, in place of pairs.
        phases: which of sine and cosine comes first.

    Raises:
        ValueError: where ``dim`` is below 1 or ``base`` is not finite and positive.

    Examples:
        >>> SinusoidalEncoder(4, base=100.0).table(2)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0998, 0.9950]])
    """

    def __init__(
        self,
        dim: int,
        *,
        base: float = 10_000.0,
        bands: Float[Tensor, " num_bands"] | None = None,
        split: bool = False,
        phases: Phases = ("sin", "cos"),
    ) -> None:
        super().__init__()
        bands = geometric_bands(dim, base=base) if bands is None else bands
        if dim < 1:
            raise ValueError(f"dim must be 1 or more; got {dim}")
        self._dim = dim
        self.sincos = SinCos(1, bands, layout="pka" if split else "akp", phases=phases)

    @classmethod
    def timestep(
        cls, dim: int, *, base: float = 10_000.0, flip: bool = False
    ) -> "SinusoidalEncoder":
        """Embedding of a diffusion model's timestep, as diffusers has it.

        All sines, then all cosines; the last wavelength is ``base * 2 pi`` itself. An odd
        width ends in a column of zeros.

        Args:
            dim: width, 4 or more.
            base: the longest wavelength over the shortest.
            flip: cosines first and bands as in the Transformer: diffusers'
                ``flip_sin_to_cos=True, downscale_freq_shift=0`` of Stable Diffusion.

        Raises:
            ValueError: where ``dim`` is below 4.
        """
        if dim < 4:
            raise ValueError(f"dim must be 4 or more; got {dim}")
        even = dim - dim % 2
        bands = geometric_bands(even, base=base, last_reached=not flip)
        phases: Phases = ("cos", "sin") if flip else ("sin", "cos")
        return cls(dim, bands=bands, split=True, phases=phases)

    @property
    def in_dim(self) -> int:
        """Number of coordinates: one, the position."""
        return 1

    @property
    def out_dim(self) -> int:
        """Width of the code."""
        return self._dim

    def forward(self, positions: Num[Tensor, "*batch"]) -> Float[Tensor, "*batch dim"]:
        """Encode positions.

        Args:
            positions: 0-based, integers or reals, of any sign and batch shape. Integers
                are exact up to 2**53.

        Returns:
            Codes in the positions' floating-point type (integers: the default one).
        """
        features: Tensor = self.sincos(positions[..., None])
        missing = self.out_dim - self.sincos.out_dim
        if missing > 0:
            return nn.functional.pad(features, (0, missing))
        return features[..., : self.out_dim]

    def table(self, length: int, *, offset: int | float = 0) -> Float[Tensor, "length dim"]:
        """Codes of ``length`` positions from ``offset`` on.

        Args:
            length: number of positions, 0 or more.
            offset: the first position.

        Returns:
            One row a position, in the default floating-point type.

        Raises:
            ValueError: where ``length`` is negative.
        """
        if length < 0:
            raise ValueError(f"length must be 0 or more; got {length}")
        codes: Tensor = self(torch.arange(length, device=self.sincos._sign.device) + offset)
        return codes

    def add_to(
        self, embeddings: Float[Tensor, "*batch length dim"], *, offset: int | float = 0
    ) -> Float[Tensor, "*batch length dim"]:
        """Add the code of each position to its token's embedding.

        Args:
            embeddings: token embeddings, the last two dimensions being position and width.
            offset: position of the first token, as when decoding goes on from a cache.

        Returns:
            The sum, in the embeddings' type; the codes are made in float32 whatever it is.

        Raises:
            ValueError: where the width is not ``dim``.
        """
        require_embeddings(embeddings, self.out_dim)
        codes = self.table(embeddings.shape[-2], offset=offset)
        return embeddings + codes.to(embeddings)

    def shift_matrix(self, offset: int | float) -> Float[Tensor, "dim dim"]:
        r"""The matrix T that moves every code by the same offset.

        $PE(t + \text{offset}) = T\, PE(t)$ for all t: a rotation of each pair, which is why a
        network can attend by offset (Vaswani et al. 2017, section 3.5).

        Args:
            offset: number of positions, integer or real, of any sign.

        Returns:
            The matrix in float64.

        Raises:
            ValueError: where a column has lost its partner, as the last one of an odd width.
        """
        if self.out_dim != self.sincos.out_dim:
            raise ValueError(
                f"a width of {self.out_dim} leaves a sine without its cosine, so no matrix "
                "shifts it; use an even width"
            )
        labels = column_labels(1, self.sincos.num_bands, self.sincos.layout, self.sincos.phases)
        place = {label: i for i, label in enumerate(labels)}
        turned: Tensor = self.sincos(torch.tensor([offset], dtype=torch.float64)).cpu()
        matrix = torch.zeros(self.out_dim, self.out_dim, dtype=torch.float64)
        for (band, phase, axis), row in place.items():
            sine, cosine = (turned[place[band, name, axis]] for name in ("sin", "cos"))
            partner = place[band, "cos" if phase == "sin" else "sin", axis]
            matrix[row, row] = cosine
            matrix[row, partner] = sine if phase == "sin" else -sine
        return matrix

    def similarity(
        self, positions: Num[Tensor, " rows"], others: Num[Tensor, " columns"]
    ) -> Float[Tensor, "rows columns"]:
        r"""Products of the codes of positions, $\sum_i \cos(\omega_i (s - t))$.

        They depend on the offset alone, and are largest where it is 0.

        Args:
            positions: of the rows.
            others: of the columns.

        Returns:
            One product for each pair.
        """
        codes: Tensor = self(positions)
        other_codes: Tensor = self(others)
        return codes @ other_codes.T

    def extra_repr(self) -> str:
        """Show the width."""
        return f"dim={self.out_dim}"


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


class GridSinusoidalEncoder(nn.Module):
    r"""Sinusoidal codes of positions on a 2-D or 3-D grid, the width shared out by axis.

    Args:
        dim: width of the code, 1 or more.
        num_axes: number of axes, 2 or 3 (any number of 1 or more works).
        base: ratio of the longest wavelength (not reached) to the shortest.
        layout: nesting of the columns, outermost first: a axis, p phase, k band.
        last_axis_first: put the last axis (width) before the others.
        start: index of the first row, column and so on in ``table``.
        span: scale the indices of ``table`` so that the last one of each axis is this;
            None leaves them as they are.

    Raises:
        ValueError: where ``dim`` or ``num_axes`` is below 1.

    Examples:
        >>> GridSinusoidalEncoder.preset("timm", dim=8).table((2, 3)).shape
        torch.Size([2, 3, 8])
    """

    # What DETR adds to the last index before it divides by it.
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
        super().__init__()
        require_counts(dim=dim, num_axes=num_axes)
        # An even number of columns an axis, as many as reach dim; what is over is left out.
        axis_dim = 2 * math.ceil(dim / (2 * num_axes))
        self._dim = dim
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
            ValueError: where the name is unknown.
        """
        if name not in GRID_PRESETS:
            raise ValueError(f"no preset {name!r}; there are {', '.join(sorted(GRID_PRESETS))}")
        return cls(dim, num_axes, **{**GRID_PRESETS[name], **overrides})

    @property
    def in_dim(self) -> int:
        """Number of axes."""
        return self.sincos.in_dim

    @property
    def out_dim(self) -> int:
        """Width of the code."""
        return self._dim

    def forward(self, positions: Num[Tensor, "*batch num_axes"]) -> Float[Tensor, "*batch dim"]:
        """Encode positions.

        Args:
            positions: one number for each axis, rows first; integers or reals.

        Returns:
            Codes in the positions' floating-point type (integers: the default one).
        """
        if self.last_axis_first:
            positions = positions.flip(-1)
        features: Tensor = self.sincos(positions)
        return features[..., : self.out_dim]

    def table(self, shape: Sequence[int]) -> Float[Tensor, "*shape dim"]:
        """Codes of all positions of a grid.

        Args:
            shape: its size along each axis, rows first.

        Returns:
            Codes ``(*shape, dim)`` in the default floating-point type.

        Raises:
            ValueError: where the shape has not one size for each axis.
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
        codes: Tensor = self(grid)
        return codes

    def extra_repr(self) -> str:
        """Show the width and the number of axes."""
        return f"dim={self.out_dim}, num_axes={self.in_dim}"
