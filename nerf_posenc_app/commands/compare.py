"""``train_fit.py compare RUN ...``: one page for several runs."""

from pathlib import Path
from typing import Annotated

from nerf_posenc.training.checkpoints import write_text
from nerf_posenc_app.commands.comparison import write_comparison
from nerf_posenc_app.options import POSITIONAL, UsageError
from nerf_posenc_app.report.tables import as_csv, as_tex, table
from nerf_posenc_app.runs.saved_fits import require_new
from nerf_posenc_app.terminal import say


def compare(
    runs: Annotated[tuple[Path, ...], POSITIONAL],
    *,
    out: Path | None = None,
    csv: Path | None = None,
    tex: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Write one page that compares the fits of several runs, grouped by their data.

    Args:
        runs: Run folders.
        out: Page to write, NAME.html (default: a new file under runs/).
        csv: Also write the scores to this CSV file, a row for each seed of each fit.
        tex: Also write the table to this LaTeX file (package booktabs).
        overwrite: Allow --out, --csv and --tex to be existing files.

    Raises:
        UsageError: If there is no run, one cannot be read, or the page cannot be written.
    """
    if not runs:
        raise UsageError("compare needs one run folder or more")
    is_named = out is not None
    out = _new_page() if out is None else out
    if out.suffix == "":
        out = out.with_name(f"{out.name}.html")
    elif out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--out {out}: the page is written as .html")
    require_new(out, overwrite=overwrite)
    for file in filter(None, (csv, tex)):
        require_new(file, overwrite=overwrite)
    try:
        groups, about = write_comparison(out, runs, is_new=not overwrite)
        if csv is not None:
            write_text(csv, as_csv(groups, about.measures, about.run))
        if tex is not None:
            write_text(tex, as_tex(groups, about.measures))
    except ValueError as error:
        raise UsageError(str(error)) from None
    except FileExistsError:
        if is_named:
            raise UsageError(f"{out} exists already; give another name, or --overwrite") from None
        # Another process has taken that name meanwhile.
        compare(runs, csv=csv, tex=tex, overwrite=overwrite)
        return
    except OSError as error:
        reason = f"{error.filename or out}: {error.strerror}"
        raise UsageError(f"cannot write {reason}; use --out") from None
    for title, fits in groups.items():
        say(title, *table(fits, about.measures).split("\n"), "")
    say(f"wrote {' and '.join(map(str, filter(None, (out, csv, tex))))}")


def _new_page() -> Path:
    """First name under runs/ that is free."""
    names = ("comparison.html", *(f"comparison-{i}.html" for i in range(2, 10_000)))
    free = (Path("runs") / name for name in names)
    return next(path for path in free if not path.exists())
