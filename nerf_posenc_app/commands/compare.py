"""``train_fit.py compare RUN ...``: one page for several runs."""

from pathlib import Path
from typing import Annotated

from nerf_posenc.training.checkpoints import write_text
from nerf_posenc_app.commands.comparison import write_comparison
from nerf_posenc_app.options import POSITIONAL, UsageError
from nerf_posenc_app.report.tables import as_csv, table
from nerf_posenc_app.runs.saved_fits import require_new
from nerf_posenc_app.terminal import say


def compare(
    runs: Annotated[tuple[Path, ...], POSITIONAL],
    *,
    out: Path | None = None,
    csv: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Write one page that compares the fits of several runs, grouped by their data.

    Args:
        runs: Run folders. Of a run with --images, give the folder of each image.
        out: Page to write, NAME.html (default: a new file under runs/).
        csv: Also write the table to this CSV file.
        overwrite: Allow --out and --csv to be existing files.

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
    if csv is not None:
        require_new(csv, overwrite=overwrite)
    try:
        groups, measures = write_comparison(out, runs, is_new=not overwrite)
        if csv is not None:
            write_text(csv, as_csv(groups, measures))
    except ValueError as error:
        raise UsageError(str(error)) from None
    except FileExistsError:
        if is_named:
            raise UsageError(f"{out} exists already; give another name, or --overwrite") from None
        # Another process has taken that name meanwhile.
        compare(runs, csv=csv, overwrite=overwrite)
        return
    except OSError as error:
        reason = f"{error.filename or out}: {error.strerror}"
        raise UsageError(f"cannot write {reason}; use --out") from None
    for title, fits in groups.items():
        say(title, *table(fits, measures).split("\n"), "")
    say(f"wrote {' and '.join(map(str, filter(None, (out, csv))))}")


def _new_page() -> Path:
    """First name under runs/ that is free."""
    names = ("comparison.html", *(f"comparison-{i}.html" for i in range(2, 10_000)))
    free = (Path("runs") / name for name in names)
    return next(path for path in free if not path.exists())
