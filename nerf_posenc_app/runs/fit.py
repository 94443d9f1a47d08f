"""Runs from Python: options as values, data as arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from nerf_posenc.plugins import PluginError
from nerf_posenc_app.kinds import KINDS, options_of_kinds, require_installed
from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import CommonOptions, UsageError, from_values
from nerf_posenc_app.own_encodings import add_class, with_own_encodings
from nerf_posenc_app.runs.fitted import FittedRun
from nerf_posenc_app.runs.run import Context
from nerf_posenc_app.runs.saved import SaveError
from nerf_posenc_app.runs.signals import handled_signals
from nerf_posenc_app.runs.stop import Stop, Stopped
from scenes.errors import SceneError


def fit(given: Mapping[str, Any], experiment: Callable[..., bool]) -> FittedRun:
    """Make the run that values ask for; see `train_fit.fit`.

    Args:
        given: values by the name of the option; None leaves one at its default.
        experiment: makes a run of the kind of data and the options that the values name.
    """
    stop = Stop()
    try:
        kind, options = _options(given)
        given = {name: value for name, value in given.items() if not _is_default(kind, name, value)}
        command = f"fit({', '.join(f'{name}={_shown(value)}' for name, value in given.items())})"
        with handled_signals(stop), _as_in_a_new_process():
            is_complete = experiment(kind, options, Context(command, stop, experiment))
    except UsageError as error:
        raise ValueError(error.for_python()) from None
    except (PluginError, SceneError) as error:
        raise ValueError(str(error)) from None
    except SaveError as error:
        raise OSError(str(error)) from None
    except Stopped:
        raise KeyboardInterrupt from None
    if not is_complete:
        raise RuntimeError(
            f"an encoding could not be fitted, for the reason above; {stop.folder} has the others"
        )
    assert stop.folder is not None
    return FittedRun(stop.folder)


@contextlib.contextmanager
def _as_in_a_new_process() -> Iterator[None]:
    """Leave the modes and defaults of torch that a notebook has set, as for `torch.no_grad`."""
    dtype = torch.get_default_dtype()
    with contextlib.ExitStack() as contexts:
        contexts.enter_context(torch.inference_mode(False))
        contexts.enter_context(torch.enable_grad())
        contexts.enter_context(torch.device("cpu"))
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                # Weights cast inside an outer autocast would be cached until it ends.
                disabled = torch.autocast(device, enabled=False, cache_enabled=False)
                contexts.enter_context(disabled)
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)


def _options(given: Mapping[str, Any]) -> tuple[type[Kind[Any]], CommonOptions]:
    """Kind of the data, and its options, checked."""
    for name in given:
        require_installed(name)
        if name.removesuffix("s") in KINDS and name not in KINDS:
            raise UsageError(f"{name} is for the command line; call fit for each of them")
    chosen = [name for name in given if name in KINDS]
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
            add_class(each) if isinstance(each, type) else each for each in values["encodings"]
        ]
    options = with_own_encodings(from_values(kind.Options, values, options_of_kinds), Path())
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
