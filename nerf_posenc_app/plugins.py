"""Tables that other distributions can add rows to, and how to install what is missing."""

import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, cast

Value = TypeVar("Value")


class PluginError(ImportError):
    """A value that another distribution names cannot be imported, or is of a wrong type."""


def how_to_install(extra: str = "", *, companion: bool = False) -> str:
    """The command that installs an extra of this project, for error messages.

    The distributions are on no package index; they are installed from a clone.

    Args:
        extra: name of the extra; empty for the distribution alone.
        companion: whether the extra is of nerf-posenc-more instead of nerf_posenc.

    Examples:
        >>> how_to_install("images")
        "pip install '.[images]' in the clone of nerf_posenc"
    """
    folder = "./more" if companion else "."
    target = f"'{folder}[{extra}]'" if extra else folder
    return f"pip install {target} in the clone of nerf_posenc"


class PluginTable(MutableMapping[str, Value]):
    """Values by name: those of this project, and those that entry points of a group name.

    A value is imported when it is asked for, not when the table is made or its names are listed. A
    name of this project cannot be taken by another distribution.

    Args:
        group: group of the entry points, such as ``"nerf_posenc.kinds"``.
        own: values of this project, or where they are, as ``"package.module:name"``.
        accept: function from what an entry point names to a value of the table; it raises TypeError
            for what is none. None takes everything.

    Examples:
        >>> table = PluginTable("nerf_posenc.examples", {"sqrt": "math:sqrt", "two": 2})
        >>> list(table), table["sqrt"](16.0), table["two"]
        (['sqrt', 'two'], 4.0, 2)
    """

    def __init__(
        self,
        group: str,
        own: Mapping[str, Value | str],
        *,
        accept: Callable[[Any], Value] | None = None,
    ) -> None:
        self.group, self._accept = group, accept
        self._values: dict[str, Value | str | EntryPoint] = dict(own)
        self._is_complete = False

    def _all(self) -> dict[str, Value | str | EntryPoint]:
        # Entry points are looked for once: every installed distribution has a file of them.
        if not self._is_complete:
            self._is_complete = True
            for point in sorted(entry_points(group=self.group)):
                first = self._values.setdefault(point.name, point)
                # Metadata of one distribution may be found twice.
                is_same = isinstance(first, EntryPoint) and first.value == point.value
                if first is not point and not is_same:
                    warnings.warn(
                        f"{point.name} = {point.value} ({self.group}) is not used: the name is "
                        "taken",
                        stacklevel=2,
                    )
        return self._values

    def __getitem__(self, name: str) -> Value:
        value = self._values[name] if name in self._values else self._all()[name]
        if isinstance(value, str):
            module, _, attribute = value.partition(":")
            value = cast(Value, getattr(importlib.import_module(module), attribute))
        elif isinstance(value, EntryPoint):
            point: EntryPoint = value
            try:
                loaded = point.load()
                value = cast(Value, loaded) if self._accept is None else self._accept(loaded)
            except (Exception, SystemExit) as error:
                # Importing it runs foreign code, which may raise anything.
                of = f" of {point.dist.name}" if point.dist is not None else ""
                what = str(error) if isinstance(error, ImportError | TypeError) else repr(error)
                raise PluginError(f"{name} ({point.value}{of}) cannot be used: {what}") from error
        self._values[name] = value
        return value

    def __setitem__(self, name: str, value: Value) -> None:
        self._all()[name] = value

    def __delitem__(self, name: str) -> None:
        del self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, name: Any) -> bool:
        return name in self._values or name in self._all()
