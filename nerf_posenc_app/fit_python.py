"""Fits from Python, along the same road as those of the command line."""

from __future__ import annotations

import contextlib
import html
import inspect
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from nerf_posenc.fits import load_fit
from nerf_posenc.plugins import PluginError
from nerf_posenc_app.cli import handled_signals, parse
from nerf_posenc_app.commands.saved import find_fit
from nerf_posenc_app.kinds import KINDS, require_installed
from nerf_posenc_app.options import UsageError
from nerf_posenc_app.own_encodings import with_own_encodings
from nerf_posenc_app.report.images import eight_bit
from nerf_posenc_app.runs.folder import REPORT
from nerf_posenc_app.runs.run import Context, Experiment
from nerf_posenc_app.runs.saved import SaveError, read_file_blocks, read_metrics, read_views
from nerf_posenc_app.runs.stop import Stop, Stopped
from nerf_posenc_app.values.results import Result
from scenes import SceneError
from scenes.in_memory import weights_file

if TYPE_CHECKING:
    from nerf_posenc.fits import CoordinateFit, SceneFit


class FittedRun:
    """What a run left: scores, reconstructions and models by the name of the fit.

    In a notebook it shows itself as the page of the comparison.

    Args:
        folder: folder of a complete run, from Python or from the command line.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it is no folder of a complete run.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._metrics = read_metrics(self.folder)
        self._fits = {fit.label: fit for fit in self._metrics.fits}

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """Scores of every fit and reference by the name of the measure, such as ``psnr_db``."""
        return {name: dict(fit.scores) for name, fit in self._fits.items()}

    def reconstruction(self, name: str, view: int = 0) -> npt.NDArray[Any]:
        """What a fit gives where the data is, as the page shows it.

        Args:
            name: name of a fit or a reference.
            view: number of the view, of a scene or of another kind that has several.

        Returns:
            ``(height, width, 3)`` in 8 bits; of a sound ``(samples, channels)`` in [-1, 1]. A
            `model` gives values that are not rounded.

        Raises:
            ValueError: If there is no such fit or view.
        """
        return self._shown(name, view)[1]

    def original(self, view: int = 0) -> npt.NDArray[Any]:
        """What `reconstruction` is compared with, of the same shape."""
        return self._shown(next(iter(self._fits)), view)[0]

    def model(self, name: str) -> CoordinateFit | SceneFit:
        """Load the model of a fit, to be evaluated anywhere; see `nerf_posenc.fits`.

        Raises:
            ValueError: If there is no such fit, or it is of a kind that is not rebuilt from a file:
                a sequence.
        """
        try:
            return load_fit(find_fit(self.folder, self._fit(name).label)[1])
        except UsageError as error:
            raise ValueError(str(error)) from None

    def _fit(self, name: str) -> Result:
        if name not in self._fits:
            raise ValueError(f"{self.folder} has no fit {name!r}; it has {', '.join(self._fits)}")
        return self._fits[name]

    def _shown(self, name: str, view: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        fit = self._fit(name)
        for block in read_file_blocks(self.folder, fit):
            original, reconstruction = vars(block)["original"], vars(block)["reconstruction"]
            return original.numpy(), reconstruction.numpy()
        views = read_views(self.folder, fit, view + 1)
        if not 0 <= view < len(views):
            raise ValueError(f"{name} has {len(fit.details['view_titles'])} views; got {view}")
        shown = views[view]
        return eight_bit(shown.original), eight_bit(shown.reconstruction)

    def __repr__(self) -> str:
        first = self._metrics.measures[0]
        found = (
            f"{name} {fit.scores[first.name]:.{first.digits}f}" for name, fit in self._fits.items()
        )
        return f"FittedRun({str(self.folder)!r}: {first.label}: {', '.join(found)})"

    def _repr_html_(self) -> str:
        page = html.escape((self.folder / REPORT).read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 720px; border: 0"></iframe>'


def fit(options: Mapping[str, Any], experiment: Experiment) -> FittedRun:
    """Make the run that options ask for; see `train_fit.fit`."""
    stop = Stop()
    try:
        words = _words(options)
        with _refusals():
            kind, asked = parse(with_own_encodings(words, Path()))
        with handled_signals(stop):
            is_complete = experiment(kind, asked, Context(words, stop, experiment))
    except (PluginError, SceneError, UsageError) as error:
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


def _words(options: Mapping[str, Any]) -> list[str]:
    """Options as the words of a command line."""
    for name in options:
        require_installed(name)
    if not KINDS.keys() & options.keys():
        raise UsageError(
            f"what shall be fitted? Give one of {', '.join(KINDS)}, as in image=pixels"
        )
    words = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if name in KINDS:
            is_path = isinstance(value, str | Path)
            words += [option, str(value if is_path else KINDS[name].file_of(value))]
        elif name.removesuffix("s") in KINDS:
            raise UsageError(f"{name} is for the command line; call fit for each of them")
        elif isinstance(value, np.ndarray | torch.Tensor):
            # A mask, or weights.
            words += [option, str(weights_file(value))]
        elif isinstance(value, list | tuple):
            words += [option, *map(_word, value)]
        elif value is not None and value is not False:
            words += [option] if value is True else [option, _word(value)]
    return words


def _word(value: Any) -> str:
    """A value as a word; a class as ``FILE.py:CLASS``, which a saved fit needs."""
    if not isinstance(value, type):
        return str(value)
    try:
        return f"{inspect.getfile(value)}:{value.__name__}"
    except (OSError, TypeError):
        raise UsageError(
            f"{value.__name__} is of no file, and its saved fit could not be read; write it to one"
        ) from None


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Raise what the parser prints before it exits."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            yield
    except SystemExit:
        # A heading, what is wrong and the help, in a box with lines between them.
        text = re.split("Argument helptext|For full helptext", said.getvalue())[0]
        raise UsageError(" ".join(re.sub("[─-]{10,}|[│╭╮╰╯]", " ", text).split())) from None
