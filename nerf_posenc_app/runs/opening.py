"""What is done before the first fit: data opened, options resolved, the run folder made."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from nerf_posenc.training.devices import describe, pick_device
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.in_memory import file_options
from nerf_posenc_app.json_values import as_json
from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import NOT_COMPARED, CommonOptions, UsageError, require_ranges
from nerf_posenc_app.own_encodings import own_files
from nerf_posenc_app.runs.folder import RunFolder, create_run_folder
from nerf_posenc_app.runs.run import Context, Run, versions
from nerf_posenc_app.runs.saved import RunState
from nerf_posenc_app.runs.tensorboard import tensorboard_log
from nerf_posenc_app.terminal import say, warning_once


def resolve_device(name: str) -> torch.device:
    """Choose the device.

    Raises:
        UsageError: If it is not available.
    """
    try:
        return pick_device(name)
    except ValueError as error:
        raise UsageError(f"--device {error}") from None


@contextlib.contextmanager
def open_run(
    kind_class: type[Kind[Any]],
    options: CommonOptions,
    context: Context,
    folder: RunFolder | None = None,
) -> Iterator[Run]:
    """Open the data, resolve the configuration and create the run folder; close them in the end.

    Args:
        kind_class: kind of the data.
        options: options as asked for.
        context: state that the runs of one command share.
        folder: folder of the run to be resumed; None for a new one.

    Raises:
        SaveError: If a fit or the run folder cannot be written.
        Stopped: If the run was asked to end.
        UsageError: If the data cannot be opened, or options conflict.
    """
    with contextlib.ExitStack() as stack:
        if folder is not None:
            stack.callback(folder.close)
        device = resolve_device(options.device)
        try:
            kind = kind_class.open(options)
        except SceneError as error:
            raise UsageError(str(error)) from None
        given = replace(options, device=str(device))
        if context.resumed is not None:
            given = _with_saved_choices(given, context.resumed.config)
        # `auto` may fit for seconds here; it prints a line first.
        config = kind.resolve(given)
        names = kind.fit_names(config)
        if folder is None:
            # Files are named by six digits of a value, and some systems do not tell case apart.
            stems = [name.stem.lower() for name in names]
            for name in names:
                if stems.count(name.stem.lower()) > 1:
                    raise UsageError(
                        f"the fit {name} is named twice, maybe in another case; give each value "
                        "and each name once"
                    )
            folder = create_run_folder(options.out, kind.title, overwrite=options.overwrite)
            stack.callback(folder.close)
            folder.clear(names)
        lines = [*kind.summary(config), *(f"note: {note}" for note in kind.notes_on_data)]
        lines.append(f"device   {describe(device)}")
        if not config.quiet:
            say(*lines)
        run = Run(kind, options, config, folder, context, names)
        _begin(run)
        run.compute_references()
        if config.tensorboard:
            log = tensorboard_log(partial(folder.subfolder, "tensorboard"), kind.training)
            run.watchers = [warning_once(stack.enter_context(log), "TensorBoard log")]
        yield run


def _with_saved_choices(options: CommonOptions, saved: Mapping[str, Any]) -> CommonOptions:
    """Options of a resumed run with what was searched for, which takes a while."""
    given = {name: getattr(options, name, None) for name in ("sigma", "num_bands", "encodings")}
    changes: dict[str, Any] = {
        name: tuple(map(str, saved[name])) if name == "encodings" else saved[name]
        for name, value in given.items()
        if value in ("auto", ("auto",)) and isinstance(saved.get(name), int | float | list)
    }
    chosen = replace(options, **changes)
    # Bands or a sigma may have been found for an encoding that was not chosen in the end.
    reset: dict[str, Any] = dict.fromkeys(changes.keys() - {"encodings"})
    replace(chosen, **reset).check()
    require_ranges(type(chosen), vars(chosen))
    return chosen


def _begin(prepared: Run) -> None:
    """Write what resumes the run; or check that a resumed run is what it was.

    Raises:
        UsageError: If the folder cannot be written, or the data or the configuration has changed.
    """
    context, folder, kind = prepared.context, prepared.folder, prepared.kind
    config = as_json(prepared.config)
    prepared.digest = kind.digest()
    state = RunState(
        kind=kind.name,
        options=as_json(prepared.options),
        in_memory=list(prepared.options.in_memory()),
        own_encodings=own_files(prepared.config.encodings),
        command=context.command,
        cwd=context.cwd,
        config={name: value for name, value in config.items() if name not in NOT_COMPARED},
        fits=[str(name) for name in prepared.names],
        facts=as_json(kind.facts),
        digest=prepared.digest,
        versions=versions(),
    )
    before = context.resumed
    if before is None:
        try:
            folder.begin(state, prepared.options.in_memory())
        except OSError as error:
            raise UsageError(f"cannot write to {folder.path}: {error.strerror}") from None
    else:
        if before.digest != state.digest:
            raise UsageError(
                f"--resume {folder.path}: the data has changed since the run started: "
                f"{kind.source}, or a mask or another file of its options; start a new run"
            )
        # The data may be found under another path now.
        files = {kind.name, *file_options(kind.Options)}
        for name, value in state.config.items():
            if name not in files and before.config.get(name) != value:
                raise UsageError(
                    f"--resume {folder.path}: the run had {name} {before.config.get(name)!r:.200} "
                    f"and would now have {value}; resume it on the kind of device that it was "
                    "started on (--device)"
                )
        changed = [
            f"{name} {before.versions[name]}, now {value}"
            for name, value in state.versions.items()
            if before.versions.get(name, value) != value
        ]
        if changed:
            prepared.config.log(f"note: the run was started with {'; '.join(changed)}")
        # What was searched for is not searched for again.
        kind.facts = {**before.facts, **kind.facts}
    context.stop.folder = folder.path
    own = state.own_encodings.items()
    context.stop.encodings = [f"{file.path}:{name}" for name, file in own if file.path]
