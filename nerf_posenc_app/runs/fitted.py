"""A complete run, read back in Python: its scores, reconstructions and models."""

from __future__ import annotations

import html
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from nerf_posenc.fits import load_fit
from nerf_posenc.training.recipes import own_encodings
from nerf_posenc_app.options import UsageError
from nerf_posenc_app.own_encodings import imported, of_class, require_same_files
from nerf_posenc_app.report.images import eight_bit
from nerf_posenc_app.runs.folder import REPORT
from nerf_posenc_app.runs.saved import STATE, read_file_blocks, read_metrics, read_state, read_views
from nerf_posenc_app.runs.saved_fits import find_fit
from nerf_posenc_app.terminal import printable
from nerf_posenc_app.values.finding import Finding
from nerf_posenc_app.values.results import Result

if TYPE_CHECKING:
    from nerf_posenc.fits import CoordinateFit, SceneFit


# Largest page that a notebook shows, in bytes.
_MOST_BYTES = 100_000_000


class FittedRun:
    """Result of a run: scores, reconstructions and models by the name of the fit.

    In a notebook it shows itself as the page of the comparison.

    Args:
        folder: folder of a complete run, from Python or from the command line.
        encodings: encodings and networks of your own that the run was made with: classes, or
            ``FILE.py:CLASS``. Their code runs only if you name them.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it is no folder of a complete run.
    """

    def __init__(self, folder: str | Path, *, encodings: Iterable[str | type] = ()) -> None:
        # Absolute: the program may change to another folder.
        self.folder = Path(folder).absolute()
        self._encodings = [
            of_class(each) if isinstance(each, type) else imported(each) for each in encodings
        ]
        self._metrics = read_metrics(self.folder)
        self._fits = {fit.label: fit for fit in self._metrics.fits}

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """Scores of every fit and reference by the name of the measure, such as ``psnr_db``."""
        return {name: dict(fit.scores) for name, fit in self._fits.items()}

    def reconstruction(self, name: str, view: int = 0) -> npt.NDArray[Any]:
        """Reconstruction of the data by a fit, as the page shows it.

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
        """Original data that `reconstruction` is compared with, of the same shape."""
        return self._shown(next(iter(self._fits)), view)[0]

    def model(self, name: str) -> CoordinateFit | SceneFit:
        """Load the model of a fit, to be evaluated anywhere; see `nerf_posenc.fits`.

        Args:
            name: name of a fit, also of a later seed, such as ``fourier-1``.

        Raises:
            ValueError: If there is no such fit, or it is of a kind that is not rebuilt from a file:
                a sequence; or if its encoding is one of your own that is not given, or has changed.
        """
        try:
            saved = read_state(self.folder / STATE).own_encodings
            is_later_seed = name not in self._fits and name.rpartition("-")[0] in self._fits
            first = self._fit(name.rpartition("-")[0] if is_later_seed else name)
            encoding = first.name.encoding
            needed = {encoding: saved[encoding]} if encoding in saved else {}
            require_same_files(needed, self._encodings, self.folder)
            file = find_fit(self.folder, name if is_later_seed else first.label)[1]
            return load_fit(file, encodings=own_encodings(self._encodings))
        except UsageError as error:
            raise ValueError(error.for_python()) from None

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
        panel = views[view]
        return eight_bit(panel.original), eight_bit(panel.reconstruction)

    @property
    def finding(self) -> Finding | None:
        """Headline of the run, as on its page; None if no fit has a score."""
        return self._metrics.finding

    def __repr__(self) -> str:
        first = self._metrics.measures[0]
        scores = (
            f"{name} {fit.scores[first.name]:.{first.digits}f}" for name, fit in self._fits.items()
        )
        return printable(f"FittedRun({str(self.folder)!r}: {first.label}: {', '.join(scores)})")

    def _repr_html_(self) -> str:
        # In a sandbox: the page may be of a stranger's run, and a notebook trusts what it shows.
        file = self.folder / REPORT
        # A link could put any file of this machine into a notebook that is saved.
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _MOST_BYTES:
            raise ValueError(f"{file} is no page of a run: it must be a regular file")
        page = html.escape(file.read_text(encoding="utf-8"))
        style = "width: 100%; height: 720px; border: 0"
        return f'<iframe sandbox="allow-scripts" srcdoc="{page}" style="{style}"></iframe>'
