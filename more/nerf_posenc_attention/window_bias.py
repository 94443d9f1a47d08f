"""Learned bias of attention scores within windows of patches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nerf_posenc.core.checks import require_counts, without_autocast
from nerf_posenc.core.grids import grid_positions
from nerf_posenc_attention.relative_bias import draw_linears

if TYPE_CHECKING:
    from jaxtyping import Float


class WindowBias(nn.Module):
    """Swin Transformer's bias: a number for each offset of two patches of a window, and each head.

    Liu et al. 2021 (arXiv:2103.14030), section 3.2. ``table`` is their
    ``relative_position_bias_table``, so a checkpoint needs no other order.

    Args:
        num_heads: number of heads, 1 or more.
        window: size in patches along each axis, 1 or more: height and width, or frames, height and
            width as in Video Swin.
        has_class_token: whether a class token stands before the patches, as in BEiT: the last three
            rows of the table are the bias from it to patches, from patches to it, and its own.
        is_absolute: whether an offset and its negative share a number, as in LeViT, whose
            ``attention_biases`` are the table transposed.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> WindowBias(4, (7, 7))().shape
        torch.Size([4, 49, 49])
    """

    def __init__(
        self,
        num_heads: int,
        window: Sequence[int],
        *,
        has_class_token: bool = False,
        is_absolute: bool = False,
    ) -> None:
        if not isinstance(window, Sequence) or not window:
            raise TypeError(f"window must have a size for each axis, as (7, 7); got {window!r}")
        require_counts(
            num_heads=num_heads, **{f"window[{axis}]": size for axis, size in enumerate(window)}
        )
        super().__init__()
        self.window = tuple(window)
        self.has_class_token = has_class_token
        self.is_absolute = is_absolute
        self._num_offsets = math.prod(self._sizes)
        self.table = nn.Parameter(torch.empty(self._num_offsets + 3 * has_class_token, num_heads))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Set the biases to 0."""
        nn.init.zeros_(self.table)

    @property
    def _sizes(self) -> list[int]:
        """Number of offsets along each axis."""
        return [size if self.is_absolute else 2 * size - 1 for size in self.window]

    def forward(self) -> Float[Tensor, "num_heads length length"]:
        """Bias to add to the attention scores of the window's tokens, patches row by row."""
        offsets = self.table[: self._num_offsets].unflatten(0, self._sizes)
        if self.is_absolute:
            # For size 3, the offsets [-2 -1 0 1 2] take the rows [2 1 0 1 2].
            for axis, size in enumerate(self.window):
                offsets = offsets.index_select(
                    axis, torch.arange(1 - size, size).abs().to(offsets.device)
                )
        patches = _pair_biases(offsets, self.window)
        if not self.has_class_token:
            return patches
        to_patches, from_patches, own = self.table[self._num_offsets :, :, None, None]
        length = patches.shape[-1]
        first = torch.cat([own, to_patches.expand(-1, 1, length)], dim=-1)
        others = torch.cat([from_patches.expand(-1, length, 1), patches], dim=-1)
        return torch.cat([first, others], dim=-2)

    def extra_repr(self) -> str:
        """Show the window."""
        parts = [f"window={self.window}, has_class_token={self.has_class_token}"]
        return ", ".join(parts + ["is_absolute=True"] * self.is_absolute)


class LogCPBBias(nn.Module):
    r"""Log-spaced continuous position bias of Swin Transformer V2, for windows of patches.

    A small network of the offsets along both axes, $\mathrm{sign}(x) \log_2(1 + |x|)/3$ of
    offsets scaled to [-8, 8], gives the bias of each head, which a sigmoid keeps in 0 to 16 (Liu
    et al. 2022, arXiv:2111.09883, section 3.3, and the authors' code).

    Args:
        num_heads: number of heads, 1 or more.
        width: hidden units, 1 or more.
        pretrained_window: window that offsets are scaled by, when another is used than in
            training; None is the window itself.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> LogCPBBias(4)((7, 7)).shape
        torch.Size([4, 49, 49])
    """

    def __init__(
        self, num_heads: int, *, width: int = 512, pretrained_window: Sequence[int] | None = None
    ) -> None:
        require_counts(num_heads=num_heads, width=width)
        if pretrained_window is not None and (
            len(pretrained_window) != 2 or min(pretrained_window) < 2
        ):
            raise ValueError(
                "pretrained_window must be (height, width), sides of 2 or more; got "
                f"{tuple(pretrained_window)}"
            )
        super().__init__()
        self.pretrained_window = None if pretrained_window is None else tuple(pretrained_window)
        self.network = nn.Sequential(
            nn.Linear(2, width), nn.ReLU(), nn.Linear(width, num_heads, bias=False)
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the network as ``nn.Linear`` does."""
        draw_linears(self.network, generator)

    def coordinates(self, window: Sequence[int]) -> Float[Tensor, "rows columns 2"]:
        """Log-spaced offsets of a window, ``(2 h - 1, 2 w - 1, 2)``, in float32 at least.

        Args:
            window: height and width in patches, 2 or more each.

        Raises:
            ValueError: If a side is below 2.
        """
        if len(window) != 2 or min(window) < 2:
            raise ValueError(f"window must be (height, width) of 2 or more; got {tuple(window)}")
        weight: Tensor = self.network[0].weight  # type: ignore[assignment]
        dtype = torch.promote_types(weight.dtype, torch.float32)
        scale = self.pretrained_window or window
        axes = [
            torch.arange(1 - size, size, device=weight.device, dtype=dtype) / (by - 1) * 8
            for size, by in zip(window, scale, strict=True)
        ]
        offsets = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
        return offsets.sign() * torch.log2(offsets.abs() + 1) / 3

    def forward(self, window: Sequence[int]) -> Float[Tensor, "num_heads length length"]:
        """Bias to add to the attention scores of a window's patches, row by row.

        Args:
            window: height and width in patches, 2 or more each.

        Raises:
            ValueError: If a side is below 2.
        """
        coordinates = self.coordinates(window)
        # A bias is no feature: autocast would round it, for the few offsets of a window.
        with without_autocast(coordinates):
            logits = self.network(coordinates.to(next(self.network.parameters()).dtype))
            biases = 16 * torch.sigmoid(logits)
        return _pair_biases(biases, window)

    def extra_repr(self) -> str:
        """Show what offsets are scaled by."""
        return f"pretrained_window={self.pretrained_window}"


def _pair_biases(biases: Tensor, window: Sequence[int]) -> Tensor:
    """Biases by offset, ``(*(2 size - 1), heads)``, of all pairs of patches of a window."""
    positions = grid_positions(window, device=biases.device).flatten(0, -2)
    # (length, length, num_axes): offsets along each axis plus size - 1, from 0 to 2 size - 2.
    steps = positions[:, None] - positions + positions.new_tensor(window) - 1
    return biases[tuple(steps.unbind(-1))].movedim(-1, 0)
