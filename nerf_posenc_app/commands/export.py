"""``train_fit.py export RUN``: saved fits as ONNX models."""

import contextlib
import io
import logging
import warnings
from pathlib import Path
from typing import Annotated

import torch

from nerf_posenc.fits import load_fit
from nerf_posenc.training.checkpoints import CheckpointError, replacing
from nerf_posenc.training.recipes import own_encodings
from nerf_posenc_app.kinds.kind import Exportable
from nerf_posenc_app.options import POSITIONAL, UsageError
from nerf_posenc_app.own_encodings import imported
from nerf_posenc_app.plugins import how_to_install
from nerf_posenc_app.runs.saved_fits import find_fit, kind_of_fit, notes_on_fit, require_new
from nerf_posenc_app.terminal import say


def export(
    run: Annotated[Path, POSITIONAL],
    *,
    encoding: str | None = None,
    out: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Export a saved fit as an ONNX model for other programs.

    An image becomes a function from coordinates to RGB; a scene, from positions and directions to
    density and RGB.

    Args:
        run: Run folder, or the file of a saved fit.
        encoding: Encoding of the fit, or FILE.py:CLASS for your own (default: the best fit).
        out: File to write (default: NAME.onnx in the run folder).
        overwrite: Allow --out to exist.

    Raises:
        UsageError: If there is no such fit, it cannot be exported, or onnx is not installed.
    """
    encoding = None if encoding is None else imported(encoding)
    name, file, folder = find_fit(run, encoding)
    kind = kind_of_fit(file)
    out = out or folder / f"{file.stem}.onnx"
    require_new(out, overwrite=overwrite)
    try:
        exportable = kind.exportable(load_fit(file, encodings=own_encodings([encoding])))
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out, is_new=not overwrite) as partial:
            _write_onnx(exportable, partial)
    except CheckpointError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from None
    say(*notes_on_fit(run, encoding, name, file), f"exported {name}: wrote {out}")


def _write_onnx(exportable: Exportable, path: Path) -> None:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise UsageError(f"export needs onnx: {how_to_install('onnx')}") from None
    rows = torch.export.Dim("rows")
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
            exportable.model,
            tuple(exportable.inputs.values()),
            path,
            dynamo=True,
            verbose=False,
            external_data=False,
            input_names=list(exportable.inputs),
            output_names=list(exportable.outputs),
            dynamic_shapes=tuple({0: rows} for _ in exportable.inputs),
        )
