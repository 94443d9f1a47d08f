"""Rows and tables of presets."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Num


@dataclass(frozen=True)
class Preset:
    """The encoding of a library or a model.

    Attributes:
        source: place of the encoding in the library, and whose else it is.
        arguments: arguments of the encoder that give its numbers. One that depends on the width of
            a head is a function of it. ``bands=None`` says that the caller gives the bands.
        note: remark on a pitfall of the preset.
        aliases: other names, of models that do the same.
        dim: width of a head in the model; None where any is usual.
        dims: width of a head of those aliases that have another one.
        token_positions: function from the sizes of a grid to the positions of its tokens, in the
            model's order; None where positions are whatever the caller has.
        multiple_of: divisor of the width that the library demands, by the number of axes; empty
            if it takes any width.
    """

    source: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    aliases: tuple[str, ...] = ()
    dim: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    token_positions: Callable[[Sequence[int]], Tensor] | None = field(default=None, repr=False)
    multiple_of: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", MappingProxyType(dict(self.arguments)))
        object.__setattr__(self, "dims", MappingProxyType(dict(self.dims)))

    def arguments_with(self, **overrides: Any) -> dict[str, Any]:
        """Arguments of the encoder.

        Args:
            overrides: arguments that differ from the preset's.

        Raises:
            ValueError: If the preset needs ``bands`` and none are given, or ``base`` is given
                for a preset with bands of its own.
        """
        arguments = {**self.arguments, **overrides}
        if self.dim is not None:
            dim = arguments.setdefault("dim", self.dim)
            arguments = {
                name: value(dim) if callable(value) else value for name, value in arguments.items()
            }
        if "bands" in arguments and arguments["bands"] is None:
            raise ValueError(f"this preset has no bands of its own; give bands=. {self.note}")
        if "base" in overrides and "bands" in self.arguments and "bands" not in overrides:
            raise ValueError(
                "this preset has bands of its own, which no base alone describes; give bands=, as "
                "from llama3_bands or geometric_bands"
            )
        return arguments

    def positions(self, shape: Sequence[int]) -> Num[Tensor, "length *axes"]:
        """Positions of the tokens of a sequence, an image or a video, in the model's order.

        Args:
            shape: ``(length,)``, ``(rows, columns)`` of patches or ``(frames, rows, columns)``,
                as the model has it.

        Returns:
            ``(length,)`` or ``(length, num_axes)``, for ``rotate``.

        Raises:
            ValueError: If the shape does not have as many sizes as the model's grid, or the preset
                does not say how positions are counted.
        """
        if not isinstance(shape, Sequence):
            raise TypeError(f"shape must have a size for each axis, as ({shape},); got {shape!r}")
        if self.token_positions is None:
            raise ValueError("this preset does not say how positions are counted")
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
) -> Preset:
    """A row of the rotary embeddings, whose arguments begin with the number of axes."""
    arguments = {"num_axes": num_axes, **arguments}
    return Preset(source, arguments, note, aliases, dim, dims or {}, token_positions)


class PresetTable(Mapping[str, Preset]):
    """Presets by name. An alias finds the row of its preset, and is not iterated over.

    Args:
        rows: presets by name.
    """

    def __init__(self, rows: Mapping[str, Preset]) -> None:
        self._rows = dict(rows)
        self._names = {alias: name for name, row in rows.items() for alias in row.aliases}
        self._names |= {name: name for name in rows}

    def __getitem__(self, name: str) -> Preset:
        return self._rows[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def canonical(self, name: str) -> str:
        """Name of a preset.

        Args:
            name: the name, or an alias.

        Raises:
            ValueError: If the name is unknown; the nearest ones are given.
        """
        if name in self._names:
            return self._names[name]
        # Of nerfacto: nerfstudio-nerfacto, then what is spelled alike.
        near = [known for known in self._names if str(name) in known.split("-")]
        near = near or difflib.get_close_matches(str(name).lower(), self._names, n=3, cutoff=0.75)
        guess = f"did you mean {' or '.join(near)}? " if near else ""
        raise ValueError(
            f"no preset {name!r}; {guess}find_encodings(text) searches presets, lines and classes"
        )
