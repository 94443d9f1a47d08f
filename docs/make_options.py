"""Write the page of all options from the help that the program prints.

python -m docs.make_options
"""

import contextlib
import io
import os
from pathlib import Path
from unittest import mock

from app.cli import COMMANDS, main
from app.kinds import KINDS

PAGE = Path(__file__).parent / "options.md"


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


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
