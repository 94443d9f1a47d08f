"""Commands of ``train_fit.py`` on what other implementations compute: identify, check, vectors."""

import json
import sys
from pathlib import Path

import tyro

from nerf_posenc import find_encodings
from nerf_posenc.catalog.presets import PRESETS
from nerf_posenc_app.options import UsageError
from nerf_posenc_audit.conformance import check_file, identify_file, make_vector


def identify(
    file: tyro.conf.Positional[Path],
    *,
    shape: tuple[int, ...] | None = None,
    expected: str | None = None,
) -> int:
    """Find the preset that computes a given output.

    Args:
        file: A .npz, .safetensors or .json file with the arrays output, positions and, for a
            rotation, its input x.
        shape: Sizes of the grid, if the file has no positions.
        expected: Name of a preset; the differences from it are printed.

    Returns:
        0, or 1 if nothing gives exactly this output.

    Raises:
        UsageError: If the file cannot be read.
    """
    try:
        matches = identify_file(file, shape=shape, expected=expected)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from None
    print("\n".join(map(str, matches)))
    return 0 if matches[0].is_exact else 1


def check(files: tyro.conf.Positional[tuple[Path, ...]]) -> int:
    """Compare the outputs of a port with its presets.

    Args:
        files: Files of the command vectors, with the output of the port added to each.

    Returns:
        0 if all are right; 1 if one is wrong, 2 if one cannot be read.

    Raises:
        UsageError: If no file is given.
    """
    if not files:
        raise UsageError("check needs one file or more")
    return max(_check(file) for file in files)


def _check(file: Path) -> int:
    """Print the verdict on a file; an unreadable one does not stop the others."""
    try:
        is_right, line = check_file(file)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(line)
    return 0 if is_right else 1


def vectors(text: tyro.conf.Positional[str] = "", *, out: Path) -> None:
    """Write the outputs of presets, one JSON file each, to check a port with.

    Args:
        text: Write only the presets that mention this text (default: all).
        out: Folder to write to.

    Raises:
        UsageError: If no preset mentions the text, or a file cannot be written.
    """
    matching = [one.name for one in find_encodings(text)] if text else list(PRESETS)
    names, count = [name for name in matching if name in PRESETS], 0
    if not names:
        raise UsageError(f"no preset mentions {text!r}; python -m nerf_posenc find lists all")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in names:
            try:
                vector = make_vector(name)
            except ValueError as error:
                print(f"left out {name}: {error}")
                continue
            # A file that is there may have the output of a port.
            with (out / f"{name}.json").open("x") as file:
                json.dump(vector, file)
            count += 1
    except OSError as error:
        raise UsageError(f"cannot write {error.filename or out}: {error.strerror}") from None
    print(f"wrote {count} vectors to {out}")
