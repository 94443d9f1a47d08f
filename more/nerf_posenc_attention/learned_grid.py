"""Learned position embeddings of image patches, resized to other resolutions."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.checks import (
    inside_transform,
    is_recorded,
    require_counts,
    require_positive,
    require_tensor,
)
from nerf_posenc.core.encoder import Encoder

if TYPE_CHECKING:
    from jaxtyping import Float, Int

# No model has more prefix tokens; with more, the given shape must be wrong.
_MOST_PREFIX = 16
# None; class token; class and distillation token; class token and four registers.
_USUAL_PREFIXES = (0, 1, 2, 5)


def resize_positions(
    table: Float[Tensor, "*one count dim"],
    new_shape: Sequence[int],
    *,
    shape: Sequence[int] | None = None,
    **how: Any,
) -> Float[Tensor, "*one new_count dim"]:
    """Resample the learned positions of a checkpoint to another grid; prefix tokens stay.

    Args:
        table: prefix tokens, such as the class token, then the patches row by row, ``(count, dim)``
            or ``(1, count, dim)``.
        new_shape: rows and columns of patches that are wanted.
        shape: rows and columns of patches in training; None for a square, beside which there are 0,
            1, 2 or 5 prefix tokens.
        how: ``mode``, ``antialias``, ``align_corners`` and ``scale_offset`` as in
            ``LearnedGridEncoder.table``: ``antialias=True`` is timm's ``resample_abs_pos_embed``,
            ``scale_offset=0.1`` DINOv2's first release.

    Raises:
        TypeError: If the table does not hold floating-point numbers.
        ValueError: If the table is not that of such a grid.

    Examples:
        >>> resize_positions(torch.rand(1, 197, 768), (16, 20), antialias=True).shape
        torch.Size([1, 321, 768])
    """
    require_tensor(table, "table")
    if not table.is_floating_point():
        raise TypeError(f"table must hold floating-point numbers; got {table.dtype}")
    if shape is None:
        side = math.isqrt(table.shape[-2])
        if table.shape[-2] - side * side not in _USUAL_PREFIXES:
            raise ValueError(
                f"a table of {table.shape[-2]} embeddings is no square, alone or with 1, 2 or 5 "
                "prefix tokens; give shape="
            )
        shape = (side, side)
    encoder = LearnedGridEncoder.from_table(table, shape)
    with torch.no_grad():
        resized = encoder.table(new_shape, **how)
    return resized.detach().reshape(*table.shape[:-2], *resized.shape)


class LearnedGridEncoder(Encoder):
    """A trained embedding for each patch of an image, with bicubic resizing (ViT, CLIP, DINOv2).

    At another resolution than in training the embeddings are resampled as an image (Dosovitskiy
    et al. 2021, section 3.2). Libraries do it with different settings, which change the
    numbers: transformers' ViT and CLIP ``antialias=False``, timm ``antialias=True``, DINOv2's
    first release ``scale_offset=0.1``, Qwen3-VL ``mode="bilinear"`` and ``align_corners=True``.

    Args:
        shape: rows and columns of patches in training.
        dim: width of an embedding, 1 or more.
        num_prefix: embeddings of tokens before the patches, such as the class token; they are
            not resized.
        std: standard deviation of the initial embeddings.
        generator: random number generator; None is torch's own.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> encoder = LearnedGridEncoder((14, 14), 768, num_prefix=1)
        >>> encoder.table((16, 20)).shape
        torch.Size([321, 768])
    """

    def __init__(
        self,
        shape: Sequence[int],
        dim: int,
        *,
        num_prefix: int = 0,
        std: float = 0.02,
        generator: torch.Generator | None = None,
    ) -> None:
        if not isinstance(shape, Sequence):
            raise TypeError(f"shape must be (rows, columns), as ({shape}, {shape}); got {shape}")
        if len(shape) != 2 or num_prefix < 0:
            raise ValueError(
                f"shape must be (rows, columns) and num_prefix 0 or more; got {tuple(shape)} and "
                f"{num_prefix}"
            )
        require_counts(rows=shape[0], columns=shape[1], dim=dim)
        require_positive(std=std)
        super().__init__(2, dim)
        self.shape = (shape[0], shape[1])
        self.num_prefix = num_prefix
        count = num_prefix + shape[0] * shape[1]
        self.std = std
        self.codes = nn.Parameter(torch.empty(count, dim))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the embeddings."""
        nn.init.normal_(self.codes, 0, self.std, generator=generator)

    @classmethod
    def from_table(
        cls,
        table: Float[Tensor, "*one count dim"],
        shape: Sequence[int],
        *,
        num_prefix: int | None = None,
    ) -> "LearnedGridEncoder":
        """Take the embeddings of a checkpoint, as its ``pos_embed``.

        Args:
            table: prefix tokens, then the patches row by row, ``(count, dim)`` or
                ``(1, count, dim)``.
            shape: rows and columns of patches.
            num_prefix: number of prefix tokens; None takes those that are left over, at most 16.

        Raises:
            ValueError: If the table has not as many embeddings as tokens.
        """
        require_tensor(table, "table")
        if table.ndim not in (2, 3) or (table.ndim == 3 and len(table) != 1):
            raise ValueError(
                f"table must have shape (count, dim) or (1, count, dim); got {tuple(table.shape)}"
            )
        table = table.reshape(-1, table.shape[-1])
        left = len(table) - shape[0] * shape[1]
        if left < 0 or left > _MOST_PREFIX or num_prefix not in (None, left):
            raise ValueError(
                f"a table of {len(table)} embeddings is not that of {shape[0]} x {shape[1]} = "
                f"{shape[0] * shape[1]} patches and "
                f"{'a few' if num_prefix is None else num_prefix} tokens before them; give the "
                "shape of training"
            )
        num_prefix = left
        encoder = cls(shape, table.shape[-1], num_prefix=num_prefix)
        encoder.codes = nn.Parameter(table.detach().clone())
        return encoder

    def table(
        self,
        shape: Sequence[int] | None = None,
        *,
        mode: Literal["bicubic", "bilinear"] = "bicubic",
        antialias: bool = False,
        align_corners: bool = False,
        scale_offset: float = 0.0,
    ) -> Float[Tensor, "count dim"]:
        """Embeddings of all tokens of an image.

        Args:
            shape: rows and columns of patches; None is that of training.
            mode: mode of resampling.
            antialias: smooth before the image is made smaller, as timm does.
            align_corners: let the first and last patches stay at the ends, as Qwen3-VL does.
            scale_offset: resample by the factor ``(size + scale_offset) / trained size`` instead of
                by the sizes: 0.1 in DINOv2's first release.

        Returns:
            Prefix tokens, then patches row by row, ``(num_prefix + rows * columns, dim)``.

        Raises:
            ValueError: If the shape is not two sizes of 1 or more.
        """
        if shape is not None and (not isinstance(shape, Sequence) or len(shape) != 2):
            raise ValueError(f"shape must be (rows, columns), 1 or more; got {shape}")
        shape = self.shape if shape is None else (shape[0], shape[1])
        if min(shape) < 1 or mode not in ("bicubic", "bilinear"):
            raise ValueError(
                "shape must be (rows, columns), 1 or more, and mode 'bicubic' or 'bilinear'; got "
                f"{shape} and {mode!r}"
            )
        if shape == self.shape:
            return self.codes
        prefix, patches = self.codes.split([self.num_prefix, len(self.codes) - self.num_prefix])
        # (rows * columns, dim) -> (1, dim, rows, columns), the layout of F.interpolate.
        image = patches.unflatten(0, self.shape).movedim(-1, 0)[None]
        # Some devices have no bicubic kernel for half precision.
        image = image.to(torch.promote_types(image.dtype, torch.float32))
        options: dict[str, Any] = {
            "mode": mode,
            "antialias": antialias,
            "align_corners": align_corners,
        }
        if scale_offset:
            factors = [
                (size + scale_offset) / trained
                for size, trained in zip(shape, self.shape, strict=True)
            ]
            resized = F.interpolate(image, scale_factor=factors, **options)
        else:
            resized = F.interpolate(image, size=shape, **options)
        # (1, dim, new rows, new columns) -> (new rows * new columns, dim)
        patches = resized[0].movedim(0, -1).flatten(0, 1).to(prefix.dtype)
        return torch.cat([prefix, patches])

    def add_to(
        self, embeddings: Float[Tensor, "*batch count dim"], shape: Sequence[int] | None = None
    ) -> Float[Tensor, "*batch count dim"]:
        """Add the embedding of each position to that of its token.

        Args:
            embeddings: embeddings of prefix tokens and patches, row by row.
            shape: rows and columns of patches; None is that of training.

        Raises:
            ValueError: If the tokens are not as many as the positions.
        """
        table = self.table(shape)
        if embeddings.shape[-2:] != table.shape:
            raise ValueError(
                f"embeddings must have shape (*batch, {len(table)}, {self.out_dim}), "
                f"{self.num_prefix} tokens and {shape or self.shape} patches; got "
                f"{tuple(embeddings.shape)}"
            )
        return embeddings + table.to(embeddings)

    def extra_repr(self) -> str:
        """Show the size of the table."""
        return f"shape={self.shape}, dim={self.out_dim}, num_prefix={self.num_prefix}"


class LearnedAxialEncoder(Encoder):
    """A trained embedding for each row and one for each column (DETR, BEVFormer, Reformer).

    The embeddings of a patch's axes are concatenated, as in ``PositionEmbeddingLearned`` of DETR
    and ``LearnedPositionalEncoding`` of mmdet, or added, as in NaViT and in timm's NaFlex. An axis
    has its embeddings in ``codes[axis]``: ``codes[0]`` is DETR's ``row_embed.weight``.

    Args:
        lengths: number of positions along each axis, as ``(50, 50)`` in DETR.
        dim: width of an embedding; divisible by the number of axes where they are concatenated
            and have no ``axis_dims``.
        axis_dims: columns of each axis where they are concatenated, which add up to ``dim``, as in
            Reformer; None for equal shares.
        reduce: ``"concatenate"`` or ``"sum"``.
        axis_order: order in which axes are concatenated; None is theirs. DETR and mmdet have
            columns first, ``(1, 0)``.
        std: standard deviation of the initial embeddings.
        generator: random number generator; None is torch's own.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> encoder = LearnedAxialEncoder((50, 50), 256, axis_order=(1, 0))
        >>> encoder.table((25, 34)).shape
        torch.Size([25, 34, 256])
    """

    def __init__(
        self,
        lengths: Sequence[int],
        dim: int,
        *,
        axis_dims: Sequence[int] | None = None,
        reduce: Literal["concatenate", "sum"] = "concatenate",
        axis_order: Sequence[int] | None = None,
        std: float = 0.02,
        generator: torch.Generator | None = None,
    ) -> None:
        if not isinstance(lengths, Sequence) or not lengths:
            raise TypeError(f"lengths must be one for each axis, as (50, 50); got {lengths!r}")
        require_counts(dim=dim, **{f"lengths[{i}]": length for i, length in enumerate(lengths)})
        require_counts(**{f"axis_dims[{i}]": n for i, n in enumerate(axis_dims or ())})
        require_positive(std=std)
        order = tuple(axis_order or range(len(lengths)))
        if reduce not in ("concatenate", "sum") or sorted(order) != list(range(len(lengths))):
            raise ValueError(
                f"reduce must be 'concatenate' or 'sum' and axis_order name each of "
                f"{len(lengths)} axes once; got {reduce!r} and {axis_order}"
            )
        share = dim // len(lengths) if reduce == "concatenate" else dim
        widths = [share] * len(lengths) if axis_dims is None else list(axis_dims)
        if reduce == "concatenate" and (len(widths) != len(lengths) or sum(widths) != dim):
            raise ValueError(
                f"dim must be divisible by {len(lengths)} axes, or be the sum of their axis_dims; "
                f"got {dim} and {axis_dims}"
            )
        if reduce == "sum" and axis_dims is not None:
            raise ValueError("axes that are added have the width dim; leave axis_dims out")
        super().__init__(len(lengths), dim)
        self.reduce = reduce
        self.axis_order = order
        self.std = std
        self.codes = nn.ParameterList(
            torch.empty(length, width) for length, width in zip(lengths, widths, strict=True)
        )
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the embeddings, one axis after the other."""
        for codes in self.codes:
            nn.init.normal_(codes, 0, self.std, generator=generator)

    def forward(self, positions: Int[Tensor, "*batch num_axes"]) -> Float[Tensor, "*batch dim"]:
        """Look embeddings up.

        Args:
            positions: integers from 0 to the length of their axis - 1, any batch shape.

        Raises:
            TypeError: If the positions are not integers.
            ValueError: If the last dimension is not the number of axes, or a position is not one of
                its axis (checked on the CPU, where the check does not wait for a device).
        """
        require_tensor(positions, "positions")
        if positions.is_floating_point():
            raise TypeError(f"positions must be integers; got {positions.dtype}")
        if positions.shape[-1:] != (self.in_dim,):
            raise ValueError(
                f"positions must have shape (*batch, {self.in_dim}); got {tuple(positions.shape)}"
            )
        lengths = [len(codes) for codes in self.codes]
        if positions.is_cpu and not (inside_transform() or is_recorded()):
            flat = positions.reshape(-1, self.in_dim)
            outside = (flat < 0) | (flat >= flat.new_tensor(lengths))
            if bool(outside.any()):
                wrong = flat[outside.any(dim=1)][0].tolist()
                raise ValueError(f"positions must be from 0 to below {lengths}; got {wrong}")
        # One (*batch, width) for each axis.
        return self._joined(
            [F.embedding(positions[..., axis].long(), self.codes[axis]) for axis in self.axis_order]
        )

    def table(self, shape: Sequence[int], *, resample: bool = False) -> Float[Tensor, "*shape dim"]:
        """Embeddings of a grid.

        Args:
            shape: size along each axis.
            resample: stretch the embeddings of each axis to its size, linearly, as timm's NaFlex
                models do. By default a cell has the embeddings of its indices.

        Raises:
            ValueError: If a size is below 1, or larger than the axis has embeddings and they are
                not resampled.
        """
        lengths = tuple(len(codes) for codes in self.codes)
        if not isinstance(shape, Sequence) or len(shape) != len(lengths) or min(shape) < 1:
            raise ValueError(f"shape must have {len(lengths)} sizes of 1 or more; got {shape}")
        if not resample and any(map(operator.gt, shape, lengths)):
            raise ValueError(
                f"shape must be at most {lengths}; got {tuple(shape)}. resample=True stretches the "
                "embeddings"
            )
        parts = []
        for axis in self.axis_order:
            codes, size = self.codes[axis], shape[axis]
            if resample and size != len(codes):
                # (length, width) -> (1, width, length), the layout of F.interpolate.
                line = codes.to(torch.promote_types(codes.dtype, torch.float32)).T[None]
                codes = F.interpolate(line, size, mode="linear")[0].T.to(codes.dtype)
            # (size, width), with size 1 along the other axes, in front of the width.
            along = [size if other == axis else 1 for other in range(len(shape))]
            parts.append(codes[:size].reshape(*along, -1).expand(*shape, -1))
        return self._joined(parts)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        """Embeddings of all axes, each ``(*batch, width)``, concatenated or added."""
        return (
            torch.cat(parts, dim=-1) if self.reduce == "concatenate" else sum(parts[1:], parts[0])
        )

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        lengths, widths = zip(*(codes.shape for codes in self.codes), strict=True)
        own = f", axis_dims={widths}" if len(set(widths)) > 1 else ""
        return (
            f"lengths={lengths}, dim={self.out_dim}{own}, reduce={self.reduce!r}, "
            f"axis_order={self.axis_order}"
        )
