"""``train_fit.py compare RUN ...``: one page for several runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from app import report
from app.commands.saved import refuse_existing
from app.parsing import UsageError, read_options
from app.task import Openers
from app.terminal import printable


@dataclass(frozen=True)
class CompareOptions:
    """Write one page that compares several runs."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders."""

    out: Path | None = None
    """Page to write, NAME.html; None is a new one under runs/."""

    overwrite: bool = False
    """Let --out be an existing file."""


def compare(arguments: Sequence[str], openers: Openers) -> None:
    """Write one page that compares several runs.

    Raises:
        UsageError: If there is no run, one cannot be read, or the page cannot be written.
    """
    options = read_options(CompareOptions, arguments, command="compare")
    if not options.runs:
        raise UsageError("compare needs one run folder or more")
    out = _new_page() if options.out is None else options.out
    if out.suffix == "":
        out = out.with_name(f"{out.name}.html")
    elif out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--out {out}: the page is written as .html")
    refuse_existing(out, overwrite=options.overwrite)
    try:
        results, measures = report.write_comparison(out, options.runs)
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}; use --out") from None
    print(printable(f"{report.table(results, measures)}\n\nwrote {out}"))


def _new_page() -> Path:
    """First name under runs/ that is free."""
    names = ("comparison.html", *(f"comparison-{i}.html" for i in range(2, 10_000)))
    free = (Path("runs") / name for name in names)
    return next(path for path in free if not path.exists())
