"""A page in the browser that shows fits in progress, served to this machine alone.

It draws what a fit in progress can show: images, what a camera sees, or a passage with predictions.
"""

from __future__ import annotations

import contextlib
import io
import math
import time
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from nerf_posenc.training.loop import FitState
from nerf_posenc_app.live.camera import (
    FIELD_OF_VIEW,
    camera_from_client,
    first_view,
    window_from_client,
)
from nerf_posenc_app.live.canvas import LivePanel, draw_canvas, draw_view
from nerf_posenc_app.live.origin_check import own_page_only, require_own_page_only
from nerf_posenc_app.options import UsageError
from nerf_posenc_app.report.images import eight_bit
from nerf_posenc_app.report.page import passage_spans
from nerf_posenc_app.report.palette import NUM_COLORS, PAGE_DARK, color_indices
from nerf_posenc_app.terminal import warning_once
from nerf_posenc_app.values.blocks import Passage
from nerf_posenc_app.values.measures import BATCH_PSNR, TrainingScore
from nerf_posenc_app.values.results import InProgress

if TYPE_CHECKING:
    from jaxtyping import Float

# Seconds between two images of a fit while the camera rests.
_SECONDS = 1.0
# Seconds to deliver the last message to browsers.
_GOODBYE = 0.3
# Width in pixels of the panel beside a field.
_NARROW = 340
# Width in pixels of the panel with the predictions of a sequence, which fill the page.
_WIDE = 760
_BRAND = 108, 184, 232
# The page is dark.
_STYLE = (
    "<style>.passage { white-space: pre-wrap; font-family: monospace; }"
    ".right { color: #36c9a0; } .wrong { color: #f08a4b; text-decoration: underline; }</style>"
)

# A client may disconnect before it is sent to, and a new one has no camera yet, which viser
# asserts.
_gone = contextlib.suppress(AssertionError, ConnectionError)

# viser's server prints its address even if it is not verbose.
_unprinted = contextlib.redirect_stdout(io.StringIO())


class LivePage:
    """Page at 127.0.0.1 with fits in progress and their curves.

    Images fill the window side by side; what a camera sees fills it alone, and the camera is moved
    with the mouse; predictions and curves are in the panel. The server and its page are viser's.

    Args:
        title: name of the data, shown as text.
        score: score of the batches that the curves show.
        poses: poses of the views of a field, where the camera starts; None for other data.
        port: port to serve at, or the next free one.
        pixels: approximate number of pixels in a rendering from a camera.

    Attributes:
        server: viser's server.

    Raises:
        ImportError: If viser is not installed.
        UsageError: If viser would let other sites command the page.
    """

    def __init__(
        self,
        title: str,
        *,
        score: TrainingScore = BATCH_PSNR,
        poses: Float[Tensor, "views 4 4"] | None = None,
        port: int = 8080,
        pixels: int = 128 * 128,
    ) -> None:
        # Imported here since only --live needs it.
        import viser

        with _unprinted, own_page_only():
            self.server = viser.ViserServer("127.0.0.1", port, label=title, verbose=False)
        try:
            require_own_page_only(self.server.get_port())
        except UsageError:
            self.close()
            raise
        self._pixels = pixels
        self._score = score
        # Texts have a loss, and their passages need a wide panel.
        self._is_wide = score.measure.name == "loss"
        self._title = title
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
        gui.main_panel.set_width(_WIDE if self._is_wide else _NARROW)
        if poses is not None:
            self._add_camera(poses)
        # Sent as text: in HTML, tags in a name would be interpreted.
        gui.add_text("fitting", title, disabled=True)
        self._status: Any = gui.add_text("now", "", disabled=True)
        self._plot: Any = None

    @property
    def url(self) -> str:
        """Where to open it."""
        return f"http://127.0.0.1:{self.server.get_port()}"

    def __enter__(self) -> "LivePage":
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            warning_once(self._say_goodbye, "live page")()
        self.close()

    def _say_goodbye(self) -> None:
        """Say that it is over: a page cannot tell a server that has ended from one it has lost."""
        if self.server.get_clients():
            self._status.value = "all fits are done; the report is written to the run folder"
            self.server.flush()
            time.sleep(_GOODBYE)

    def close(self) -> None:
        """Stop serving."""
        with _unprinted:
            self.server.stop()

    def show(self, name: str, state: FitState, fit: InProgress) -> None:
        """Show a fit; a [Watcher][nerf_posenc_app.runs.train.Watcher]."""
        record = state.history[-1]
        steps, scores = self._curves.setdefault(name, ([], []))
        steps.append(record.step)
        scores.append(self._score.score_from_loss(record.loss))
        line = self._state_line(name, state)
        self._status.value = f"{name}: {line}"
        self._update_plot(state)
        if fit.render is not None:
            self._show_cameras(name, line, fit)
        elif self._is_due(state):
            if fit.passage is not None:
                self._show_passage(f"{name}: {line}", name, fit.passage())
            elif fit.originals:
                self._show_images(name, line, fit)
            self._shown_at = time.monotonic()

    def _show_images(self, name: str, line: str, fit: InProgress) -> None:
        """Show the first preview of every fit beside the original."""
        if not self._panels:
            original = eight_bit(fit.originals[0])
            size = f"{original.shape[1]} x {original.shape[0]}"
            self._panels["original"] = LivePanel(f"{self._title}: original", size, original)
        preview = eight_bit(fit.preview()[0])
        self._panels[name] = LivePanel(name, line, preview, self._color(name))
        for client in self.server.get_clients().values():
            with _gone:
                width, height = window_from_client(client.camera)
                canvas = draw_canvas(width, height, list(self._panels.values()))
                client.scene.set_background_image(canvas, format="png")

    def _show_cameras(self, name: str, line: str, fit: InProgress) -> None:
        """Render what each browser's camera sees, at once if it has moved."""
        assert fit.render is not None
        for number, client in self.server.get_clients().items():
            view = None
            with _gone:
                moved_at = client.camera.update_timestamp
                view = camera_from_client(client.camera, self._pixels)
                window = window_from_client(client.camera)
            sent_at, sent = self._sent.get(number, (-math.inf, -math.inf))
            if view is None or (sent == moved_at and time.monotonic() - sent_at < _SECONDS):
                continue
            panel = LivePanel(name, line, eight_bit(fit.render(*view)), self._color(name))
            with _gone:
                client.scene.set_background_image(draw_view(*window, panel), format="jpeg")
            self._sent[number] = time.monotonic(), moved_at

    def _show_passage(self, heading: str, name: str, passage: Passage | None) -> None:
        """Show predictions in the panel."""
        if passage is None:
            return
        if name not in self._passages:
            self._passages[name] = self.server.gui.add_html("")
        text = f'<div class="passage">{passage_spans(passage)}</div>'
        self._passages[name].content = f"{_STYLE}<b>{escape(heading)}</b>{text}"

    def _is_due(self, state: FitState) -> bool:
        """Whether someone watches and the last image is long enough ago."""
        is_last = state.step == state.num_steps
        is_late = time.monotonic() - self._shown_at > _SECONDS
        return bool(self.server.get_clients()) and (is_last or is_late)

    def _color(self, name: str) -> str:
        return PAGE_DARK[color_indices(list(self._curves))[name] % NUM_COLORS]

    def _state_line(self, name: str, state: FitState) -> str:
        """Step and score of a fit."""
        score = self._score.measure.sentence(self._curves[name][1][-1])
        return f"step {state.step} of {state.num_steps}, {score}"

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
            series.append({"label": label, "stroke": self._color(label), "width": 2})
        if self._plot is None or len(self._plot.data) != len(data):
            if self._plot is not None:
                self._plot.remove()
            self._plot = self.server.gui.add_uplot(
                tuple(data),
                tuple(series),
                title=f"{self._score.measure.of_batches} by step",
                scales={"x": {"time": False}},
                aspect=2.4 if self._is_wide else 1.3,
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
            gui.add_markdown("Drag to rotate, right-drag to pan, scroll to zoom.")
            button = gui.add_button("reset the view")

        @button.on_click
        def _(event: Any) -> None:
            if event.client is not None:
                with _gone:
                    event.client.camera.up_direction = up
                    event.client.camera.position = position
                    event.client.camera.look_at = target
