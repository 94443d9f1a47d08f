"""Print the line of code for a model or a library, or write a preset as one file of plain torch.

``python -m nerf_posenc find llama 3`` and ``python -m nerf_posenc vendor llama > rope.py``.
"""

import argparse
import sys
import textwrap
from collections.abc import Sequence

from nerf_posenc.catalog.index import (
    NOT_COMPARED,
    find_encodings,
    find_shorter,
    imports_of,
    index,
    similar_names,
)
from nerf_posenc.catalog.vendor import vendor

_MOST_REMARK = 240


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: words of the command line; None for those that Python was started with.

    Returns:
        0, or 2 if nothing is found for all of the name, or there is no such preset.
    """
    parser = argparse.ArgumentParser(prog="python -m nerf_posenc", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    find_parser = commands.add_parser(
        "find", help="print the line of code for a model or a library"
    )
    find_parser.add_argument("text", nargs="*", help="name to search for (default: list all)")
    vendor_parser = commands.add_parser("vendor", help="print a preset as one file of plain torch")
    vendor_parser.add_argument("name", help="name of a preset")
    vendor_parser.add_argument(
        "sizes", nargs="*", type=int, help="sizes: coordinates and bands, or the width"
    )
    parsed = parser.parse_args(arguments)
    if parsed.command == "vendor":
        return _vendor(parsed.name, parsed.sizes)
    return _find(" ".join(parsed.text))


def _vendor(name: str, sizes: Sequence[int]) -> int:
    """Print the file of a preset."""
    try:
        print(vendor(name, *sizes), end="")
    except (TypeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _find(text: str) -> int:
    """Print the lines that mention a text; of nothing, all lines."""
    encodings = find_encodings(text) if text else index()
    if not encodings:
        shorter, encodings = find_shorter(text)
        near = similar_names(text)
        guess = f"; did you mean {' or '.join(near)}?" if near and not shorter else ""
        other = f"; for {shorter!r}, which may have another encoding:" if shorter else guess
        print(f"error: no preset, line or class mentions {text!r}{other}", file=sys.stderr)
    for one in encodings:
        also = f" (also {', '.join(one.also)})" if one.also else ""
        remarks = imports_of(one.line)
        if one.about and (text or one.about == NOT_COMPARED):
            remarks.append(textwrap.shorten(one.about, _MOST_REMARK, placeholder=" ..."))
        remark = "".join(f"\n    # {remark}" for remark in remarks)
        print(f"{one.name}{also}\n    {one.line}{remark}")
    return 0 if find_encodings(text) or not text else 2


if __name__ == "__main__":
    sys.exit(main())
