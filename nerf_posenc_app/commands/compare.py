"""``train_fit.py compare RUN ...``: one page for several runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from nerf_posenc.training.checkpoints import write_text
from nerf_posenc_app.commands.comparison import write_comparison
from nerf_posenc_app.options import POSITIONAL, UsageError
from nerf_posenc_app.report.tables import aligned, as_csv, as_tex, table
from nerf_posenc_app.runs.saved import METRICS, STATE, read_metrics
from nerf_posenc_app.runs.saved_fits import require_new
from nerf_posenc_app.terminal import printable, say


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
        runs: Run folders, or a folder of runs for all in it.
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
    files = [file for file in (out, csv, tex) if file is not None]
    if len({file.absolute() for file in files}) < len(files):
        raise UsageError("--out, --csv and --tex need different files")
    for file in files:
        require_new(file, overwrite=overwrite)
    found = [each for run in runs for each in _runs_in(run)]
    # Of runs/* pages and runs that go on are left out; of a folder, also runs of other measures.
    reasons = _left_out(found, are_listed=len(found) == len(runs)) if len(found) > 1 else {}
    chosen = [run for run in found if run not in reasons] or found
    try:
        groups, about = write_comparison(out, chosen, is_new=not overwrite)
    except ValueError as error:
        raise UsageError(str(error)) from None
    except FileExistsError:
        if is_named:
            raise UsageError(f"{out} exists already; give another name, or --overwrite") from None
        # Another process has taken that name meanwhile.
        compare(runs, csv=csv, tex=tex, overwrite=overwrite)
        return
    except OSError as error:
        raise UsageError(f"--out {out} cannot be written: {error.strerror}") from None
    remarks = list(filter(None, [about.headline, *about.notes]))
    if about.differing is not None:
        rows = [about.differing.columns, *about.differing.rows]
        remarks += ["", f"{about.differing.title}:", *aligned(rows)]
    remarks += [f"note: {run} is left out: {why}" for run, why in reasons.items()]
    _write("--csv", csv, as_csv(groups, about.measures, about.run))
    comments = "".join(f"% {printable(line)}\n" for line in filter(None, remarks))
    _write("--tex", tex, comments + as_tex(groups, about.measures))
    for title, fits in groups.items():
        say(title, *table(fits, about.measures).split("\n"), "")
    say(*remarks, f"wrote {' and '.join(map(str, files))}")


def _runs_in(folder: Path) -> Sequence[Path]:
    """The run of a folder, or all runs of a folder of runs, the oldest first."""
    files = sorted(folder.glob(f"*/{STATE}"), key=lambda each: each.stat().st_mtime)
    is_run = (folder / STATE).is_file() or (folder / METRICS).is_file()
    # A link to the newest run is that run.
    inner = {file.parent.resolve(): file.parent for file in files}
    return [folder] if is_run or not files else [*inner.values()]


def _left_out(runs: Sequence[Path], *, are_listed: bool) -> dict[Path, str]:
    """Runs that are not complete or, unless all were named, measure other things than the last."""
    reasons, measured = {}, {}
    for run in runs:
        try:
            measured[run] = read_metrics(run).measures[0]
        except (OSError, ValueError):
            reasons[run] = "it is no complete run"
    last = next(reversed(measured.values()), None)
    others = {
        run: one
        for run, one in measured.items()
        if last and one.name != last.name and not are_listed
    }
    return reasons | {run: f"it measures {one.quantity}" for run, one in others.items()}


def _write(option: str, path: Path | None, text: str) -> None:
    try:
        if path is not None:
            write_text(path, text)
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be written: {error.strerror}") from None


def _new_page() -> Path:
    """First name under runs/ that is free."""
    names = ("comparison.html", *(f"comparison-{i}.html" for i in range(2, 10_000)))
    free = (Path("runs") / name for name in names)
    return next(path for path in free if not path.exists())
