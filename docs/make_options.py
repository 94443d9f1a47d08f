"""The page of all options, from the program's help: a hook of mkdocs that builds the site."""

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

# mkdocs loads a hook by its file.
sys.path.insert(0, str(Path(__file__).parents[1]))

from nerf_posenc_app.cli import COMMANDS, main
from nerf_posenc_app.kinds import KINDS


def help_of(*arguments: str) -> str:
    """What ``--help`` prints after these words, in 100 columns."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), mock.patch.dict(os.environ, {"COLUMNS": "100"}):
        main([*arguments, "--help"])
    return printed.getvalue().strip()


def page() -> str:
    """The page as Markdown."""
    lines = [
        "# Options",
        "",
        "What `train_fit.py --help` prints: first what all kinds of data have in common, then each "
        "kind, then the commands for runs that were saved.",
    ]
    topics = [(), *((f"--{name}",) for name in KINDS), *((name,) for name in COMMANDS)]
    for words in topics:
        title = " ".join(["train_fit.py", *words])
        lines += ["", f"## `{title}`", "", "```text", help_of(*words), "```"]
    return "\n".join([*lines, ""])


def on_files(files: Any, config: Any) -> Any:
    """Add the page to those of the site."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "options.md", content=page()))
    return files
