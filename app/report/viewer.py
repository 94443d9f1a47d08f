"""A page in the browser that shows fits in progress, served to this machine alone."""

import contextlib
import functools
import io
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from app.report.eight_bit import eight_bit
from app.report.own_page import own_page_only
from app.report.palette import figure_colors
from app.report.passages import passage_html
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.system import Passage

_BACKGROUND = 32
# Seconds between two images of a fit while the camera rests.
_SECONDS = 1.0
_FIELD_OF_VIEW = math.radians(45)
# What a browser may ask for.
_MOST_ASPECT = 8.0
_MOST_SIDE = 4096
_MOST_DISTANCE = 1e4
_FIELDS_OF_VIEW = math.radians(1), math.radians(170)

# A client may disconnect before it is sent to, and a new one has no camera yet, which viser
# asserts.
_gone = contextlib.suppress(AssertionError, ConnectionError)

# viser's server prints its address even if it is not verbose.
_unprinted = contextlib.redirect_stdout(io.StringIO())


def _errors_as_warnings(show: Callable[..., None]) -> Callable[..., None]:
    """Turn any error while a fit is shown into a warning, printed once."""
    warned: list[Exception] = []

    @functools.wraps(show)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            show(*args, **kwargs)
        except Exception as error:  # Whatever a browser may have sent.
            if not warned:
                reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
                print(f"warning: the live page failed ({reason}); the fit goes on", file=sys.stderr)
            warned.append(error)

    return guarded


class LivePage:
    """Page at 127.0.0.1 with fits in progress and their curves.

    Images are shown side by side; the camera around a field is moved with the mouse. The server and
    its page are viser's.

    Args:
        title: shown as text.
        original: the image that is fitted, values in [0, 1]; None for a field.
        poses: of the views of a field, where the camera starts; None for an image.
        port: to serve at, or the next free one.
        pixels: approximate number in a rendering of a field.
        loss_name: what the curves show; None is the PSNR of the batches.

    Attributes:
        server: viser's server.

    Raises:
        ImportError: If viser is not installed.
    """

    def __init__(
        self,
        title: str,
        *,
        original: Float[Tensor, "height width 3"] | None = None,
        poses: Float[Tensor, "views 4 4"] | None = None,
        port: int = 8080,
        pixels: int = 128 * 128,
        loss_name: str | None = None,
    ) -> None:
        # Imported here since only --live needs it.
        import viser

        with _unprinted, own_page_only():
            self.server = viser.ViserServer("127.0.0.1", port, label=title, verbose=False)
        self._pixels = pixels
        self._loss_name = loss_name
        self._passages: dict[str, Any] = {}
        self._images = {} if original is None else {"original": eight_bit(original)}
        self._curves: dict[str, tuple[list[int], list[float]]] = {}
        self._sent: dict[int, tuple[float, float]] = {}
        self._shown_at = -math.inf
        gui = self.server.gui
        # Sharing would route the page through a server on the internet.
        gui.configure_theme(dark_mode=True, show_logo=False, show_share_button=False)
        gui.main_panel.dock_right()
        # As text: in HTML, tags in a name would be interpreted.
        gui.add_text("fitting", title, disabled=True)
        self._status: Any = gui.add_text("now", "", disabled=True)
        self._plot: Any = None
        if poses is not None:
            self._place_camera(poses)

    @property
    def url(self) -> str:
        """Where to open it."""
        return f"http://127.0.0.1:{self.server.get_port()}"

    def __enter__(self) -> "LivePage":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving."""
        with _unprinted:
            self.server.stop()

    @_errors_as_warnings
    def show_image(self, name: str, state: FitState, render: Callable[[], Tensor]) -> None:
        """Show an image's fit; see [Viewer][app.task.Viewer]."""
        self._update_curves(name, state)
        clients = self.server.get_clients().values()
        is_last = state.step == state.num_steps
        if not clients or not (is_last or time.monotonic() - self._shown_at > _SECONDS):
            return
        self._images[name] = eight_bit(render())
        self._shown_at = time.monotonic()
        for client in clients:
            with _gone:
                canvas = _side_by_side(list(self._images.values()), _aspect(client.camera))
                client.scene.set_background_image(canvas, format="png")

    @_errors_as_warnings
    def show_field(
        self, name: str, state: FitState, render: Callable[[Camera, Tensor], Tensor]
    ) -> None:
        """Show a field's fit; see [Viewer][app.task.Viewer]."""
        self._update_curves(name, state)
        for number, client in self.server.get_clients().items():
            view = None
            with _gone:
                moved_at = client.camera.update_timestamp
                view = _camera_from_client(client.camera, self._pixels)
            sent_at, sent = self._sent.get(number, (-math.inf, -math.inf))
            if view is None or (sent == moved_at and time.monotonic() - sent_at < _SECONDS):
                continue
            image = eight_bit(render(*view))
            with _gone:
                client.scene.set_background_image(image, format="jpeg")
            self._sent[number] = time.monotonic(), moved_at

    @_errors_as_warnings
    def show_sequence(
        self, name: str, state: FitState, predict: Callable[[], Passage | None]
    ) -> None:
        """Show a sequence's fit; see [Viewer][app.task.Viewer]."""
        self._update_curves(name, state)
        is_last = state.step == state.num_steps
        if not self.server.get_clients() or not (
            is_last or time.monotonic() - self._shown_at > _SECONDS
        ):
            return
        passage = predict()
        self._shown_at = time.monotonic()
        if passage is None:
            return
        if name not in self._passages:
            self._passages[name] = self.server.gui.add_html("")
        self._passages[name].content = passage_html(name, passage)

    def _update_curves(self, name: str, state: FitState) -> None:
        """Update the status line and the curves."""
        record = state.history[-1]
        steps, scores = self._curves.setdefault(name, ([], []))
        steps.append(record.step)
        unit = " dB" if self._loss_name is None else ""
        scores.append(record.loss if self._loss_name else psnr_from_mse(record.loss))
        self._status.value = (
            f"{name}: step {state.step} of {state.num_steps}, {scores[-1]:.2f}{unit}"
        )
        if len(steps) % 5 and state.step != state.num_steps:
            return
        longest = max((steps for steps, _ in self._curves.values()), key=len)
        data = [np.array(longest, dtype=float)]
        series: list[Any] = [{"label": "steps"}]
        colors = figure_colors(len(self._curves))
        for color, (label, (_, known)) in zip(colors, self._curves.items(), strict=True):
            missing = [math.nan] * (len(longest) - len(known))
            data.append(np.array([*known, *missing]))
            shown = label if self._loss_name else f"{label} (dB)"
            series.append({"label": shown, "stroke": color, "width": 2})
        if self._plot is None or len(self._plot.data) != len(data):
            if self._plot is not None:
                self._plot.remove()
            self._plot = self.server.gui.add_uplot(
                tuple(data),
                tuple(series),
                title=f"{self._loss_name or 'PSNR of the batches'} by step",
                scales={"x": {"time": False}},
                aspect=1.3,
            )
        else:
            self._plot.data = tuple(data)

    def _place_camera(self, poses: Tensor) -> None:
        """Start at the first view, with the views' up direction."""
        up = F.normalize(poses[:, :3, 1].double().mean(0), dim=0)
        position, back = poses[0, :3, 3].double(), poses[0, :3, 2].double()
        self.server.scene.set_up_direction(tuple(up.tolist()))
        camera = self.server.initial_camera
        camera.position = np.array(position.tolist())
        camera.look_at = np.array((position - back * position.norm()).tolist())
        camera.fov = _FIELD_OF_VIEW


def _camera_from_client(client: Any, pixels: int) -> tuple[Camera, Tensor] | None:
    """Camera and pose, in our conventions, of a browser's view; None for one that is none."""
    from viser.transforms import SO3

    try:
        field_of_view = float(client.fov)
        wxyz, position = (np.array(v, dtype=float) for v in (client.wxyz, client.position))
    except (ArithmeticError, TypeError, ValueError):
        return None
    norm = float(np.linalg.norm(wxyz))
    has_shape = wxyz.shape == (4,) and position.shape == (3,)
    if not has_shape or not np.isfinite([field_of_view, norm, *position]).all() or norm == 0:
        return None
    aspect = _aspect(client)
    field_of_view = min(max(field_of_view, _FIELDS_OF_VIEW[0]), _FIELDS_OF_VIEW[1])
    height = min(max(8, round(math.sqrt(pixels / aspect))), _MOST_SIDE)
    width = min(max(8, round(height * aspect)), _MOST_SIDE)
    focal = height / 2 / math.tan(field_of_view / 2)
    rotation = torch.from_numpy(SO3(wxyz / norm).as_matrix()).float()
    pose = torch.eye(4)
    # From OpenCV's axes, y down and looking along +z.
    pose[:3, :3] = rotation * torch.tensor([1.0, -1.0, -1.0])
    pose[:3, 3] = torch.from_numpy(position.clip(-_MOST_DISTANCE, _MOST_DISTANCE))
    return Camera(width, height, focal, focal, width / 2, height / 2), pose


def _aspect(client: Any) -> float:
    """Width over height of a browser's window, within sane limits."""
    try:
        aspect = float(client.aspect)
    except (ArithmeticError, TypeError, ValueError):
        return 1.0
    return min(max(aspect, 1 / _MOST_ASPECT), _MOST_ASPECT) if math.isfinite(aspect) else 1.0


def _side_by_side(images: Sequence[npt.NDArray[np.uint8]], aspect: float) -> npt.NDArray[np.uint8]:
    """Arrange images of one shape in the number of columns that shows them largest."""
    height, width, _ = images[0].shape
    scales = [
        min(aspect / (columns * width), 1 / (-(-len(images) // columns) * height))
        for columns in range(1, len(images) + 1)
    ]
    columns = 1 + scales.index(max(scales))
    rows = -(-len(images) // columns)
    full_height = max(rows * height, round(columns * width / aspect))
    full_width = max(columns * width, round(full_height * aspect))
    canvas = np.full((full_height, full_width, 3), _BACKGROUND, dtype=np.uint8)
    top, left = (full_height - rows * height) // 2, (full_width - columns * width) // 2
    for i, image in enumerate(images):
        row, column = divmod(i, columns)
        y, x = top + row * height, left + column * width
        canvas[y : y + height, x : x + width] = image
    return canvas
