"""Sinusoidal embeddings of positions on a grid, as of image patches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.bands import geometric_bands
from nerf_posenc.core.checks import (
    checked_order,
    default_dtype,
    format_values,
    require_counts,
    require_positive,
    require_tensor,
    whole,
)
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.core.sinusoids import SinCos
from nerf_posenc.encoders.sinusoidal import SinusoidalEncoder
from nerf_posenc.presets.grid import GRID

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Num


class GridSinusoidalEncoder(Encoder):
    r"""Sinusoidal embeddings of positions on a 2-D or 3-D grid, with a share of the width per axis.

    Args:
        dim: width of the embedding, 1 or more.
        num_axes: number of axes, 2 or 3 (any number of 1 or more works).
        base: ratio of the longest wavelength (not reached) to the shortest.
        layout: nesting of the columns, outermost first: a axis, p phase, k band.
        axis_order: axis of the positions that each block of columns takes: ``(1, 0)`` puts those
            of the width before those of the height. None leaves them in order.
        axis_dims: columns of each block, even numbers that add up to ``dim``, if they are not
            equal; each axis then has bands of its own. For layouts with the axis outermost.
        frequencies: bands of every axis in radians per position, instead of those of ``base``. If
            they take fewer columns than ``dim``, the last columns are 0; without them there is a
            band more on each axis than fits, and the last columns are cut.
        start: position of the first row, column and so on in ``table``.
        span: scale the positions of ``table`` so that a position that equals the size of its
            axis becomes this; None leaves them as they are.
        base_size: scale the positions of ``table`` by ``base_size / size`` along each axis, as if
            every image had this many rows and columns; one number or one for each axis.
        position_scale: divide the positions of ``table`` by this; one number or one for each
            axis.
        out_dtype: type of the embeddings; None is the type that the module was last cast to, or
            the type of the positions.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> GridSinusoidalEncoder.preset("timm", dim=8).table((2, 3)).shape
        torch.Size([2, 3, 8])
    """

    children_in_repr = ("sincos", "axes")

    # DETR divides positions by (last position + 1e-6).
    _SPAN_EPS = 1e-6

    def __init__(
        self,
        dim: int,
        num_axes: int = 2,
        *,
        base: float = 10_000.0,
        layout: Literal["akp", "apk", "pak", "pka", "kap", "kpa"] = "akp",
        axis_order: Sequence[int] | None = None,
        axis_dims: Sequence[int] | None = None,
        frequencies: Float[Tensor, " num_bands"] | None = None,
        start: int | float = 0,
        span: float | None = None,
        base_size: int | float | Sequence[int | float] | None = None,
        position_scale: int | float | Sequence[int | float] = 1.0,
        out_dtype: torch.dtype | None = None,
    ) -> None:
        require_counts(dim=dim, num_axes=num_axes)
        super().__init__(num_axes, dim)
        self.base = base
        self._has_own_bands = False
        self.layout = layout
        self.axis_order = checked_order(axis_order, num_axes)
        self.start = start
        self.span = span
        self.base_size = None if base_size is None else _per_axis(base_size, num_axes, "base_size")
        self.position_scale = _per_axis(position_scale, num_axes, "position_scale")
        self.out_dtype = out_dtype
        self.axis_dims = widths = None
        if axis_dims is not None:
            self.axis_dims = widths = tuple(whole(width, "axis_dims") for width in axis_dims)
        if widths is None:
            # Round up to an even number of columns per axis; `forward` cuts the surplus.
            most = math.ceil(dim / (2 * num_axes))
            if frequencies is None:
                frequencies = geometric_bands(most, base=base)
            elif not 0 < len(frequencies) <= most:
                raise ValueError(
                    f"a width of {dim} takes 1 to {most} bands for each of {num_axes} axes; got "
                    f"{len(frequencies)}"
                )
            else:
                self._has_own_bands = True
            self.sincos = SinCos(num_axes, frequencies, layout=layout)
            return
        is_even = all(width >= 2 and width % 2 == 0 for width in widths)
        if len(widths) != num_axes or sum(widths) != dim or not is_even or layout[0] != "a":
            raise ValueError(
                f"axis_dims must be {num_axes} even widths that add up to dim = {dim}, with the "
                f"layout 'akp' or 'apk'; got {widths} and {layout!r}"
            )
        if frequencies is not None:
            raise ValueError("give frequencies or axis_dims, not both")
        self.axes = nn.ModuleList(
            SinusoidalEncoder(width, base=base, split=layout == "apk") for width in widths
        )

    @classmethod
    def preset(
        cls, name: str, dim: int, num_axes: int = 2, **overrides: Any
    ) -> "GridSinusoidalEncoder":
        """Make the encoder of another library: one of ``nerf_posenc.presets.GRID``.

        Raises:
            ValueError: If the name is unknown, and the nearest ones are given; or if the library
                refuses the width.
        """
        row = GRID[GRID.canonical(name)]
        if dim % row.multiple_of.get(num_axes, 1):
            raise ValueError(
                f"the width of {name} must be a multiple of {row.multiple_of[num_axes]}; got {dim}"
            )
        order = row.arguments.get("axis_order")
        if isinstance(order, tuple) and len(order) != num_axes:
            raise ValueError(
                f"{name} has {len(order)} axes: preset({name!r}, dim, {len(order)}); got {num_axes}"
            )
        arguments = row.arguments_with(**overrides)
        # A preset gives arguments that depend on the size as functions of (dim, num_axes).
        sized = {
            key: value(dim, num_axes) if callable(value) else value
            for key, value in arguments.items()
        }
        return cls(dim, num_axes, **sized)

    def forward(self, positions: Num[Tensor, "*batch num_axes"]) -> Float[Tensor, "*batch dim"]:
        """Encode positions.

        Args:
            positions: one number for each axis, rows first; integers or reals.

        Returns:
            Embeddings in ``out_dtype``.

        Raises:
            TypeError: If the positions are no tensor.
            ValueError: If their last dimension is not the number of axes.
        """
        require_tensor(positions, "positions")
        if positions.shape[-1:] != (self.in_dim,):
            raise ValueError(
                f"positions must have shape (*batch, {self.in_dim}); got {tuple(positions.shape)}"
            )
        ordered = [positions[..., axis] for axis in self.axis_order]
        dtype = self.features_dtype(positions)
        if self.axis_dims is None:
            features: Tensor = self.sincos(torch.stack(ordered, dim=-1), out_dtype=dtype)
            # A negative pad cuts surplus columns, a positive one appends zeros.
            surplus = self.out_dim - features.shape[-1]
            return F.pad(features, (0, surplus)) if surplus else features
        parts = [axis.embedded(part, dtype) for axis, part in zip(self.axes, ordered, strict=True)]  # type: ignore[operator]
        return torch.cat(parts, dim=-1)

    def table(self, shape: Sequence[int]) -> Float[Tensor, "*shape dim"]:
        """Embeddings of all positions of a grid.

        Args:
            shape: its size along each axis, rows first: ``(14, 14)``.

        Returns:
            Embeddings ``(*shape, dim)``, as of integer positions.

        Raises:
            TypeError: If the shape is a number.
            ValueError: If it does not have one size per axis.
        """
        embeddings: Tensor = self(self.positions(shape))
        return embeddings

    def add_to(
        self, embeddings: Float[Tensor, "*batch count dim"], shape: Sequence[int]
    ) -> Float[Tensor, "*batch count dim"]:
        """Add the embedding of each cell to that of its token.

        Args:
            embeddings: embeddings of the cells, row by row.
            shape: size of the grid along each axis, rows first.

        Raises:
            TypeError: If the shape is a number.
            ValueError: If the tokens are not as many as the cells, or of another width.
        """
        table = self.table(shape).flatten(0, -2)
        if embeddings.shape[-2:] != table.shape:
            raise ValueError(
                f"embeddings must have shape (*batch, {len(table)}, {self.out_dim}) for a grid of "
                f"{tuple(shape)}; got {tuple(embeddings.shape)}"
            )
        return embeddings + table.to(embeddings)

    def positions(self, shape: Sequence[int]) -> Num[Tensor, "*shape num_axes"]:
        """Positions of a grid, as ``table`` counts and scales them.

        Args:
            shape: its size along each axis, rows first.

        Raises:
            TypeError: If the shape is a number.
            ValueError: If it does not have one size per axis.
        """
        if not isinstance(shape, Sequence):
            raise TypeError(f"shape must have a size for each axis, as (14, 14); got {shape!r}")
        if len(shape) != self.in_dim or min(shape) < 0:
            raise ValueError(
                f"shape must have {self.in_dim} sizes of 0 or more; got {tuple(shape)}"
            )
        is_scaled = (self.span, self.base_size) != (None, None) or {*self.position_scale} != {1}
        # Indices are integers, which every type of features has exactly.
        dtype = default_dtype() if is_scaled or isinstance(self.start, float) else None
        positions = []
        for axis, size in enumerate(shape):
            position = torch.arange(size, device=self.device, dtype=dtype) + self.start
            if self.span is not None:
                position = position / (size + self._SPAN_EPS) * self.span
            if self.base_size is not None:
                position = position * (self.base_size[axis] / max(size, 1))
            if self.position_scale[axis] != 1:
                position = position / self.position_scale[axis]
            positions.append(position)
        return torch.stack(torch.meshgrid(*positions, indexing="ij"), dim=-1)

    def masked_table(
        self, mask: Bool[Tensor, "batch rows columns"]
    ) -> Float[Tensor, "batch rows columns dim"]:
        """Embeddings of padded images, whose positions count pixels that are not padding (DETR).

        Args:
            mask: True where an image is, False where it was padded. (DETR's code, and
                ``key_padding_mask``, have it the other way round.)

        Returns:
            Embeddings, as of integer positions.

        Raises:
            TypeError: If the mask is not boolean.
            ValueError: If the encoder has not 2 axes, or the mask another number of dimensions.
        """
        if self.in_dim != 2 or mask.ndim != 3:
            raise ValueError(
                f"mask must have shape (batch, rows, columns), for an encoder of 2 axes; got "
                f"{tuple(mask.shape)} and {self.in_dim} axes"
            )
        if mask.dtype != torch.bool:
            raise TypeError(f"mask must be boolean; got {mask.dtype}. Give mask > 0.5")
        positions = []
        for dim in (1, 2):
            # mask: [1 1 1 0]  ->  count: [1 2 3 3]
            count = mask.cumsum(dim).to(default_dtype())
            position = count - 1 + self.start
            if self.span is not None:
                last = count.narrow(dim, mask.shape[dim] - 1, 1)
                position = position / (last + self._SPAN_EPS) * self.span
            positions.append(position)
        embeddings: Tensor = self(torch.stack(positions, dim=-1))
        return embeddings

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        parts = [f"dim={self.out_dim}", f"num_axes={self.in_dim}", f"base={self.base:g}"]
        if self._has_own_bands:
            parts[-1] = f"frequencies={format_values(self.sincos.frequencies[:, :1])}"
        parts.append(f"layout={self.layout!r}")
        for name, plain in (
            ("axis_order", tuple(range(self.in_dim))),
            ("axis_dims", None),
            ("start", 0),
            ("span", None),
            ("base_size", None),
            ("position_scale", (1.0,) * self.in_dim),
            ("out_dtype", None),
        ):
            if getattr(self, name) != plain:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)


def _per_axis(
    value: int | float | Sequence[int | float], num_axes: int, name: str
) -> tuple[float, ...]:
    values = tuple(value) if isinstance(value, Sequence) else (float(value),) * num_axes
    if len(values) != num_axes:
        raise ValueError(f"{name} must be one number or {num_axes}; got {value}")
    require_positive(**{f"{name}[{axis}]": number for axis, number in enumerate(values)})
    return values
