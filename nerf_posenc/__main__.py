"""Presets, vectors of them for ports, and checks of other programs: ``python -m nerf_posenc``."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from nerf_posenc.identification.conformance import check_file, identify_file, make_vector
from nerf_posenc.presets.catalog import PRESETS
from nerf_posenc.presets.index import find_encodings, index, similar_names


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: words of the command line; None for those that Python was started with.

    Returns:
        0; 1 if an output is wrong or not known; 2 for a mistake.
    """
    parser = argparse.ArgumentParser(prog="python -m nerf_posenc", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    found = commands.add_parser("find", help="the line of code for a model or a library")
    found.add_argument("text", nargs="*", help="its name; nothing lists all")
    vectors = commands.add_parser("vectors", help="write what presets compute, one JSON file each")
    vectors.add_argument("text", nargs="?", default="", help="the presets that mention it")
    vectors.add_argument("--out", type=Path, required=True, help="folder of the files")
    check = commands.add_parser("check", help="compare the output of a port with its preset")
    check.add_argument("files", nargs="+", type=Path, help="vectors with the output of the port")
    find = commands.add_parser("identify", help="find the preset that gave an output")
    find.add_argument("file", type=Path, help="arrays output, x before a rotation, positions")
    find.add_argument("--shape", type=int, nargs="+", help="sizes of the grid, without positions")
    find.add_argument("--expected", help="name of a preset: say what differs from it")
    asked = parser.parse_args(arguments)
    try:
        if asked.command == "find":
            return _find(" ".join(asked.text))
        if asked.command == "vectors":
            return _write_vectors(asked.text, asked.out)
        if asked.command == "check":
            return max(_check(file) for file in asked.files)
        matches = identify_file(asked.file, shape=asked.shape, expected=asked.expected)
        print("\n".join(map(str, matches)))
        return 0 if matches[0].is_exact else 1
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _find(text: str) -> int:
    """Print the lines of code that a text finds."""
    found = find_encodings(text) if text else index()
    if not found:
        near = similar_names(text)
        guess = f"; did you mean {' or '.join(near)}?" if near else "."
        raise ValueError(
            f"no preset, recipe or class mentions {text!r}{guess} Of an output of its code, "
            "python -m nerf_posenc identify finds the preset"
        )
    for one in found:
        also = f" (also {', '.join(one.also)})" if one.also else ""
        print(f"{one.name}{also}\n    {one.line}")
    return 0


def _check(file: Path) -> int:
    """Print the verdict on a file; an unreadable one does not stop the others."""
    try:
        is_right, line = check_file(file)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(line)
    return 0 if is_right else 1


def _write_vectors(text: str, folder: Path) -> int:
    found = [one.name for one in find_encodings(text)] if text else list(PRESETS)
    names, count = [name for name in found if name in PRESETS], 0
    if not names:
        raise ValueError(f"no preset mentions {text!r}; python -m nerf_posenc find lists all")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        try:
            vector = make_vector(name)
        except ValueError as error:
            print(f"left out {name}: {error}")
            continue
        # A file that is there may have the output of a port.
        with (folder / f"{name}.json").open("x") as file:
            json.dump(vector, file)
        count += 1
    print(f"wrote {count} vectors to {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
