"""The way into a folder of files: nothing that it names or contains leads out of it.

A folder may come from a stranger, and a name or a link in it may lead to any file of this machine.
Readers take their paths from here, and so does every new one.
"""

from collections.abc import Sequence
from pathlib import Path

from scenes.errors import SceneError


def path_inside(folder: Path, name: str) -> Path:
    """Resolve the path of a file or a folder that lies in a folder.

    Args:
        folder: the folder that was asked for.
        name: path relative to it, or an absolute one.

    Raises:
        SceneError: If it leads out of the folder, also by a link, or is too long.
    """
    try:
        path = (folder / name).resolve()
        is_inside = path.is_relative_to(folder.resolve())
        path.exists()  # Raises for a name that is too long.
    except (OSError, ValueError, RuntimeError) as error:  # A loop of links is a RuntimeError.
        reason = getattr(error, "strerror", None) or error
        raise SceneError(f"{folder} names the file {name[:80]!r}: {reason}") from None
    if not is_inside:
        link = " through a link; copy the linked file" if (folder / name).is_symlink() else ""
        raise SceneError(f"{folder} names a file outside itself, which is refused: {name}{link}")
    return path


def files_in(folder: Path, suffixes: Sequence[str] = (), *, root: Path | None = None) -> list[Path]:
    """Regular files of a folder by name, without hidden ones, as macOS leaves beside others.

    Args:
        folder: the folder.
        suffixes: suffixes in lower case that are listed; none for all.
        root: the folder that was asked for, if this one lies in it.

    Raises:
        OSError: If the folder cannot be read.
        SceneError: If one of them is a link that leads out of the folder that was asked for.
    """
    root = root or folder
    files = []
    for file in sorted(folder.iterdir()):
        if file.name[0] == "." or (suffixes and file.suffix.lower() not in suffixes):
            continue
        if file.is_symlink():
            path_inside(root, str(file.absolute()))
        if file.is_file():
            files.append(file)
    return files
