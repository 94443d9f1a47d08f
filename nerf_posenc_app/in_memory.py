"""Data that Python holds, as the value of an option that names a file on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import torch

from nerf_posenc.training.checkpoints import load_checkpoint, save_checkpoint

_SUFFIX = ".safetensors"


class InMemory(str):
    """Data that Python holds, where an option otherwise names a file.

    It is a string, so that options, messages and pages treat it as the name of a file: it reads
    ``array (512, 512, 3)``, or ``mine.py`` if that file made them. A field of options that takes it
    is annotated with this class.

    Attributes:
        values: the data: an array, a tensor, a tuple of both and numbers, or an object with a
            method ``as_plain`` that returns a mapping of such values.
    """

    values: Any

    def __new__(cls, values: Any, text: str | None = None) -> InMemory:
        """Name data by a text; None for their type and shape."""
        made = super().__new__(cls, _described(values) if text is None else text)
        made.values = values
        return made

    def __deepcopy__(self, memo: Any) -> InMemory:
        # `dataclasses.asdict` copies the values of fields; the data need no second copy.
        return self

    def __getnewargs__(self) -> tuple[Any, str]:  # type: ignore[override]
        return self.values, str(self)

    def save(self, folder: Path, option: str) -> None:
        """Write the data for a resumed run.

        Args:
            folder: folder of the run's data, which exists.
            option: name of the option.

        Raises:
            OSError: If the file cannot be written.
        """
        values = self.values.as_plain() if hasattr(self.values, "as_plain") else self.values
        save_checkpoint(folder / f"{option}{_SUFFIX}", {"values": _as_tensors(values)})

    @classmethod
    def load(cls, folder: Path, option: str, text: str) -> InMemory:
        """Read data that `save` wrote, which ``text`` names; a mapping for objects.

        Raises:
            CheckpointError: If the file is damaged.
            OSError: If it cannot be read.
        """
        return cls(load_checkpoint(folder / f"{option}{_SUFFIX}")["values"], text)


def file_options(options: type) -> set[str]:
    """Fields of options that name files or hold data: those that are annotated with `InMemory`."""
    hints = get_type_hints(options, include_extras=True)
    return {name for name, hint in hints.items() if InMemory in getattr(hint, "__metadata__", ())}


def _as_tensors(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {name: _as_tensors(value) for name, value in values.items()}
    if isinstance(values, tuple | list) and not all(isinstance(v, int | float) for v in values):
        return [_as_tensors(value) for value in values]
    is_array = any(hasattr(values, name) for name in ("__array__", "__array_interface__"))
    if is_array and not isinstance(values, torch.Tensor):
        values = np.asarray(values)
        if values.dtype == np.longdouble:
            values = values.astype(np.float64)
        # Copied: an array may be read-only, and torch supports only the native byte order.
        return torch.from_numpy(np.array(values, dtype=values.dtype.newbyteorder("=")))
    return values.detach().cpu().contiguous() if isinstance(values, torch.Tensor) else values


def _described(values: Any) -> str:
    first = values[0] if isinstance(values, tuple | list) and values else values
    if isinstance(first, np.ndarray | torch.Tensor):
        return f"array {tuple(first.shape)}"
    return type(values).__name__
