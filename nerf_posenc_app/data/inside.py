"""Files of a folder that the user names.

Links in it are followed, since data sets often lie behind links. A name that stands in a file, such
as that of an image in transforms.json, may come from a stranger: it cannot lead out of the folder.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from nerf_posenc_app.data.errors import SceneError


def path_inside(folder: Path, name: str) -> Path:
    """Path of a file or a folder that a file names.

    Args:
        folder: the folder that was asked for.
        name: path relative to it, or an absolute one.

    Raises:
        SceneError: If it leads out of the folder, or no file can have this name.
    """
    # Without links: those of the folder may lead anywhere.
    path, root = (Path(os.path.abspath(each)) for each in (folder / name, folder))
    if not path.is_relative_to(root):
        raise SceneError(f"{folder} names a file outside itself, which is not read: {name}")
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SceneError(f"{folder} names the file {name[:80]!r}: {reason}") from None
    return path


def files_in(folder: Path, suffixes: Sequence[str] = ()) -> list[Path]:
    """Regular files of a folder by name, without hidden ones, as macOS leaves beside others.

    Args:
        folder: the folder.
        suffixes: suffixes in lower case that are listed; none for all.

    Raises:
        OSError: If the folder cannot be read.
    """
    return [
        file
        for file in sorted(folder.iterdir())
        if file.name[0] != "."
        and file.is_file()
        and (not suffixes or file.suffix.lower() in suffixes)
    ]
