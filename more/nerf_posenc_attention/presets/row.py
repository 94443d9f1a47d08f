"""Rows of rotary embeddings: presets that also know a width and how tokens are counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torch import Tensor

from nerf_posenc.presets import Preset

if TYPE_CHECKING:
    from jaxtyping import Num


@dataclass(frozen=True)
class RotaryPreset(Preset):
    """The rotary embedding of a model.

    Attributes:
        dim: width of a head in the model.
        dims: width of a head of those aliases that have another one.
        token_positions: function from the sizes of a grid to the positions of its tokens, in the
            model's order.
    """

    dim: int = 0
    dims: Mapping[str, int] = field(default_factory=dict)
    token_positions: Callable[[Sequence[int]], Tensor] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "dims", MappingProxyType(dict(self.dims)))

    def arguments_with(self, **overrides: Any) -> dict[str, Any]:
        """Arguments of `RotaryEncoder`, at the model's width unless another ``dim`` is given.

        Raises:
            ValueError: If ``base`` is given for a preset with bands of its own.
        """
        arguments = super().arguments_with(**{"dim": self.dim, **overrides})
        dim = arguments["dim"]
        return {name: value(dim) if callable(value) else value for name, value in arguments.items()}

    def positions(self, shape: Sequence[int]) -> Num[Tensor, "length *axes"]:
        """Positions of the tokens of a sequence, an image or a video, in the model's order.

        Args:
            shape: ``(length,)``, ``(rows, columns)`` of patches or ``(frames, rows, columns)``,
                as the model has it.

        Returns:
            ``(length,)`` or ``(length, num_axes)``, for ``rotate``.

        Raises:
            TypeError: If the shape is no sequence.
            ValueError: If the shape does not have as many sizes as the model's grid.
        """
        if not isinstance(shape, Sequence):
            raise TypeError(f"shape must have a size for each axis, as ({shape},); got {shape!r}")
        assert self.token_positions is not None
        return self.token_positions(shape)


def rotary_row(
    dim: int,
    source: str,
    token_positions: Callable[[Sequence[int]], Tensor],
    num_axes: int = 1,
    aliases: tuple[str, ...] = (),
    note: str = "",
    dims: Mapping[str, int] | None = None,
    **arguments: Any,
) -> RotaryPreset:
    """A row of the table, whose arguments begin with the number of axes."""
    return RotaryPreset(
        source,
        {"num_axes": num_axes, **arguments},
        note,
        aliases,
        dim=dim,
        dims=dims or {},
        token_positions=token_positions,
    )
