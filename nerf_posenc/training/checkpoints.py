"""Checkpoints: tensors in a safetensors file, and everything else as JSON in its header.

No file is ever unpickled, so that a checkpoint from a stranger runs no code. A file is written
under another name in the same folder, synchronized to the disk and then renamed: under its own name
there is always a whole checkpoint, also if the power fails.
"""

import contextlib
import json
import math
import os
import re
import secrets
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

FORMAT = "nerf_posenc checkpoint"
VERSION = 1
"""Version of the format; files of other versions are refused."""

# Of the header of a file, which describes tensors and plain values; it takes 25 times as much.
_MAX_HEADER = 1 << 25
# Bytes that no block of the disk stands for: more is a hole that fills the memory with zeros, while
# file systems that compress, or write late, have some.
_MAX_HOLE = 1 << 30


class CheckpointError(ValueError):
    """A file that is not a checkpoint of this program and version; the message says why."""


def save_checkpoint(path: Path, values: Mapping[str, Any], *, token: str = "") -> None:
    """Write a checkpoint, so that at every moment the last good one is at ``path``.

    Args:
        path: file to write or to replace.
        token: part of the hidden name that the file has while it is written; see `replacing`.
        values: nested mappings and sequences of tensors, finite numbers, strings, booleans and
            None. The keys of a mapping are strings or integers; sequences are read back as lists.

    Raises:
        ImportError: If safetensors is not installed.
        OSError: If the file cannot be written; the last checkpoint is left as it was.
        TypeError: If a value is of another type.
        ValueError: If a number is not finite.
    """
    safetensors_torch = _import_safetensors().torch
    tensors: dict[str, Tensor] = {}
    content = json.dumps(_pack(values, "", tensors), allow_nan=False)
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "content": content,
        "crc32": str(_checksum(content, tensors)),
    }
    with replacing(path, token=token) as partial:
        mode = partial.stat().st_mode
        try:
            safetensors_torch.save_file(tensors, str(partial), metadata)
        except _import_safetensors().SafetensorError as error:
            raise _os_error(error) from None
        # safetensors would let the owner alone read it.
        with contextlib.suppress(PermissionError):  # Of file systems without permissions.
            partial.chmod(mode)


def load_checkpoint(path: Path, *, with_tensors: bool = True) -> dict[str, Any]:
    """Read a checkpoint.

    Args:
        path: file written by `save_checkpoint`.
        with_tensors: False reads the rest alone, with None for each tensor, and checks no checksum.

    Returns:
        What was saved, with lists for all sequences.

    Raises:
        CheckpointError: If the file is damaged, or of another program or version.
        FileNotFoundError: If there is none.
        ImportError: If safetensors is not installed.
        OSError: If it cannot be read.
    """
    safetensors = _import_safetensors()
    damaged = f"{path} is not a checkpoint, or is damaged"
    if not path.exists():
        raise FileNotFoundError(f"there is no checkpoint at {path}")
    if not path.is_file():
        raise CheckpointError(f"{damaged}: it is no regular file")
    status = path.stat()
    # In units of 512 bytes whatever the file system (POSIX, sys/stat.h); Windows has none.
    if status.st_size > 1024 * getattr(status, "st_blocks", status.st_size) + _MAX_HOLE:
        raise CheckpointError(f"{damaged}: most of it is an empty hole")
    with path.open("rb") as stream:
        if int.from_bytes(stream.read(8), "little") > _MAX_HEADER:
            raise CheckpointError(f"{damaged}: its header is too long")
    try:
        with safetensors.safe_open(str(path), framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            _require_format(path, metadata)
            tensors: dict[str, Any] = dict.fromkeys(file.keys())
            if with_tensors:
                tensors = {name: file.get_tensor(name) for name in tensors}
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{damaged}: {error}") from None
    content = metadata.get("content", "")
    if with_tensors and metadata.get("crc32") != str(_checksum(content, tensors)):
        raise CheckpointError(f"{path} is damaged: its checksum does not match its content")
    try:
        values = _unpack(json.loads(content), tensors)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: {_reason(error)}") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} is damaged: it does not contain a mapping")
    return values


@contextlib.contextmanager
def replacing(path: Path, *, token: str = "", is_new: bool = False) -> Iterator[Path]:
    """Give a new file to write, which then replaces the one at ``path``: it is whole or not there.

    The new file has a hidden name beside ``path`` that nobody can foresee, so that no link is ever
    followed, and the permissions of the umask. It is synchronized to the disk before it is renamed.

    Args:
        path: file to write or to replace; a link of that name is replaced, not followed.
        token: part of the hidden name; empty for a random one.
        is_new: whether to replace nothing, also if another process writes that name meanwhile.

    Raises:
        FileExistsError: If there is a file of that name, and none is to be replaced.
        OSError: If it cannot be written; the file at ``path`` is left as it was.
    """
    partial = path.with_name(f".{token or secrets.token_hex(8)}.partial.{path.name}")
    try:
        partial.unlink(missing_ok=True)
        _claim(partial)
        yield partial
        synchronize(partial)
        if is_new:
            _claim(path)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    synchronize(path.parent)


def _claim(path: Path) -> None:
    """Take a name that no file has; of several processes one gets it."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))


def write_text(path: Path, text: str, *, token: str = "") -> None:
    """Write a text file in UTF-8 by way of `replacing`."""
    with replacing(path, token=token) as partial:
        partial.write_text(text, encoding="utf-8")


def synchronize(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open a folder.
        return
    # Windows writes what a descriptor may write.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _import_safetensors() -> Any:
    # Imported here since those who import an encoder need torch and NumPy alone.
    try:
        import safetensors.torch
    except ImportError:
        raise ImportError("checkpoints need safetensors: pip install safetensors") from None
    return safetensors


def _require_format(path: Path, metadata: Mapping[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        file_format = metadata.get("format", "none")
        raise CheckpointError(
            f"{path} is not a checkpoint of nerf_posenc: its format is {file_format!r}, not "
            f"{FORMAT!r}"
        )
    if metadata.get("version") != str(VERSION):
        raise CheckpointError(
            f"{path} is a checkpoint of version {metadata.get('version')!r}, and this nerf_posenc "
            f"reads version {VERSION}; use the nerf_posenc that wrote it"
        )


def bytes_of(tensor: Tensor) -> memoryview:
    """Bytes of a contiguous tensor on the CPU, not copied."""
    assert tensor.is_contiguous()
    flat = tensor.reshape(-1)
    # A single value may have any stride, which `view` refuses.
    values: Any = flat.as_strided(flat.shape, (1,)).view(torch.uint8).numpy()
    return memoryview(values)


def _checksum(content: str, tensors: Mapping[str, Tensor]) -> int:
    """CRC-32 of the JSON and of the names, types, shapes and bytes of all tensors."""
    total = zlib.crc32(content.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), total)
        total = zlib.crc32(bytes_of(tensor), total)
    return total


def _pack(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Move tensors out of nested containers, leaving their names in what becomes JSON."""
    if isinstance(value, Tensor):
        # Keys such as "a.b" and 1 may give the names of others.
        while name in tensors:
            name += "'"
        # A copy: safetensors refuses tensors that share memory.
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"tensor": name}
    if isinstance(value, Mapping):
        return {"items": [[key, _pack(v, f"{name}.{key}", tensors)] for key, v in value.items()]}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_pack(item, f"{name}.{i}", tensors) for i, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} is {value}, which a checkpoint cannot store")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"{name} is a {type(value).__name__}, which a checkpoint cannot store")


def _unpack(value: Any, tensors: Mapping[str, Tensor | None]) -> Any:
    """Undo `_pack`."""
    if isinstance(value, list):
        return [_unpack(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]]
    return {key: _unpack(item, tensors) for key, item in value["items"]}


def _os_error(error: Exception) -> OSError:
    """The system's error within one of safetensors."""
    number = re.search(r"os error (\d+)", str(error))
    if number is None:
        return OSError(_reason(error))
    return OSError(int(number[1]), os.strerror(int(number[1])))


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
