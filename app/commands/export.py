"""``train_fit.py export RUN --onnx``: a saved fit for other programs."""

import contextlib
import io
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import nn

from app.commands.saved import open_saved_fit, refuse_existing
from app.parsing import UsageError, read_options
from app.task import Openers
from app.terminal import printable
from nerf_posenc.fits import ImageFit
from nerf_posenc.training.checkpoints import partial_path


@dataclass(frozen=True)
class ExportOptions:
    """Write a saved fit for other programs."""

    run: tyro.conf.Positional[Path]
    """Run folder, or the file of a fit: RUN/fits/NAME.safetensors."""

    onnx: bool = False
    """As an ONNX model: of an image from coordinates (n, 2) to RGB (n, 3); of a scene from
    positions and directions (n, 3) to densities (n) and RGB (n, 3)."""

    encoding: str | None = None
    """Which fit; None is that of the highest PSNR."""

    out: Path | None = None
    """File to write; None is NAME.onnx in the run folder."""

    overwrite: bool = False
    """Let --out exist already."""


def export(arguments: Sequence[str], openers: Openers) -> None:
    """Export a saved fit.

    Raises:
        UsageError: If there is no such fit, or what exports it is not installed.
    """
    options = read_options(ExportOptions, arguments, command="export")
    if not options.onnx:
        raise UsageError("export needs a format: --onnx")
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
