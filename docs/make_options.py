"""The pages of all options, from the program's help: a hook of mkdocs that builds the site.

One page is of the product, one of the companion.
"""

import contextlib
import io
import os
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from unittest import mock

# mkdocs loads a hook by its file.
sys.path.insert(0, str(Path(__file__).parents[1]))

from nerf_posenc.plugins import PluginTable
from nerf_posenc_app.commands import COMMANDS
from nerf_posenc_app.kinds import KINDS
from train_fit import main


def help_of(*arguments: str) -> str:
    """What ``--help`` prints after these words, in 100 columns."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), mock.patch.dict(os.environ, {"COLUMNS": "100"}):
        main([*arguments, "--help"])
    return printed.getvalue().strip()


def page() -> str:
    """The page of the product as Markdown."""
    topics = [(), *((f"--{name}",) for name in _rows(KINDS)), *((n,) for n in _rows(COMMANDS))]
    return _page(
        "Options",
        "This is what `train_fit.py --help` prints: first the options of all kinds of data, then "
        "each kind, then the commands for saved runs.",
        topics,
    )


def more_page() -> str:
    """The page of the companion as Markdown."""
    kinds, commands = _rows(KINDS, added=True), _rows(COMMANDS, added=True)
    return _page(
        "Options of the companion",
        "This is what `train_fit.py --help` prints for each kind of data and each command of the "
        "companion.",
        [*((f"--{name}",) for name in kinds), *((name,) for name in commands)],
    )


def _rows(table: PluginTable[Any], *, added: bool = False) -> list[str]:
    """Names of the product in a table, or those that other distributions add."""
    points = {point.name for point in entry_points(group=table.group)}
    return [name for name in table if (name in points) is added]


def _page(title: str, about: str, topics: Iterable[tuple[str, ...]]) -> str:
    lines = [f"# {title}", "", about]
    for words in topics:
        title = " ".join(["train_fit.py", *words])
        lines += ["", f"## `{title}`", "", "```text", help_of(*words), "```"]
    return "\n".join([*lines, ""])


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to those of the site."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "options.md", content=page()))
    files.append(File.generated(config, "more/options.md", content=more_page()))
    return files
