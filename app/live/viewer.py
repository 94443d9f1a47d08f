"""A page in the browser that shows fits in progress, served to this machine alone."""

import contextlib
import functools
import io
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from app.report.eight_bit import eight_bit
from app.report.own_page import own_page_only
from app.report.palette import NUM_COLORS, PAGE_DARK
from app.report.passages import passage_html
from app.report.viewer_camera import (
    FIELD_OF_VIEW,
    camera_from_client,
    first_view,
    window_from_client,
)
from app.report.viewer_canvas import LiveCurve, LivePanel, draw_canvas, draw_view
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.system import Passage

# Seconds between two images of a fit while the camera rests.
_SECONDS = 1.0
# Of the panel beside a field, and of that with the predictions of a sequence.
_NARROW, _WIDE = 340, 760
_BRAND = 108, 184, 232

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

    Images fill the window side by side, their curves below. A field fills it as the camera sees it,
    which is moved with the mouse. The server and its page are viser's.

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
        self._panels: dict[str, LivePanel] = {}
        self._curves: dict[str, tuple[list[int], list[float]]] = {}
        self._sent: dict[int, tuple[float, float]] = {}
        self._shown_at = -math.inf
        gui = self.server.gui
        # Sharing would route the page through a server on the internet.
        gui.configure_theme(
            dark_mode=True, show_logo=False, show_share_button=False, brand_color=_BRAND
        )
        gui.main_panel.dock_right()
        gui.main_panel.set_width(_NARROW if loss_name is None else _WIDE)
        if poses is not None:
            self._add_camera(poses)
        # As text: in HTML, tags in a name would be interpreted.
        gui.add_text("fitting", title, disabled=True)
        self._status: Any = gui.add_text("now", "", disabled=True)
        self._plot: Any = None
        if original is not None:
            pixels_shown = eight_bit(original)
            size = f"{pixels_shown.shape[1]} x {pixels_shown.shape[0]}"
            self._panels["original"] = LivePanel(f"{title}: original", size, pixels_shown)
            # All there is to see is drawn in the window.
            gui.main_panel.minimize()

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
        self._update_status(name, state)
        if not self._is_due(state):
            return
        line, color = self._state_line(name, state), self._color(name)
        self._panels[name] = LivePanel(name, line, eight_bit(render()), color)
        self._shown_at = time.monotonic()
        curves = [LiveCurve(n, self._color(n), *known) for n, known in self._curves.items()]
        for client in self.server.get_clients().values():
            with _gone:
                width, height = window_from_client(client.camera)
                panels = list(self._panels.values())
                canvas = draw_canvas(width, height, panels, curves, state.num_steps)
                client.scene.set_background_image(canvas, format="png")

    @_errors_as_warnings
    def show_field(
        self, name: str, state: FitState, render: Callable[[Camera, Tensor], Tensor]
    ) -> None:
        """Show a field's fit; see [Viewer][app.task.Viewer]."""
        self._update_status(name, state)
        self._update_plot(state)
        for number, client in self.server.get_clients().items():
            view = None
            with _gone:
                moved_at = client.camera.update_timestamp
                view = camera_from_client(client.camera, self._pixels)
                window = window_from_client(client.camera)
            sent_at, sent = self._sent.get(number, (-math.inf, -math.inf))
            if view is None or (sent == moved_at and time.monotonic() - sent_at < _SECONDS):
                continue
            line = self._state_line(name, state)
            panel = LivePanel(name, line, eight_bit(render(*view)), self._color(name))
            with _gone:
                client.scene.set_background_image(draw_view(*window, panel), format="jpeg")
            self._sent[number] = time.monotonic(), moved_at

    @_errors_as_warnings
    def show_sequence(
        self, name: str, state: FitState, predict: Callable[[], Passage | None]
    ) -> None:
        """Show a sequence's fit; see [Viewer][app.task.Viewer]."""
        self._update_status(name, state)
        self._update_plot(state)
        if not self._is_due(state):
            return
        passage = predict()
        self._shown_at = time.monotonic()
        if passage is None:
            return
        if name not in self._passages:
            self._passages[name] = self.server.gui.add_html("")
        heading = f"{name}: {self._state_line(name, state)}"
        self._passages[name].content = passage_html(heading, passage)

    def _is_due(self, state: FitState) -> bool:
        """Whether someone watches and the last image is long enough ago."""
        is_last = state.step == state.num_steps
        is_late = time.monotonic() - self._shown_at > _SECONDS
        return bool(self.server.get_clients()) and (is_last or is_late)

    def _color(self, name: str) -> str:
        return PAGE_DARK[list(self._curves).index(name) % NUM_COLORS]

    def _state_line(self, name: str, state: FitState) -> str:
        """Step and score of a fit."""
        score = self._curves[name][1][-1]
        shown = f"{score:.2f} dB" if self._loss_name is None else f"{self._loss_name} {score:.3f}"
        return f"step {state.step} of {state.num_steps}, {shown}"

    def _update_status(self, name: str, state: FitState) -> None:
        """Record a fit's score and update the status line."""
        record = state.history[-1]
        steps, scores = self._curves.setdefault(name, ([], []))
        steps.append(record.step)
        scores.append(record.loss if self._loss_name else psnr_from_mse(record.loss))
        self._status.value = f"{name}: {self._state_line(name, state)}"

    def _update_plot(self, state: FitState) -> None:
        """Update the curves in the panel."""
        lengths = [len(steps) for steps, _ in self._curves.values()]
        if lengths[-1] > 2 and lengths[-1] % 5 and state.step != state.num_steps:
            return
        longest = max((steps for steps, _ in self._curves.values()), key=len)
        data = [np.array(longest, dtype=float)]
        series: list[Any] = [{"label": "steps"}]
        for label, (_, known) in self._curves.items():
            missing = [math.nan] * (len(longest) - len(known))
            data.append(np.array([*known, *missing]))
            shown = label if self._loss_name else f"{label} (dB)"
            series.append({"label": shown, "stroke": self._color(label), "width": 2})
        if self._plot is None or len(self._plot.data) != len(data):
            if self._plot is not None:
                self._plot.remove()
            self._plot = self.server.gui.add_uplot(
                tuple(data),
                tuple(series),
                title=f"{self._loss_name or 'PSNR of the training batches'} by step",
                scales={"x": {"time": False}},
                aspect=1.3 if self._loss_name is None else 2.4,
            )
        else:
            self._plot.data = tuple(data)

    def _add_camera(self, poses: Tensor) -> None:
        """Start at the first view, and say how to move from there."""
        position, target, up = first_view(poses)
        self.server.scene.set_up_direction(up)
        camera = self.server.initial_camera
        camera.position, camera.look_at = np.array(position), np.array(target)
        camera.fov = FIELD_OF_VIEW
        gui = self.server.gui
        with gui.add_folder("camera"):
            gui.add_markdown("Drag to turn, right-drag to move, scroll to come closer.")
            button = gui.add_button("back to the first view")

        @button.on_click
        def _(event: Any) -> None:
            if event.client is not None:
                with _gone:
                    event.client.camera.up_direction = up
                    event.client.camera.position = position
                    event.client.camera.look_at = target
