"""Rows and tables of presets."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, TypeVar


@dataclass(frozen=True)
class Preset:
    """The encoding of a library or a model.

    Attributes:
        source: place of the encoding in the library, and whose else it is.
        arguments: arguments of the encoder that give its numbers. One that depends on the size of
            the encoder is a function of it. ``frequencies=None`` says that the
            caller gives them.
        note: remark on a pitfall of the preset.
        aliases: other names, of models that do the same.
        multiple_of: divisor of the width that the library demands, by the number of axes; empty
            if it takes any width.
    """

    source: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    aliases: tuple[str, ...] = ()
    multiple_of: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", MappingProxyType(dict(self.arguments)))

    def arguments_with(self, **overrides: Any) -> dict[str, Any]:
        """Arguments of the encoder.

        Args:
            overrides: arguments that differ from the preset's.

        Raises:
            ValueError: If the preset needs ``frequencies`` and none are given, or ``base`` is given
                for a preset with bands of its own.
        """
        arguments = {**self.arguments, **overrides}
        if "frequencies" in arguments and arguments["frequencies"] is None:
            raise ValueError(f"this preset has no bands of its own; give frequencies=. {self.note}")
        if (
            "base" in overrides
            and "frequencies" in self.arguments
            and "frequencies" not in overrides
        ):
            raise ValueError(
                "this preset has bands of its own, which no base alone describes; give "
                "frequencies=, as from geometric_bands"
            )
        return arguments


Row = TypeVar("Row", bound=Preset)


class PresetTable(Mapping[str, Row], Generic[Row]):
    """Presets by name. An alias finds the row of its preset, and is not iterated over.

    Args:
        rows: presets by name.
    """

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self._rows = dict(rows)
        self._names = {alias: name for name, row in rows.items() for alias in row.aliases}
        self._names |= {name: name for name in rows}
        self._spellings = {_key(name): name for name in self._names}

    def __getitem__(self, name: str) -> Row:
        return self._rows[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def spelled(self, name: str) -> str:
        """Name or alias as the table spells it.

        Args:
            name: the name in any case, with any dashes, underscores or spaces: ``"NeRF PyTorch"``.

        Raises:
            ValueError: If the name is unknown; the nearest ones are given.
        """
        if (key := _key(name)) in self._spellings:
            return self._spellings[key]
        # Of nerfacto: nerfstudio-nerfacto, then what is spelled alike.
        near = [known for known in self._names if key in map(_key, known.split("-"))]
        near = near or difflib.get_close_matches(str(name).lower(), self._names, n=3, cutoff=0.75)
        guess = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"no preset {name!r}{guess}")

    def canonical(self, name: str) -> str:
        """Name of the preset that a name or an alias stands for, spelled as in `spelled`."""
        return self._names[self.spelled(name)]


def _key(name: str) -> str:
    """What is left of a name without its case and separators."""
    return re.sub(r"[\s_.-]", "", str(name).lower())
