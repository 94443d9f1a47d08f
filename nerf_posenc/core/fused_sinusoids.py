"""Speed and derivatives of sinusoids: chunks of rows on a CPU, and one autograd function.

`core.sinusoids` defines the numbers; nothing here changes them.

* `by_rows` evaluates a chunk of rows at a time on a CPU, so that all intermediate results stay in
  the cache and only the output has its full size. Elsewhere all rows are one chunk.
* `PairedColumns.evaluated` chooses how autograd sees the evaluation. A compiler or exporter, which
  fuses operations itself, records the plain ones, and so does forward mode: autograd functions
  know one level of it alone. Otherwise `_Sines` saves only its output: the derivative of each sine
  is the cosine in the other column of its pair, and vice versa. Its ``backward`` serves reverse
  mode (also twice), and ``vmap`` torch.func.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nerf_posenc.core.columns import Phases
from nerf_posenc.core.encoder import Encoder, in_forward_mode, is_differentiated, is_recorded

if TYPE_CHECKING:
    from jaxtyping import Float, Num

Arrays = tuple[Tensor | None, Tensor | None]
"""Arrays for sines and for cosines; None makes new ones."""

# Elements of the output in one chunk: 2^17 in float32 are 512 KiB, a quarter of a usual L2 cache.
_CHUNK = 1 << 17
_GRADIENT_CHUNK = 1 << 22
# The matrix of `partner_matrix` has 2 num_bands in_dim^2 elements, too many for more axes.
_MOST_AXES = 8


def by_rows(
    blocks: Callable[[Tensor, Tensor | None, list[Tensor] | None], list[Tensor]],
    x: Num[Tensor, "rows in_dim"],
    width: int,
    dtype: torch.dtype,
) -> Float[Tensor, "rows width"]:
    """Evaluate ``torch.cat(blocks(x, None, None), -1)``, chunk by chunk on a CPU.

    Args:
        blocks: function from rows of ``x`` to blocks of columns, from left to right. Its second
            argument is None, or an array that it may fill and return as the only block; its third
            is None, or a list of arrays that it may keep from one chunk to the next.
        x: rows.
        width: number of columns of all blocks.
        dtype: type of the columns.

    Returns:
        The columns. They have no derivatives: more than one chunk is written in place.
    """
    count = math.ceil(len(x) * width / _CHUNK) if x.device.type == "cpu" else 1
    if count <= 1:
        columns = blocks(x, None, None)
        return columns[0] if len(columns) == 1 else torch.cat(columns, dim=-1)
    out = x.new_empty(len(x), width, dtype=dtype)
    rows = math.ceil(len(x) / count)
    kept: list[Tensor] = []
    for chunk, part in zip(x.split(rows), out.split(rows), strict=True):
        columns = blocks(chunk, part, kept)
        if columns[0] is not part:
            torch.cat(columns, dim=-1, out=part)
    return out


class PairedColumns(Encoder):
    """Columns that are sines and cosines of the same angles, and their derivatives.

    Args:
        in_dim: number of coordinates.
        bands: rad per unit, ``(num_bands, in_dim)``, float64 on the CPU.
        layout: nesting of the columns, outermost first; one of ``LAYOUTS``.
        phases: order of sine and cosine.
    """

    _cycles: Tensor
    _sign: Tensor
    _partners: Tensor | None

    def __init__(
        self, in_dim: int, bands: Float[Tensor, "num_bands in_dim"], layout: str, phases: Phases
    ) -> None:
        super().__init__(in_dim, 2 * len(bands) * in_dim)
        self.num_bands = len(bands)
        self.bands = bands
        self.layout = layout
        self.phases = phases
        # Features are computed as (n, *columns), the sizes of the layout's letters, and flattened.
        self._columns = self._sizes(in_dim)
        self._x_shape = tuple(in_dim if letter == "a" else 1 for letter in layout)

    def _sizes(self, num_axes: int) -> tuple[int, ...]:
        sizes = dict(k=self.num_bands, p=2, a=num_axes)
        return tuple(sizes[letter] for letter in self.layout)

    def placed(self, value: Num[Tensor, "..."], letters: str) -> Num[Tensor, "..."]:
        """View ``value``, whose last dimensions are ``letters``, in the layout's three."""
        order = sorted(range(len(letters)), key=lambda i: self.layout.index(letters[i]))
        lead = value.ndim - len(letters)
        value = value.permute(*range(lead), *(lead + i for i in order))
        for i, letter in enumerate(self.layout):
            if letter not in letters:
                value = value.unsqueeze(lead + i)
        return value

    def blocks(
        self,
        x: Tensor,
        dtype: torch.dtype,
        out: Tensor | None = None,
        kept: list[Tensor] | None = None,
    ) -> list[Tensor]:
        """Blocks of columns, from left to right, of coordinates ``(n, in_dim)``.

        Args:
            x: coordinates.
            dtype: type of the sines.
            out: array ``(n, out_dim)`` that may be filled and returned, without derivatives.
            kept: arrays that may be kept from one chunk of rows to the next, likewise.
        """
        raise NotImplementedError

    def needs_no_chunks(self, x: Tensor, dtype: torch.dtype) -> bool:
        """Whether `blocks` fills a given array, without others that would leave the cache."""
        raise NotImplementedError

    def evaluated(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Features ``(n, out_dim)`` of coordinates ``(n, in_dim)``, differentiable."""
        if is_recorded() or in_forward_mode():
            return torch.cat(self.blocks(x, dtype), dim=-1)
        # Calling forward directly saves what an autograd function costs per call.
        sines = _Sines.apply if is_differentiated(x) else _Sines.forward
        features: Tensor = sines(x, self, dtype)
        return features

    def partner_matrix(self) -> Float[Tensor, "out_dim in_dim"] | None:
        """Signed band of each pair, at the row of its first column and the column of its axis.

        All else is 0. None where the matrix would cost more than it saves.
        """
        if self.in_dim > _MOST_AXES:
            return None
        sign = 1 if self.phases[0] == "sin" else -1
        by_axis = torch.zeros(*self._columns, self.in_dim, dtype=torch.float64, device="cpu")
        # (num_bands, 2, in_dim, in_dim), a view of the columns in the order of "kpa".
        ordered = by_axis.permute(*(self.layout.index(letter) for letter in "kpa"), 3)
        for axis in range(self.in_dim):
            ordered[:, 0, axis, axis] = sign * self.bands[:, axis]
        return by_axis.flatten(0, 2)

    def _slopes(self, features: Tensor) -> Tensor:
        """Derivative of each column, ``(n, *columns)``, with respect to its own coordinate."""
        features = features.unflatten(1, self._columns)
        omega = self._cycles.to(features) * (2 * math.pi)
        # d sin = omega cos dx and d cos = -omega sin dx: the other phase, times +-omega.
        partner = features.flip(1 + self.layout.index("p"))
        return partner * (omega * self._sign.to(features))

    def _gathered(self, grad: Tensor, features: Tensor) -> Tensor:
        """Gradient with respect to coordinates, ``(n, in_dim)``, from that of ``(n, out_dim)``."""
        # A float32 product may be rounded to TF32 or bfloat16; there sums are taken instead.
        is_whole = torch.get_float32_matmul_precision() == "highest"
        partners = self._partners if grad.device.type == "cpu" and is_whole else None
        if partners is None or torch.is_autocast_enabled("cpu"):
            slopes = self._slopes(features)
            others = [1 + i for i, letter in enumerate(self.layout) if letter != "a"]
            summed: Tensor = (grad.unflatten(1, self._columns) * slopes).sum(others)
            return summed
        # A sine and the cosine of the same angle are `shift` columns apart. For "akp", shift 1:
        # features: [sin0 cos0 sin1 cos1]   grad: [g0 h0 g1 h1]
        # pairs:    [g0 cos0 - h0 sin0,  (h0 sin1 - g1 cos0),  g1 cos1 - h1 sin1]
        # The slices also multiply columns that are not partners; their rows of `partners` are 0.
        shift = math.prod(self._columns[self.layout.index("p") + 1 :])
        ahead = grad[:, :-shift] * features[:, shift:]
        pairs = torch.addcmul(ahead, grad[:, shift:], features[:, :-shift], value=-1)
        # (n, out_dim - shift) @ (out_dim - shift, in_dim)
        gathered: Tensor = pairs @ partners[: pairs.shape[1]].to(pairs.dtype)
        return gathered


class _Sines(torch.autograd.Function):
    """`PairedColumns.blocks` joined, with derivatives that are computed from the output alone."""

    @staticmethod
    def forward(x: Tensor, table: PairedColumns, dtype: torch.dtype) -> Tensor:
        if table.needs_no_chunks(x, dtype):
            (features,) = table.blocks(x, dtype, x.new_empty(len(x), table.out_dim, dtype=dtype))
            return features
        return by_rows(
            lambda rows, out, kept: table.blocks(rows, dtype, out, kept), x, table.out_dim, dtype
        )

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, PairedColumns, torch.dtype], output: Tensor
    ) -> None:
        ctx.x_dtype, ctx.table = inputs[0].dtype, inputs[1]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        table: PairedColumns = ctx.table
        (features,) = ctx.saved_tensors
        # Intermediate results of many rows would be new memory at every step.
        rows = _GRADIENT_CHUNK // table.out_dim if grad.device.type == "cpu" else len(grad)
        parts = zip(grad.split(max(1, rows)), features.split(max(1, rows)), strict=True)
        gathered = torch.cat([table._gathered(*part) for part in parts])
        return gathered.to(ctx.x_dtype), None, None

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int, None, None],
        x: Tensor,
        table: PairedColumns,
        dtype: torch.dtype,
    ) -> tuple[Tensor, int]:
        x = x.movedim(in_dims[0], 0)
        features = _Sines.apply(x.reshape(-1, table.in_dim), table, dtype)
        return features.reshape(*x.shape[:-1], features.shape[1]), 0
