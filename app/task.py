"""What the program fits: the interface of an image, a scene and a sequence."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from jaxtyping import Float, Shaped
from torch import Tensor

from app.fit_file import FitFile
from app.stop import Stop
from nerf_posenc.images import Image
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.views import Scene
from nerf_posenc.training.distributed import ALONE, World
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.results import FitResult, Measure
from nerf_posenc.training.system import Passage, System

Result = TypeVar("Result", bound=FitResult)


@dataclass(frozen=True)
class Openers:
    """How the program opens data.

    Attributes:
        image: from a path or the name of a sample, with ``max_pixels=``.
        scene: from a path or the name of a built-in scene, with ``size=`` in pixels or None and
            ``max_pixels=`` of an image file.
        cameras: of a JSON file, with the camera of frames that name none.
        sequence: a system from a path or the name of built-in data, with `SystemOptions`.
        built_in: names of the scenes that are rendered, not read.
        errors: raised by them for bad input, with a message to be printed.
    """

    image: Callable[..., Image]
    scene: Callable[..., Scene]
    cameras: Callable[..., Sequence[tuple[Camera, Tensor]]]
    sequence: Callable[..., System]
    built_in: Collection[str]
    errors: tuple[type[Exception], ...]


@dataclass(frozen=True)
class Panel:
    """An image or a view beside its reconstructions, for the page.

    Attributes:
        name: of the image or the view.
        original: values in [0, 1]; as stored if they are many, 8 or 16 bits.
        fits: reconstructions by the name of the fit, likewise.
        depths: by the name of the fit, NaN for empty pixels.
    """

    name: str
    original: Shaped[Tensor, "height width 3"]
    fits: Mapping[str, Shaped[Tensor, "height width 3"]]
    depths: Mapping[str, Float[Tensor, "height width"]]


@runtime_checkable
class Viewer(Protocol):
    """Shows fits in progress; it is called at every record, and its time is not training time."""

    def show_image(self, name: str, state: FitState, render: Callable[[], Tensor]) -> None:
        """Show an image's fit.

        Args:
            name: of the encoding.
            state: of the fit.
            render: renders the image as it is now, ``(height, width, 3)``, reduced if it is large.
        """

    def show_field(
        self, name: str, state: FitState, render: Callable[[Camera, Tensor], Tensor]
    ) -> None:
        """Show a field's fit.

        Args:
            name: of the encoding.
            state: of the fit.
            render: from a camera and its pose ``(4, 4)`` to an image ``(height, width, 3)``.
        """

    def show_sequence(
        self, name: str, state: FitState, predict: Callable[[], Passage | None]
    ) -> None:
        """Show a sequence's fit.

        Args:
            name: of the encoding.
            state: of the fit.
            predict: an example of the test data with the predictions of the model as it is now.
        """


@dataclass(frozen=True)
class FitControl:
    """What watches over one fit.

    Attributes:
        stop: ends it early when asked to.
        viewer: shows it in progress; None for none.
        file: where it is saved and resumed from; None for nowhere.
        batch_size: instead of the run's, for one that did not fit into memory.
        world: the processes that fit together.
    """

    stop: Stop
    viewer: Viewer | None = None
    file: FitFile | None = None
    batch_size: int | None = None
    world: World = ALONE


@runtime_checkable
class Task(Protocol[Result]):
    """An image, a scene or a sequence to be fitted, evaluated and shown."""

    kind: str
    """``"image"``, ``"scene"`` or ``"sequence"``."""
    name: str
    source: str

    @property
    def measures(self) -> Sequence[Measure]:
        """Columns of the table; gains are of the first."""
        ...

    def summary(self) -> list[str]:
        """Lines that are printed before the first fit."""
        ...

    def facts(self) -> dict[str, Any]:
        """What is fitted, for ``metrics.json``."""
        ...

    def digest(self) -> str:
        """Checksum of all data, which tells whether a run is resumed with its own."""
        ...

    def fits_with(self, encoding: str) -> dict[str, Any]:
        """Settings of one encoding's fit that are not the run's, for ``metrics.json``."""
        ...

    def fit(self, encoding: str, control: FitControl) -> Result:
        """Fit with one encoding and evaluate.

        Raises:
            CheckpointError: If the file of the fit is damaged or of another version.
            FloatingPointError: If the loss is not finite.
            SaveError: If the fit cannot be saved as it ends.
            Stopped: If the run was asked to end.
        """
        ...

    def open_viewer(self) -> "LiveViewer":
        """Serve a page that shows the fits in progress."""
        ...

    def write_report(
        self, folder: Path, results: Sequence[Result], details: Mapping[str, Any]
    ) -> None:
        """Write the page, images and figures of a run.

        Args:
            folder: to write to.
            results: the fits.
            details: what reproduces the run.
        """
        ...

    def references(self) -> Sequence[Result]:
        """What fits are compared with that takes no training; its ``is_fit`` is False."""
        ...

    def notes(self, results: Sequence[Result]) -> Iterator[str]:
        """Remarks that a reader of the table should know."""
        ...


@runtime_checkable
class LiveViewer(Viewer, Protocol):
    """A viewer that is served at a URL until it is closed."""

    @property
    def url(self) -> str:
        """Where to open it."""

    def close(self) -> None:
        """Stop serving."""


def early_end(result: FitResult, num_steps: int, seconds: float | None = None) -> str | None:
    """Remark on a fit that did not take all its steps, or all its seconds if they are given."""
    if result.has_all_steps(num_steps, seconds):
        return None
    taken = f"{result.steps} of {num_steps} steps"
    if seconds is not None:
        taken = f"{result.seconds:.1f} of {seconds:g} seconds"
    return f"{result.encoding} was ended early, after {taken}"
