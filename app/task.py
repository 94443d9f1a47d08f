"""What the program fits: the interface of an image and a scene."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from app.fit_file import FitFile
from app.stop import Stop
from nerf_posenc.images import Image
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.views import Scene
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.results import FitResult

Result = TypeVar("Result", bound=FitResult)


@dataclass(frozen=True)
class Openers:
    """How the program opens data.

    Attributes:
        image: from a path or the name of a sample, with ``max_pixels=``.
        scene: from a path or the name of a built-in scene, with ``size=`` in pixels or None and
            ``max_pixels=`` of an image file.
        cameras: of a JSON file, with the camera of frames that name none.
        built_in: names of the scenes that are rendered, not read.
        error: raised by both for bad input, with a message to be printed.
    """

    image: Callable[..., Image]
    scene: Callable[..., Scene]
    cameras: Callable[..., Sequence[tuple[Camera, Tensor]]]
    built_in: Collection[str]
    error: type[Exception]


@dataclass(frozen=True)
class Panel:
    """An image or a view beside its reconstructions, for the page.

    Attributes:
        name: of the image or the view.
        original: values in [0, 1].
        fits: reconstructions by the name of the fit.
        depths: by the name of the fit, NaN for empty pixels.
    """

    name: str
    original: Float[Tensor, "height width 3"]
    fits: Mapping[str, Float[Tensor, "height width 3"]]
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


@dataclass(frozen=True)
class FitControl:
    """What watches over one fit.

    Attributes:
        stop: ends it early when asked to.
        viewer: shows it in progress; None for none.
        file: where it is saved and resumed from; None for nowhere.
        batch_size: instead of the run's, for one that did not fit into memory.
    """

    stop: Stop
    viewer: Viewer | None = None
    file: FitFile | None = None
    batch_size: int | None = None


@runtime_checkable
class Task(Protocol[Result]):
    """An image or a scene to be fitted, evaluated and shown."""

    kind: str
    """Its kind, ``"image"`` or ``"scene"``."""
    name: str
    source: str
    size: tuple[int, int]
    """Width and height in pixels."""

    def summary(self) -> list[str]:
        """Lines that are printed before the first fit."""
        ...

    def digest(self) -> str:
        """Checksum of all pixels and poses, which tells whether a run is resumed with its data."""
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

    def truth(self) -> Float[Tensor, "*shape 3"]:
        """All pixels that fits are evaluated on."""
        ...

    def preview_truth(self) -> list[Tensor]:
        """The true images of a snapshot."""
        ...

    def panels(self, results: Sequence[Result]) -> list[Panel]:
        """The images that the page shows."""
        ...

    def open_viewer(self) -> "LiveViewer":
        """Serve a page that shows the fits in progress."""
        ...

    def write(self, folder: Path, results: Sequence[Result]) -> dict[str, Path]:
        """Write images and figures to the run folder.

        Returns:
            Turntable videos by the name of the fit.
        """
        ...


@runtime_checkable
class LiveViewer(Viewer, Protocol):
    """A viewer that is served at a URL until it is closed."""

    @property
    def url(self) -> str:
        """Where to open it."""

    def close(self) -> None:
        """Stop serving."""
