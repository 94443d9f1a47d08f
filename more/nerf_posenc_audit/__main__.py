"""Ask a library or a module what it computes: ``python -m nerf_posenc_audit transformers``.

``python -m nerf_posenc_audit check package.module:ClassName --config config.json`` says where one
class differs from a configuration, or with ``--preset llama3`` from a preset;
``python -m nerf_posenc_audit find llama 3`` prints the line of code for a model or a library, and
``python -m nerf_posenc_audit vendor llama > rope.py`` writes a preset as one file of plain torch.
"""

import argparse
import importlib
import json
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any

from nerf_posenc_attention.rotary_config import read_config
from nerf_posenc_audit.catalog.index import (
    begins_others,
    find_encodings,
    find_shorter,
    imports_of,
    index,
    similar_names,
)
from nerf_posenc_audit.catalog.vendor import vendor
from nerf_posenc_audit.checking import check
from nerf_posenc_audit.libraries import as_json, as_text, audit, build
from nerf_posenc_audit.probe import NotAskableError
from nerf_posenc_audit.rows import printable

_MOST_REMARK = 240


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: words of the command line; None for those that Python was started with.

    Returns:
        0; 1 if the class differs from what is expected; 2 if it cannot be asked.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    warnings.simplefilter("ignore")  # Those of the libraries that are asked.
    try:
        command = {"check": _check, "find": _find, "vendor": _vendor}.get(words[0] if words else "")
        status = _library(words) if command is None else command(words[1:])
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # Its reader has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ImportError, NotAskableError, OSError, TypeError, ValueError) as error:
        print(f"error: {printable(error)}", file=sys.stderr)
        return 2


def _library(words: list[str]) -> int:
    """Print the table of a library."""
    parser = argparse.ArgumentParser(prog="python -m nerf_posenc_audit", description=__doc__)
    parser.add_argument("library", help="name of an installed library, or of a package in it")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parsed = parser.parse_args(words)
    rows = list(audit(parsed.library))
    if parsed.json:
        print(json.dumps(as_json(parsed.library, rows)))
    else:
        print(as_text(parsed.library, rows))
    return 0


def _check(words: list[str]) -> int:
    """Print where a class or a function differs."""
    parser = argparse.ArgumentParser(prog="python -m nerf_posenc_audit check")
    parser.add_argument("name", help="package.module:ClassName, or a function")
    expected = parser.add_mutually_exclusive_group(required=True)
    expected.add_argument("--config", help="path of a config.json")
    expected.add_argument("--preset", help="name of a preset; with sizes for coordinates")
    parser.add_argument("--layer-type", help="type of the layers, such as sliding_attention")
    parsed = parser.parse_args(words)
    module_name, _, name = parsed.name.partition(":")
    if not name:
        raise ValueError(f"give package.module:ClassName; got {parsed.name!r}")
    try:
        module = importlib.import_module(module_name)
        made = getattr(module, name, None)
        if made is None:
            raise ValueError(f"{module_name} has no {name!r}")
        if isinstance(made, type):
            made = _built(made, module, parsed.config)
        verdict = check(made, against=parsed.config or parsed.preset, layer_type=parsed.layer_type)
    except (ImportError, NotAskableError, OSError, TypeError, ValueError):
        raise
    # What is asked is other people's code.
    except (Exception, SystemExit) as error:
        raised = f"{type(error).__name__} {error}".strip()
        raise NotAskableError(f"{parsed.name} raised {raised}: nothing was compared") from error
    print(verdict)
    return 0 if verdict.is_right else 1


def _built(made: type, module: Any, config: str | None) -> Any:
    """Build a class from the configuration, where it takes one, else from usual sizes."""
    return build(made, module, values=None if config is None else read_config(config))


def _find(words: list[str]) -> int:
    """Print the lines that mention a text; of nothing, all lines."""
    parser = argparse.ArgumentParser(prog="python -m nerf_posenc_audit find")
    parser.add_argument("words", nargs="*", help="name of a model, a library or a method")
    text = " ".join(parser.parse_args(words).words)
    encodings = find_encodings(text) if text else index()
    if not encodings:
        shorter, encodings = find_shorter(text)
        near = similar_names(text)
        guess = f"; did you mean {' or '.join(near)}?" if near and not shorter else ""
        other = f"; for {shorter!r}, which may have another encoding:" if shorter else guess
        print(f"error: no preset, line or class mentions {text!r}{other}", file=sys.stderr)
    elif text and begins_others(text):
        print(f"no name is {text!r}; these begin with it:", file=sys.stderr)
    for one in encodings:
        also = f" (also {', '.join(one.also)})" if one.also else ""
        remarks = imports_of(one.line)
        if one.about and text:
            # Links of docstrings are of no use here.
            about = re.sub(r"\[([^]]+)\]\[[^]]*\]", r"\1", one.about)
            remarks.append(textwrap.shorten(about, _MOST_REMARK, placeholder=" ..."))
        remark = "".join(f"\n    # {remark}" for remark in remarks)
        print(f"{one.name}{also}\n    {one.line}{remark}")
    return 0 if find_encodings(text) or not text else 2


def _vendor(words: list[str]) -> int:
    """Print a preset as one file of plain torch."""
    parser = argparse.ArgumentParser(prog="python -m nerf_posenc_audit vendor")
    parser.add_argument("name", help="name of a preset")
    parser.add_argument(
        "sizes", nargs="*", type=int, help="sizes: coordinates and bands, or the width"
    )
    parser.add_argument(
        "--frequencies", nargs="+", type=float, help="bands of a preset that has none of its own"
    )
    parsed = parser.parse_args(words)
    own = {} if parsed.frequencies is None else {"frequencies": parsed.frequencies}
    print(vendor(parsed.name, *parsed.sizes, **own), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
