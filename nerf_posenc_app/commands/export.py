"""``train_fit.py export RUN``: saved fits for other programs, or as a page that runs them."""

import contextlib
import io
import logging
import math
import shlex
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import torch
import tyro

from nerf_posenc.fits import ImageFit, load_fit
from nerf_posenc.plugins import how_to_install
from nerf_posenc.training.checkpoints import CheckpointError, replacing, write_text
from nerf_posenc.training.devices import pick_device
from nerf_posenc_app.commands.hub import write_hub_folder
from nerf_posenc_app.kinds.kind import Exportable
from nerf_posenc_app.options import Range, UsageError
from nerf_posenc_app.own_encodings import imported
from nerf_posenc_app.report.networks import why_not
from nerf_posenc_app.runs.processes import command_words
from nerf_posenc_app.runs.saved_fits import (
    find_fit,
    fit_files,
    kind_of_fit,
    metrics_of,
    note_of_choice,
    note_of_progress,
    require_new,
)
from nerf_posenc_app.terminal import printable, quoted, say
from nerf_posenc_app.values.blocks import Mesh
from nerf_posenc_app.values.names import BASELINE
from nerf_posenc_app.web.fit_page import fit_page
from nerf_posenc_app.web.volume_page import volume_page

_MESHES = (".ply", ".obj", ".stl")


def export(
    run: tyro.conf.Positional[Path],
    *,
    onnx: bool = False,
    page: bool = False,
    mesh: bool = False,
    hub: bool = False,
    nodes: Annotated[int, Range(8, 1024)] = 256,
    encoding: str | None = None,
    out: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Write saved fits for other programs, or as a page that runs them in a browser.

    Args:
        run: Run folder, or the file of a saved fit.
        onnx: Write an ONNX model, from coordinates to RGB; for a scene, from positions and
            directions to density and RGB.
        page: Write an HTML page that runs the ReLU fits of an image and zooms beyond its pixels;
            for a scene, a page that orbits its fields.
        mesh: Write the surface of a shape, from marching cubes, in the units of its file: PLY, OBJ
            or STL.
        hub: Write a folder for the Hugging Face Hub: weights, configuration and a model card.
        nodes: Number of grid nodes of --mesh along each axis.
        encoding: Encoding of the fit, or FILE.py:CLASS for your own (default: the best fit; for
            --page all fits).
        out: File to write (default: NAME.onnx, NAME.ply or page.html in the run folder).
        overwrite: Allow --out to exist.

    Raises:
        UsageError: If there is no such fit, the format does not suit it, or what exports it is not
            installed.
    """
    if onnx + page + mesh + hub != 1:
        count = "one" if onnx or page or mesh else "a"
        raise UsageError(f"export needs {count} format: --onnx, --page, --mesh or --hub")
    encoding = None if encoding is None else imported(encoding)
    if page:
        _export_page(run, encoding, out, overwrite=overwrite)
        return
    if hub:
        _export_hub(run, encoding, out, overwrite=overwrite)
        return
    name, file, folder = find_fit(run, encoding)
    kind, saved = kind_of_fit(file)
    out = out or folder / f"{file.stem}{'.ply' if mesh else '.onnx'}"
    require_new(out, overwrite=overwrite)
    if mesh and out.suffix.lower() not in _MESHES:
        raise UsageError(f"--out {out}: a mesh is written as {', '.join(_MESHES)}")
    try:
        made = kind.mesh(file, nodes, pick_device("auto")) if mesh else kind.exportable(file)
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out, is_new=not overwrite) as partial:
            if isinstance(made, Mesh):
                _write_mesh(made, partial, out.suffix.lower())
            else:
                _write_onnx(made, partial)
    except CheckpointError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from None
    for note in (note_of_choice(run, encoding, name), note_of_progress(name, saved)):
        if note is not None:
            say(note)
    say(f"exported {name}: wrote {out}")


def _export_hub(run: Path, encoding: str | None, out: Path | None, *, overwrite: bool) -> None:
    name, file, folder = find_fit(run, encoding)
    out = out or folder / f"hub-{file.stem}"
    require_new(out, overwrite=overwrite)
    try:
        write_hub_folder(name, load_fit(file), metrics_of(folder), out)
    except (CheckpointError, ImportError) as error:
        raise UsageError(f"--hub: {error}") from None
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from None
    if note := note_of_choice(run, encoding, name):
        say(note)
    say(f"exported {name}: wrote {quoted(out)}/")


def _write_mesh(mesh: Mesh, path: Path, suffix: str) -> None:
    import trimesh

    made = trimesh.Trimesh(mesh.vertices.numpy(), mesh.faces.numpy(), process=False)
    # Eight digits of the longest side. Other formats have float32.
    digits = max(0, 8 - math.floor(math.log10(made.extents.max())))
    made.export(str(path), file_type=suffix[1:], **({"digits": digits} if suffix == ".obj" else {}))
    if suffix == ".obj":
        return
    if len(mesh.vertices.float().unique(dim=0)) < len(mesh.vertices.unique(dim=0)):
        say(
            f"note: {suffix} files hold float32, which merges vertices this far from the origin; "
            "write an .obj file"
        )


def _export_page(run: Path, encoding: str | None, out: Path | None, *, overwrite: bool) -> None:
    name, file, folder = find_fit(run, encoding)
    files = {name: file} if run.is_file() else fit_files(run)
    files = dict(sorted(files.items(), key=lambda each: each[0] != BASELINE))
    if encoding is not None:
        files = {each: path for each, path in files.items() if each in (encoding, BASELINE)}
    out = out or folder / "page.html"
    metrics = metrics_of(folder)
    title = folder.resolve().name if metrics is None else metrics.data.title
    command = printable(shlex.join([*command_words(), "export", str(run), "--page"]))
    kind, _ = kind_of_fit(file)
    if kind.is_orbited:
        require_new(out, overwrite=overwrite)
        try:
            volumes = {name: kind.volume(path, pick_device("auto")) for name, path in files.items()}
        except (CheckpointError, OSError, ImportError) as error:
            raise UsageError(str(error)) from None
        page = volume_page(volumes, title=title, command=command, metrics=metrics)
        _write_page(page, out, files, overwrite=overwrite)
        return
    fits = {each: _load(path) for each, path in files.items()}
    reasons = {each: why_not(fit) for each, fit in fits.items()}
    runs = {each: fit for each, fit in fits.items() if reasons[each] is None}
    left_out = ", ".join(f"{each} ({reason})" for each, reason in reasons.items() if reason)
    if encoding is not None and reasons[encoding]:
        raise UsageError(f"export --page cannot run {encoding} ({reasons[encoding]})")
    if not runs:
        raise UsageError(f"export --page runs ReLU networks; {run} has {left_out}")
    require_new(out, overwrite=overwrite)
    try:
        page = fit_page(runs, title=title, command=command, metrics=metrics).html
    except ValueError as error:
        raise UsageError(str(error)) from None
    if left_out:
        say(f"note: left out {left_out}")
    for each, fit in runs.items():
        if fit.step < fit.num_steps:
            say(f"note: {each} is at step {fit.step} of {fit.num_steps}")
    _write_page(page, out, runs, overwrite=overwrite)


def _write_page(page: str, out: Path, names: Iterable[str], *, overwrite: bool) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_text(out, page, is_new=not overwrite)
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from None
    megabytes = len(page.encode()) / 1e6
    say(f"exported {', '.join(names)}: wrote {out} ({megabytes:.2f} MB)")


def _load(file: Path) -> ImageFit:
    """Load a fit that a page can hold.

    Raises:
        UsageError: If it is none.
    """
    kind, _ = kind_of_fit(file)
    try:
        fit = load_fit(file)
    except (CheckpointError, OSError, ImportError) as error:
        raise UsageError(str(error)) from None
    if not isinstance(fit, ImageFit):
        raise UsageError(
            f"export --page shows images and scenes; {file} is a fit of the kind {kind.name}"
        )
    return fit


def _write_onnx(exportable: Exportable, path: Path) -> None:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise UsageError(f"export --onnx needs onnx: {how_to_install('onnx')}") from None
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
            exportable.model.eval(),
            tuple(exportable.inputs.values()),
            path,
            dynamo=True,
            verbose=False,
            external_data=False,
            input_names=list(exportable.inputs),
            output_names=list(exportable.outputs),
            dynamic_shapes=tuple({0: rows} for _ in exportable.inputs),
        )
