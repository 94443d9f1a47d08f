"""Runs from Python: options as values, data as arrays."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.kinds import KINDS, named_kinds, options_of_kinds, require_installed, with_data
from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import CommonOptions, UsageError, from_values
from nerf_posenc_app.own_encodings import of_class, with_own_encodings
from nerf_posenc_app.plugins import PluginError
from nerf_posenc_app.runs.fitted import FittedRun
from nerf_posenc_app.runs.run import Context
from nerf_posenc_app.runs.saved import SaveError
from nerf_posenc_app.runs.signals import handled_signals
from nerf_posenc_app.runs.stop import Stop, Stopped
from train_fit import experiment


def fit(
    *,
    encodings: Sequence[str | type] | None = None,
    width: int | None = None,
    depth: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    seed: int = 0,
    num_seeds: int = 1,
    device: str = "auto",
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
    video: int = 16,
    out: str | Path | None = None,
    overwrite: bool = False,
    save_every: float = 60.0,
    figures: bool = False,
    tensorboard: bool = False,
    quiet: bool = False,
    **options: Any,
) -> FittedRun:
    """Fit data from Python: the experiment of the command line, with values of Python.

    Args:
        encodings: names of the encodings to fit, or classes of modules of yours, with `out_dim`;
            None for those that suit the data.
        width: units per hidden layer; None for the default of the encoding or the field.
        depth: number of hidden layers; None likewise.
        steps: training steps per fit; None for a number that suits the size of the data.
        seconds: training time per fit, instead of ``steps``.
        batch_size: pixels, rays or examples per step; None for a number that suits the device.
        lr: peak learning rate; None for that of the encoding and the optimizer.
        seed: seed of the initial weights and the batches.
        num_seeds: number of seeds that each fit is repeated with; scores are means over them.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:N"`` or ``"mps"``.
        precision: type that the network trains in.
        video: frames of the training video; 0 for none.
        out: new run folder, which is kept; None for a temporary one, which is removed together
            with the `FittedRun` that this function returns.
        overwrite: whether ``out`` may be a folder that contains files.
        save_every: seconds between two saves of a fit.
        figures: whether to write all charts as SVG files too.
        tensorboard: whether to log for TensorBoard too.
        quiet: whether to print errors only.
        **options: the data, and the options of its kind: the fields of ``ImageOptions``,
            ``SceneOptions`` or ``SequenceOptions`` in `nerf_posenc_app.kinds`, or of another
            distribution's kind. Data is the name of a file, as on the command line, or values in
            memory: an ``image`` of shape ``(height, width)`` or ``(height, width, 3 or 4)`` in 8 or
            16 bits, in [0, 1], or of linear light with values above 1; as a ``scene``,
            `nerf_posenc.radiance.Views` or a `Scene`. A ``mask`` and ``observed`` may be arrays.

    Returns:
        The run: its scores, reconstructions and models, in a folder of its own.

    Raises:
        KeyboardInterrupt: If a second Ctrl-C ended it; what was fitted is saved.
        OSError: If the run folder cannot be written.
        RuntimeError: If an encoding could not be fitted; the others are in the folder.
        ValueError: If an option is unknown, out of its range or in conflict, or the data cannot
            be read.

    Examples:
        >>> from nerf_posenc_app import fit  # doctest: +SKIP
        >>> run = fit(image="cat.png", num_bands=10)  # doctest: +SKIP
        >>> run.scores["fourier"]["psnr_db"]  # doctest: +SKIP
        42.96
    """
    common = {name: value for name, value in locals().items() if name != "options"}
    given = {**options, **common}
    stop, temporary = Stop(), ""
    try:
        kind, asked = _options(given)
        given = {name: value for name, value in given.items() if not _is_default(kind, name, value)}
        command = f"fit({', '.join(f'{name}={_shown(value)}' for name, value in given.items())})"
        if asked.out is None:
            temporary = tempfile.mkdtemp(prefix="nerf-posenc-")
            asked = replace(asked, out=Path(temporary, "run"))
        with handled_signals(stop), _as_in_a_new_process():
            is_complete = experiment(kind, asked, Context(command, stop))
    except UsageError as error:
        raise ValueError(error.for_python()) from None
    except (PluginError, SceneError) as error:
        raise ValueError(str(error)) from None
    except SaveError as error:
        raise OSError(str(error)) from None
    except Stopped:
        raise KeyboardInterrupt from None
    finally:
        with contextlib.suppress(OSError):
            # Only if it is empty: nothing was fitted.
            os.rmdir(temporary)
    if not is_complete:
        raise RuntimeError(
            f"an encoding could not be fitted, for the reason above; {stop.folder} has the others"
        )
    assert stop.folder is not None
    fitted = FittedRun(stop.folder, encodings=asked.encodings or ())
    if out is None:
        # The folder goes with the result, at the latest when Python ends. One of a run that failed
        # or was interrupted stays, since its fits are the only copy.
        weakref.finalize(fitted, shutil.rmtree, temporary, ignore_errors=True)
    return fitted


@contextlib.contextmanager
def _as_in_a_new_process() -> Iterator[None]:
    """Leave the modes of torch that a notebook has set in this thread, as for `torch.no_grad`.

    Raises:
        UsageError: If the default dtype, which all threads share, is another than float32.
    """
    if (dtype := torch.get_default_dtype()) != torch.float32:
        raise UsageError(
            f"fit needs the default dtype torch.float32, which is {dtype}; call "
            "torch.set_default_dtype(torch.float32) before it"
        )
    with contextlib.ExitStack() as contexts:
        contexts.enter_context(torch.inference_mode(False))
        contexts.enter_context(torch.enable_grad())
        contexts.enter_context(torch.device("cpu"))
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                # Weights cast inside an outer autocast would be cached until it ends.
                disabled = torch.autocast(device, enabled=False, cache_enabled=False)
                contexts.enter_context(disabled)
        yield


def _options(given: Mapping[str, Any]) -> tuple[type[Kind[Any]], CommonOptions]:
    """Kind of the data, and its options, checked."""
    for name in given:
        require_installed(name)
    chosen = named_kinds(given)
    if len(chosen) != 1:
        raise UsageError(f"fit needs data: give one of {', '.join(KINDS)}, as in fit(image=pixels)")
    if given[chosen[0]] is None:
        raise UsageError(f"--{chosen[0]} is None: was the file not found?")
    kind = KINDS[chosen[0]]
    # An argument that is left at its default does not rule out another name of its option.
    values = {name: value for name, value in given.items() if not _is_default(kind, name, value)}
    values[chosen[0]] = given[chosen[0]]
    if values.get("encodings") is not None:
        if isinstance(values["encodings"], str | type) or not isinstance(
            values["encodings"], Iterable
        ):
            raise UsageError("--encodings must be a list, as in encodings=['none', 'fourier']")
        values["encodings"] = [
            of_class(each) if isinstance(each, type) else each for each in values["encodings"]
        ]
    options = with_own_encodings(from_values(kind.Options, values, options_of_kinds), Path())
    options = with_data(kind, options)
    options.check()
    return kind, options


def _is_default(kind: type[Kind[Any]], name: str, value: Any) -> bool:
    """Whether a value is what the option has if it is left out."""
    default = getattr(kind.Options, name, None)
    return value is None or (isinstance(value, str | int | float) and value == default)


def _shown(value: Any) -> str:
    """A value as the page of a run shows it."""
    if isinstance(value, str | Path | int | float):
        return repr(str(value) if isinstance(value, Path) else value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return getattr(value, "__name__", type(value).__name__)
