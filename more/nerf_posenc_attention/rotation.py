"""Base class of rotary embeddings: pairs of columns and their rotation.

Columns that form a pair, for a head of 4 columns and the angles t0 and t1 of its pairs:

    interleaved   x: [a0 b0 a1 b1]   cosine: [cos t0  cos t0  cos t1  cos t1]
    half          x: [a0 a1 b0 b1]   cosine: [cos t0  cos t1  cos t0  cos t1]
    axis-half     the same as half, in the block of columns of each axis
    tiled         x: [a0 b0 a1 b1]   cosine: as half, in the block of columns of each axis

Every pair (a, b) becomes (a cos t - b sin t, a sin t + b cos t).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.core.checks import inside_transform, is_recorded, require_positions, require_tensor
from nerf_posenc.core.encoder import Encoder

if TYPE_CHECKING:
    from jaxtyping import Float, Num

Pairing = Literal["interleaved", "half", "axis-half", "tiled"]
PAIRINGS = ("interleaved", "half", "axis-half", "tiled")


class Rotation(Encoder):
    """Base of rotary embeddings: a subclass says by which angles its ``forward`` rotates.

    Args:
        in_dim: number of axes of the positions.
        dim: width of a head.
        pairing: columns that form a pair; see [RotaryEncoder][nerf_posenc.RotaryEncoder].
        blocks: widths of the blocks of columns within which halves are paired. The columns that
            they leave over are not rotated.
        trailing: rotate the last columns, and not the first, where some are left over.
        num_heads: heads with angles of their own, for which ``forward`` gives tables
            ``(*batch, num_heads, length, rotary_dim)``; None for the same in all heads.
    """

    def __init__(
        self,
        in_dim: int,
        dim: int,
        *,
        pairing: Pairing,
        blocks: Sequence[int],
        trailing: bool = False,
        num_heads: int | None = None,
    ) -> None:
        super().__init__(in_dim, dim)
        self.num_heads = num_heads
        self.pairing = pairing
        self._blocks = tuple(blocks)
        self.trailing = trailing

    @property
    def dim(self) -> int:
        """Width of a head."""
        return self.out_dim

    @property
    def rotary_dim(self) -> int:
        """Number of columns that are rotated."""
        return sum(self._blocks)

    def rotate(
        self,
        x: Float[Tensor, "*batch rows dim"],
        positions: Num[Tensor, "*shape"] | None = None,
        *,
        sequence_dim: int = -2,
        num_prefix: int = 0,
    ) -> Float[Tensor, "*batch rows dim"]:
        """Rotate queries or keys.

        To rotate in every layer of a model, compute ``cosine, sine = rotary(positions)`` once and
        use ``rotate_with``.

        Args:
            x: features, ``(batch, heads, length, dim)``, or with ``sequence_dim=-3``
                ``(batch, length, heads, dim)``; any number of leading dimensions.
            positions: positions of each token, ``(length,)`` or ``(length, num_axes)``; for
                decoding from a cache, ``torch.arange(length) + offset``. With positions of their
                own for each sequence, ``(batch, length)`` or ``(batch, length, num_axes)``. None
                counts the tokens of a sequence from 0. Half precision has rounded what it holds:
                bfloat16 gives 256 and 257 the same angle.
            sequence_dim: dimension of ``x`` that the positions go along.
            num_prefix: number of tokens at the beginning that have no position and are left
                alone, such as a class token and registers; the positions are those of the others.

        Returns:
            Rotated features in ``x.dtype``; the rotation is computed in float32 or better.

        Raises:
            TypeError: If ``x`` or the positions are no tensor, or ``x`` no floating-point numbers.
            ValueError: If the width is not ``dim``, or the positions are not as many as the
                tokens.
        """
        if positions is None:
            require_tensor(x, "x")
            if self.in_dim > 1:
                raise ValueError(f"give positions, which have {self.in_dim} axes")
            positions = torch.arange(x.shape[sequence_dim] - num_prefix, device=x.device)
        cosine, sine = self(positions)
        return self.rotate_with(x, cosine, sine, sequence_dim=sequence_dim, num_prefix=num_prefix)

    def rotate_with(
        self,
        x: Float[Tensor, "*batch rows dim"],
        cosine: Float[Tensor, "*shape rotary_dim"],
        sine: Float[Tensor, "*shape rotary_dim"],
        *,
        sequence_dim: int = -2,
        num_prefix: int = 0,
    ) -> Float[Tensor, "*batch rows dim"]:
        """Rotate queries or keys with cosines and sines that ``forward`` gave, or with others.

        With halves of columns that are paired, both columns of a pair may have angles of their own
        (HunYuan-VL, ERNIE-Image); of interleaved pairs the first column's angle is taken.

        Args:
            x: queries or keys as for ``rotate``.
            cosine: cosine of every rotated column, ``(length, rotary_dim)``, or one such table for
                each head or sequence.
            sine: likewise.
            sequence_dim: dimension of ``x`` that the positions go along.
            num_prefix: number of tokens at the beginning that are left alone.

        Returns:
            Rotated features in ``x.dtype``.

        Raises:
            TypeError: If ``x`` is no tensor of floating-point numbers.
            ValueError: If a shape does not fit.
        """
        require_tensor(x, "x")
        if not x.is_floating_point():
            raise TypeError(f"x must hold floating-point numbers; got {x.dtype}")
        if num_prefix < 0:
            raise ValueError(f"num_prefix must be 0 or more; got {num_prefix}")
        if x.shape[-1:] != (self.dim,):
            raise ValueError(
                f"x must have shape (*batch, length, {self.dim}); got {tuple(x.shape)}"
            )
        if cosine.shape[-1:] != (self.rotary_dim,) or cosine.shape != sine.shape:
            raise ValueError(
                f"cosine and sine must both have {self.rotary_dim} columns, as forward gives them; "
                f"got {tuple(cosine.shape)} and {tuple(sine.shape)}"
            )
        if num_prefix:
            # The prefix gets cosine 1 and sine 0, a rotation by 0: its bits do not change.
            cosine = F.pad(cosine, (0, 0, num_prefix, 0), value=1.0)
            sine = F.pad(sine, (0, 0, num_prefix, 0))
        _require_length(x, cosine.shape[-2] if cosine.ndim > 1 else 0, sequence_dim, num_prefix)
        view = _beside if self.num_heads is None else self._beside_heads
        cosine, sine = view(cosine, x, sequence_dim), view(sine, x, sequence_dim)
        if self.rotary_dim == self.dim:
            return self._rotated(x, cosine, sine)
        num_rest = self.dim - self.rotary_dim
        if self.trailing:
            rest, part = x.split([num_rest, self.rotary_dim], dim=-1)
            return torch.cat([rest, self._rotated(part, cosine, sine)], dim=-1)
        part, rest = x.split([self.rotary_dim, num_rest], dim=-1)
        return torch.cat([self._rotated(part, cosine, sine), rest], dim=-1)

    def _beside_heads(self, table: Tensor, x: Tensor, sequence_dim: int) -> Tensor:
        """View tables of each head, ``(*batch, heads, length, rotary_dim)``, beside x."""
        head_dim = {-2: -3, -3: -2}.get(sequence_dim)
        if head_dim is None or x.ndim < 3 or x.shape[head_dim] != self.num_heads:
            raise ValueError(
                f"with angles of its own for each of {self.num_heads} heads x must have shape "
                "(*batch, heads, length, dim), or (*batch, length, heads, dim) with "
                f"sequence_dim=-3; got {tuple(x.shape)} and {sequence_dim}"
            )
        table = table.reshape(*(1,) * (x.ndim - table.ndim), *table.shape)
        if sequence_dim == -2:
            return _beside(table, x, sequence_dim)
        return _beside(table, x.transpose(-2, -3), -2).transpose(-2, -3)

    def _positions(self, positions: Tensor) -> Tensor:
        """Positions as ``(*batch, num_axes)``, of a type in which integers are exact."""
        require_tensor(positions, "positions")
        if self.in_dim == 1:
            require_positions(positions, self.dim, "rotate(x, positions)")
            positions = positions[..., None]
        elif positions.shape[-1:] != (self.in_dim,):
            raise ValueError(
                f"positions must have shape (*batch, {self.in_dim}), one number for each axis; "
                f"got {tuple(positions.shape)}"
            )
        if positions.dtype in (torch.float16, torch.bfloat16):
            positions = positions.float()
        return positions

    def to_columns(self, per_pair: Tensor) -> Tensor:
        """Repeat the value of each pair at both of its columns.

        ``[t0 t1]`` becomes ``[t0 t0 t1 t1]`` if interleaved, else ``[t0 t1 t0 t1]`` in each block.
        """
        if self.pairing == "interleaved":
            return per_pair.repeat_interleave(2, dim=-1)
        blocks = [per_pair]
        if len(self._blocks) > 1:
            blocks = list(per_pair.split([width // 2 for width in self._blocks], dim=-1))
        return torch.cat([block for block in blocks for _ in range(2)], dim=-1)

    def swapped(self, columns: Tensor) -> Tensor:
        """Give each column the value of its partner: ``[a0 a1 b0 b1]`` to ``[b0 b1 a0 a1]``."""
        if self.pairing == "interleaved":
            return columns  # Both columns of a pair have the same angle.
        blocks = columns.split(self._blocks, dim=-1)
        return torch.cat([half for b in blocks for half in b.chunk(2, dim=-1)[::-1]], dim=-1)

    def _rotated(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Rotate all columns of x; the tables broadcast with it."""
        # Tables of half precision, as other libraries hand them over, are no reason to round again.
        dtype = torch.promote_types(torch.promote_types(x.dtype, cosine.dtype), torch.float32)
        wide, cosine, sine = x.to(dtype), cosine.to(dtype), sine.to(dtype)
        if self.pairing == "tiled":
            a, b = wide.unflatten(-1, (-1, 2)).unbind(-1)
            # V-JEPA 2 pairs neighbors, but its tables are those of halves: a and b of one pair are
            # rotated by different angles.
            # x: [x0 x1 x2 x3]  ->  [-x1 x0 -x3 x2]
            rotated = wide * cosine + torch.stack([-b, a], dim=-1).flatten(-2) * sine
        elif (
            is_recorded()
            or inside_transform()
            or (torch.is_grad_enabled() and (cosine.requires_grad or sine.requires_grad))
        ):
            # torch.compile, torch.func and trained tables need differentiable operations.
            rotated = self._differentiable(wide, cosine, sine)
        elif torch.is_grad_enabled() and x.requires_grad:
            rotated = _RotationFunction.apply(wide, cosine, sine, self)
        else:
            rotated = self.in_place(wide, cosine, sine)
        return rotated if rotated.dtype == x.dtype else rotated.to(x.dtype)

    def _differentiable(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Rotate by plain operations on real numbers, which compilers and ONNX have."""
        if self.pairing == "interleaved":
            a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
            # cosine: [c0 c0 c1 c1]  ->  c: [c0 c1], one angle for each pair.
            c, s = cosine[..., ::2], sine[..., ::2]
            return torch.stack([a * c - b * s, a * s + b * c], dim=-1).flatten(-2)
        # In each block: [a0 a1 b0 b1]  ->  a: [a0 a1], b: [b0 b1].
        parts = zip(*(t.split(self._blocks, dim=-1) for t in (x, cosine, sine)), strict=True)
        halves: list[Tensor] = []
        for part in parts:
            (a, b), (c_a, c_b), (s_a, s_b) = (tensor.chunk(2, dim=-1) for tensor in part)
            halves += [a * c_a - b * s_a, a * s_b + b * c_b]
        return torch.cat(halves, dim=-1)

    def in_place(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Rotate without intermediate results, and without derivatives."""
        if self.pairing == "interleaved":
            # [a0 b0 a1 b1]  ->  [a0 + i b0, a1 + i b1], a view of the same memory.
            pairs = torch.view_as_complex(x.contiguous().unflatten(-1, (-1, 2)))
            turn = torch.complex(cosine[..., ::2], sine[..., ::2])
            return torch.view_as_real(pairs * turn).flatten(-2)
        # [a b] cos + [-b a] sin, without a copy of [-b a]: each half adds its second product.
        rotated = x * cosine
        halves = [width // 2 for width in self._blocks for _ in range(2)]
        parts, xs, sines = (t.split_with_sizes(halves, dim=-1) for t in (rotated, x, sine))
        for a, b in zip(range(0, len(halves), 2), range(1, len(halves), 2), strict=True):
            parts[a].addcmul_(xs[b], sines[a], value=-1)
            parts[b].addcmul_(xs[a], sines[b])
        return rotated


class _RotationFunction(torch.autograd.Function):
    """`Rotation.in_place`, whose derivative is the rotation back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cosine: Tensor, sine: Tensor, rotation: Rotation) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        ctx.rotation = rotation
        return rotation.in_place(x, cosine, sine)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        cosine, sine = ctx.saved_tensors
        # Rotation of a pair by [[cos_a, -sin_a], [sin_b, cos_b]]. Its transpose has the sines
        # exchanged and negated: the rotation back.
        back = -ctx.rotation.swapped(sine)
        return ctx.rotation._rotated(grads[0], cosine, back), None, None, None


def _require_length(x: Tensor, length: int, sequence_dim: int, num_prefix: int) -> None:
    """Refuse tables that do not have one row for each token after the prefix."""
    in_range = -x.ndim <= sequence_dim < x.ndim - 1 and sequence_dim != -1
    if not in_range or length == x.shape[sequence_dim]:
        return
    given, tokens = length - num_prefix, x.shape[sequence_dim]
    other = (
        "sequence_dim=-3 for (batch, length, heads, dim)"
        if sequence_dim == -2
        else "sequence_dim=-2 for (batch, heads, length, dim)"
    )
    raise ValueError(
        f"{given} positions for {tokens} tokens, of which {num_prefix} are a prefix: x has shape "
        f"{tuple(x.shape)}, with the sequence in dimension {sequence_dim}. Give one position for "
        f"each token after the prefix, in one row (positions of a grid: .flatten(0, -2)), "
        f"num_prefix= for tokens without one, and {other}"
    )


def _beside(table: Tensor, x: Tensor, sequence_dim: int) -> Tensor:
    """View a table ``(*lead, length, rotary_dim)`` so that it broadcasts with x.

    For x of shape ``(batch, length, heads, dim)``: ``(length, 1, rotary_dim)``, or
    ``(batch, length, 1, rotary_dim)``.
    """
    dim = sequence_dim - x.ndim if sequence_dim >= 0 else sequence_dim
    if not -x.ndim <= dim <= -2:
        raise ValueError(
            f"sequence_dim must be one of the dimensions of x but the last; got {sequence_dim} "
            f"for {tuple(x.shape)}"
        )
    inner = -2 - dim
    if inner == 0 and table.ndim == 2:
        return table
    table = table.reshape(*table.shape[:-1], *(1,) * inner, table.shape[-1])
    lead, batch = table.shape[:dim], x.shape[:dim]
    if len(lead) > len(batch) or any(
        size not in (1, whole) for size, whole in zip(lead, batch, strict=False)
    ):
        raise ValueError(
            f"positions with leading dimensions {tuple(lead)} do not fit x, whose leading "
            f"dimensions are {tuple(batch)}; give (length,) or (batch, length)"
        )
    missing = len(batch) - len(lead) if lead else 0
    return table.reshape(*lead, *(1,) * missing, *table.shape[len(lead) :])
