"""What fills the window of the live page, and what it takes from a browser."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from nerf_posenc_app.live.camera import camera_from_client, first_view, window_from_client
from nerf_posenc_app.live.canvas import LivePanel, columns_for, draw_canvas, draw_view
from tests.optional import needs


def panel(color: tuple[int, int, int], height: int = 20, width: int = 30) -> LivePanel:
    image = np.full((height, width, 3), color, dtype=np.uint8)
    return LivePanel("fourier", "step 10 of 100, 20.00 dB", image, "#56b4e9")


def columns_with(canvas: np.ndarray, color: tuple[int, int, int]) -> np.ndarray:
    return np.flatnonzero((canvas == color).all(-1).any(0))


def rows_with(canvas: np.ndarray, color: tuple[int, int, int]) -> np.ndarray:
    return np.flatnonzero((canvas == color).all(-1).any(1))


def test_panels_stand_side_by_side() -> None:
    red, blue = (255, 0, 0), (0, 0, 255)
    canvas = draw_canvas(1280, 720, [panel(red), panel(blue)])
    assert canvas.shape == (720, 1280, 3)
    assert columns_with(canvas, red).max() < columns_with(canvas, blue).min()
    assert rows_with(canvas, red).tolist() == rows_with(canvas, blue).tolist()
    assert np.ptp(columns_with(canvas, red)) > 0.45 * 1280


@pytest.mark.parametrize("window", [(64, 64), (300, 2000), (2000, 300), (1600, 900)])
def test_any_window_and_any_number_of_panels_is_drawn(window: tuple[int, int]) -> None:
    for count in (1, 2, 3, 9):
        canvas = draw_canvas(*window, [panel((255, 0, 0))] * count)
        assert canvas.shape == (window[1], window[0], 3)
        assert len(columns_with(canvas, (255, 0, 0)))


@pytest.mark.parametrize(
    ("count", "window", "aspect"),
    [(2, (1200, 500), 1.5), (2, (500, 1200), 1.5), (4, (800, 800), 1.0), (3, (1200, 300), 0.7)],
)
def test_no_other_number_of_columns_shows_the_images_larger(
    count: int, window: tuple[int, int], aspect: float
) -> None:
    columns, size = columns_for(count, *window, aspect)
    assert columns * size + 12 * (columns - 1) <= window[0] + 1e-6
    for other in range(1, count + 1):
        rows = math.ceil(count / other)
        width = (window[0] - 12 * (other - 1)) / other
        height = (window[1] - 12 * (rows - 1)) / rows - 40
        assert min(width, height * aspect) <= size + 1e-6


def test_a_view_fills_the_window_and_has_a_caption() -> None:
    canvas = draw_view(400, 300, panel((255, 0, 0)))
    assert canvas.shape == (300, 400, 3)
    assert (canvas[100:] == (255, 0, 0)).all()
    assert not (canvas[:60, :100] == (255, 0, 0)).all()


@pytest.mark.parametrize(
    ("width", "aspect", "expected"),
    [
        (800, 2.0, (800, 400)),
        (8000, 2.0, (1600, 800)),
        (4000, 0.5, (800, 1600)),
        (math.nan, 2.0, (960, 480)),
        ("wide", 2.0, (960, 480)),
        (-5, 1.0, (960, 960)),
        (800, math.inf, (800, 800)),
    ],
)
def test_windows_keep_their_aspect_within_limits(
    width: object, aspect: float, expected: tuple[int, int]
) -> None:
    client = SimpleNamespace(image_width=width, aspect=aspect)
    assert window_from_client(client) == expected


def test_a_view_that_is_none_is_refused() -> None:
    needs("viser")
    good = dict(fov=0.8, wxyz=[1.0, 0, 0, 0], position=[0.0, 0, 1], aspect=1.0)
    assert camera_from_client(SimpleNamespace(**good), 100) is not None
    for change in (
        {"fov": math.nan},
        {"wxyz": [0.0, 0, 0, 0]},
        {"wxyz": [1.0, 0]},
        {"position": [0.0, math.inf, 0]},
        {"position": "here"},
    ):
        assert camera_from_client(SimpleNamespace(**(good | change)), 100) is None


def test_the_first_view_looks_where_its_camera_looks() -> None:
    pose = torch.eye(4)
    pose[:3, 3] = torch.tensor([0.0, 0.0, 4.0])
    position, target, up = first_view(pose[None])
    assert position == (0.0, 0.0, 4.0)
    assert target == (0.0, 0.0, 0.0)
    assert up == (0.0, 1.0, 0.0)
