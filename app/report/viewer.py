"""A page in the browser that shows fits as they go on, served to this machine alone."""

import contextlib
import io
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from app.report import eight_bit
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.radiance.rays import Camera
from nerf_posenc.training.loop import FitState

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
_BACKGROUND = 32
# Seconds between two pictures of a fit that nobody turns.
_SECONDS = 1.0
_FIELD_OF_VIEW = math.radians(45)

# A client may leave before it is sent to; one that has just come has no camera yet, which
# viser asserts.
_gone = contextlib.suppress(AssertionError, ConnectionError)

# Its server announces itself whatever it is told.
_unprinted = contextlib.redirect_stdout(io.StringIO())


class LivePage:
    """Page at 127.0.0.1 with what fits show as they go on, and their curves.

    Pictures stand side by side; round a field the camera is turned with the mouse. The server
    and its page are viser's. Pass it as the audience of
    [Training][app.progress.Training]; in a ``with`` statement it closes at the end.

    Args:
        title: shown as text.
        original: the picture that is fitted, values in [0, 1]; None for a field.
        poses: of the views of a field, one of which the camera starts from; None for a picture.
        port: to serve at, or the next one that is free.
        pixels: of a rendering of a field, about.

    Raises:
        ImportError: where viser is not installed.
    """

    def __init__(
        self,
        title: str,
        *,
        original: Float[Tensor, "height width 3"] | None = None,
        poses: Float[Tensor, "views 4 4"] | None = None,
        port: int = 8080,
        pixels: int = 128 * 128,
    ) -> None:
        # Here, because only those who watch need it.
        import viser

        with _unprinted:
            self._server = viser.ViserServer("127.0.0.1", port, label=title, verbose=False)
        self._pixels = pixels
        self._pictures = {} if original is None else {"original": eight_bit(original)}
        self._curves: dict[str, tuple[list[int], list[float]]] = {}
        self._seen: dict[int, tuple[float, float]] = {}
        self._shown_at = -math.inf
        gui = self._server.gui
        # Sharing would take the page through somebody's server.
        gui.configure_theme(dark_mode=True, show_logo=False, show_share_button=False)
        gui.main_panel.dock_right()
        # As HTML, a title's or a name's own tags would be followed.
        gui.add_text("fitting", title, disabled=True)
        self._status: Any = gui.add_text("now", "", disabled=True)
        self._plot: Any = None
        if poses is not None:
            self._place_camera(poses)

    @property
    def url(self) -> str:
        """Where to open it."""
        return f"http://127.0.0.1:{self._server.get_port()}"

    def __enter__(self) -> "LivePage":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving."""
        with _unprinted:
            self._server.stop()

    def watch_picture(self, name: str, state: FitState, show: Callable[[], Tensor]) -> None:
        """Show a picture's fit: [Audience][app.progress.Audience]."""
        self._tell(name, state)
        clients = self._server.get_clients().values()
        is_last = state.step == state.num_steps
        if not clients or not (is_last or time.monotonic() - self._shown_at > _SECONDS):
            return
        self._pictures[name] = eight_bit(show())
        self._shown_at = time.monotonic()
        for client in clients:
            with _gone:
                canvas = _side_by_side(list(self._pictures.values()), client.camera.aspect)
                client.scene.set_background_image(canvas, format="png")

    def watch_field(
        self, name: str, state: FitState, look: Callable[[Camera, Tensor], Tensor]
    ) -> None:
        """Show a field's fit: [Audience][app.progress.Audience]."""
        self._tell(name, state)
        for number, client in self._server.get_clients().items():
            place = None
            with _gone:
                moved = client.camera.update_timestamp
                place = _as_seen(client.camera, self._pixels)
            at, seen = self._seen.get(number, (-math.inf, -math.inf))
            if place is None or (seen == moved and time.monotonic() - at < _SECONDS):
                continue
            shown = eight_bit(look(*place))
            with _gone:
                client.scene.set_background_image(shown, format="jpeg")
            self._seen[number] = time.monotonic(), moved

    def _tell(self, name: str, state: FitState) -> None:
        """Bring the line and the curves up to date."""
        record = state.history[-1]
        steps, scores = self._curves.setdefault(name, ([], []))
        steps.append(record.step)
        scores.append(psnr_from_mse(record.loss))
        self._status.value = f"{name}: step {state.step} of {state.num_steps}, {scores[-1]:.2f} dB"
        if len(steps) % 5 and state.step != state.num_steps:
            return
        longest = max((steps for steps, _ in self._curves.values()), key=len)
        data = [np.array(longest, dtype=float)]
        series: list[Any] = [{"label": "steps"}]
        for i, (label, (_, known)) in enumerate(self._curves.items()):
            missing = [math.nan] * (len(longest) - len(known))
            data.append(np.array([*known, *missing]))
            colour = _COLOURS[i % len(_COLOURS)]
            series.append({"label": f"{label} (dB)", "stroke": colour, "width": 2})
        if self._plot is None or len(self._plot.data) != len(data):
            if self._plot is not None:
                self._plot.remove()
            self._plot = self._server.gui.add_uplot(
                tuple(data),
                tuple(series),
                title="PSNR of the batches by step",
                scales={"x": {"time": False}},
                aspect=1.3,
            )
        else:
            self._plot.data = tuple(data)

    def _place_camera(self, poses: Tensor) -> None:
        """Start from the first view, upright as the views are."""
        up = F.normalize(poses[:, :3, 1].double().mean(0), dim=0)
        place, back = poses[0, :3, 3].double(), poses[0, :3, 2].double()
        self._server.scene.set_up_direction(tuple(up.tolist()))
        camera = self._server.initial_camera
        camera.position = np.array(place.tolist())
        camera.look_at = np.array((place - back * place.norm()).tolist())
        camera.fov = _FIELD_OF_VIEW


def _as_seen(camera: Any, pixels: int) -> tuple[Camera, Tensor]:
    """Camera and pose, in our conventions, of a browser's view."""
    height = max(8, round(math.sqrt(pixels / camera.aspect)))
    width = max(8, round(height * camera.aspect))
    focal = height / 2 / math.tan(camera.fov / 2)
    w, x, y, z = (float(v) for v in camera.wxyz)
    rotation = torch.tensor(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    pose = torch.eye(4)
    # OpenCV's camera looks along +z with y down, ours along -z with y up.
    pose[:3, :3] = rotation * torch.tensor([1.0, -1.0, -1.0])
    pose[:3, 3] = torch.tensor([float(v) for v in camera.position])
    return Camera(width, height, focal, focal, width / 2, height / 2), pose


def _side_by_side(
    pictures: Sequence[npt.NDArray[np.uint8]], aspect: float
) -> npt.NDArray[np.uint8]:
    """Lay pictures of one shape out in as many columns as show them largest, in a dark frame."""
    height, width, _ = pictures[0].shape

    scales = [
        min(aspect / (columns * width), 1 / (-(-len(pictures) // columns) * height))
        for columns in range(1, len(pictures) + 1)
    ]
    columns = 1 + scales.index(max(scales))
    rows = -(-len(pictures) // columns)
    full_height = max(rows * height, round(columns * width / aspect))
    full_width = max(columns * width, round(full_height * aspect))
    canvas = np.full((full_height, full_width, 3), _BACKGROUND, dtype=np.uint8)
    top, left = (full_height - rows * height) // 2, (full_width - columns * width) // 2
    for i, picture in enumerate(pictures):
        row, column = divmod(i, columns)
        y, x = top + row * height, left + column * width
        canvas[y : y + height, x : x + width] = picture
    return canvas
