"""``train_fit.py export RUN``: saved fits for other programs, or as a page that runs them."""

import contextlib
import io
import logging
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import nn

from app.commands.saved import fit_names, note_of_choice, open_saved_fit, refuse_existing
from app.parsing import PROGRAM, UsageError, read_options
from app.report import read_metrics
from app.report.fit_page import fit_page, why_not
from app.report.metrics_file import Metrics
from app.report.tables import BASELINE
from app.run_folder import write_text
from app.task import Openers
from app.terminal import printable
from nerf_posenc.fits import ImageFit
from nerf_posenc.training.checkpoints import partial_path


@dataclass(frozen=True)
class ExportOptions:
    """Write saved fits for other programs, or as a page that runs them."""

    run: tyro.conf.Positional[Path]
    """Run folder, or the file of a fit: RUN/fits/NAME.safetensors."""

    onnx: bool = False
    """As an ONNX model: of an image from coordinates (n, 2) to RGB (n, 3); of a scene from
    positions and directions (n, 3) to densities (n) and RGB (n, 3)."""

    page: bool = False
    """As an HTML page in which the fits of an image run: zoom past the pixels, let the bands in."""

    encoding: str | None = None
    """Which fit; None is that of the highest PSNR, and all for a page, which has that on raw
    coordinates in any case."""

    out: Path | None = None
    """File to write; None is NAME.onnx or page.html in the run folder."""

    overwrite: bool = False
    """Let --out exist already."""


def export(arguments: Sequence[str], openers: Openers) -> None:
    """Export saved fits.

    Raises:
        UsageError: If there is no such fit, the format does not suit it, or what exports it is not
            installed.
    """
    options = read_options(ExportOptions, arguments, command="export")
    if options.onnx == options.page:
        count = "one" if options.onnx else "a"
        raise UsageError(f"export needs {count} format: --onnx or --page")
    if options.page:
        _export_page(options, arguments)
    else:
        _export_onnx(options)


def _export_page(options: ExportOptions, arguments: Sequence[str]) -> None:
    fits, folder = _image_fits(options)
    reasons = {name: why_not(fit) for name, fit in fits.items()}
    runs = {name: fit for name, fit in fits.items() if reasons[name] is None}
    left_out = ", ".join(f"{name} ({reason})" for name, reason in reasons.items() if reason)
    if options.encoding is not None and reasons.get(options.encoding):
        raise UsageError(
            f"export --page cannot run {options.encoding} ({reasons[options.encoding]}); "
            f"{_suiting(options.run)}"
        )
    if not runs:
        raise UsageError(f"export --page runs ReLU networks; {options.run} has {left_out}")
    out = options.out or folder / "page.html"
    refuse_existing(out, overwrite=options.overwrite)
    metrics = _metrics(folder)
    title = folder.resolve().name if metrics is None else metrics.name
    command = shlex.join(["python", PROGRAM, "export", *arguments])
    try:
        page = fit_page(runs, title=title, command=printable(command), metrics=metrics)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_text(out, page.html)
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from None
    if left_out:
        print(printable(f"note: left out {left_out}"))
    for name, fit in runs.items():
        if fit.step < fit.num_steps:
            print(printable(f"note: {name} is at step {fit.step} of {fit.num_steps}"))
    megabytes = len(page.html.encode()) / 1e6
    print(printable(f"exported {', '.join(runs)}: wrote {out} ({megabytes:.2f} MB)"))


def _image_fits(options: ExportOptions) -> tuple[dict[str, ImageFit], Path]:
    """The fits that a page shows, raw coordinates first, and the folder of their run."""
    name, fit, folder = open_saved_fit(options.run, options.encoding, "cpu")
    names = [name]
    if not options.run.is_file():
        names = [
            each
            for each in fit_names(options.run)
            if options.encoding in (None, each) or each == BASELINE
        ]
    fits: dict[str, ImageFit] = {}
    for each in sorted(names, key=lambda each: each != BASELINE):
        opened = fit if each == name else open_saved_fit(options.run, each, "cpu")[1]
        if not isinstance(opened, ImageFit):
            raise UsageError(f"export --page is for an image; {options.run} is of a scene")
        fits[each] = opened
    return fits, folder


def _suiting(run: Path) -> str:
    """Which fits of a run a page can run."""
    fits = {name: open_saved_fit(run, name, "cpu")[1] for name in fit_names(run)}
    suiting = [n for n, fit in fits.items() if isinstance(fit, ImageFit) and why_not(fit) is None]
    return f"of this run it can hold {', '.join(suiting)}" if suiting else "it runs ReLU networks"


def _metrics(folder: Path) -> Metrics | None:
    """Metrics of the run; None if it is not complete."""
    try:
        return read_metrics(folder)
    except (OSError, ValueError):
        return None


def _export_onnx(options: ExportOptions) -> None:
    name, fit, folder = open_saved_fit(options.run, options.encoding, "cpu")
    out = options.out or folder / f"{name}.onnx"
    refuse_existing(out, overwrite=options.overwrite)
    rows = torch.export.Dim("rows")
    arguments_of: tuple[torch.Tensor, ...]
    model: nn.Module
    if isinstance(fit, ImageFit):
        model, arguments_of = fit.model, (torch.rand(8, 2) - 0.5,)
        names = ["coordinates"], ["rgb"]
    else:
        directions = nn.functional.normalize(torch.rand(8, 3), dim=-1)
        model, arguments_of = fit.field, (torch.rand(8, 3) - 0.5, directions)
        names = ["positions", "directions"], ["density", "rgb"]
    partial = partial_path(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _write_onnx(model.eval(), arguments_of, partial, *names, rows)
        partial.replace(out)
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)
    note = note_of_choice(options.run, options.encoding, name)
    if note is not None:
        print(printable(note))
    print(printable(f"exported {name}: wrote {out}"))


def _write_onnx(
    model: nn.Module,
    arguments: tuple[torch.Tensor, ...],
    path: Path,
    inputs: Sequence[str],
    outputs: Sequence[str],
    rows: Any,
) -> None:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise UsageError("export --onnx needs onnx: pip install 'nerf_posenc[onnx]'") from None
    # The exporter prints its progress, and warns of torch's own deprecations.
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.ExitStack() as stack,
    ):
        warnings.simplefilter("ignore")
        # It also logs that packages are missing which no model here needs.
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.WARNING)
        torch.onnx.export(
            model,
            arguments,
            path,
            dynamo=True,
            verbose=False,
            external_data=False,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=tuple({0: rows} for _ in arguments),
        )
