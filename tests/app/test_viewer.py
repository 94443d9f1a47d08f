"""The page that shows fits as they go on."""

import importlib
import io
import math
import socket
import urllib.request
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.poses import orbit_poses
from nerf_posenc.training.loop import FitState, Record
from nerf_posenc.training.optimizers import adam
from nerf_posenc_app.kinds.kind import Problem
from nerf_posenc_app.terminal import warning_once
from nerf_posenc_app.values.blocks import Passage, Token
from nerf_posenc_app.values.measures import Measure, TrainingScore
from tests.browsers import browser as browser
from tests.browsers import needs_chromium
from tests.optional import needs

needs("viser")
live = importlib.import_module("nerf_posenc_app.live.viewer")

# The server's own threads end after its sockets.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

LOSS = TrainingScore(Measure("loss", "training loss", "nats", 3), lambda loss: loss)


def state_at(step: int) -> FitState:
    history = [Record(s, s / 10, 0.1 / s) for s in range(1, step + 1)]
    module = nn.Linear(1, 1)
    return FitState(module, adam(module), 100, step, step / 10, history)


def problem(**what: Any) -> Problem:
    def draw_batch(step: int) -> Any:
        raise AssertionError

    return Problem(draw_batch=draw_batch, optimizer=state_at(1).optimizer, **what)


def test_it_serves_this_machine_alone_and_ends() -> None:
    with live.LivePage("cat") as page:
        host = page.server.get_host()
        assert host == "127.0.0.1"
        with urllib.request.urlopen(page.url, timeout=10) as answer:
            assert answer.status == 200
        port = int(page.url.rsplit(":", 1)[1])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_nobody_watching_costs_no_image() -> None:
    def show() -> Tensor:
        raise RuntimeError("nobody is there to see it")

    with live.LivePage("cat") as page:
        images = problem(preview=show, originals=[torch.rand(9, 12, 3)])
        page.show("none", state_at(10), images)
        page.show("none", state_at(20), problem(render=lambda camera, pose: show()))


@pytest.mark.slow
@needs_chromium
def test_a_rendering_that_fails_is_warned_of_and_the_fit_goes_on(
    browser: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def look(camera: Camera, pose: Tensor) -> Tensor:
        raise AssertionError("broken")

    with live.LivePage("spheres", poses=torch.eye(4)[None].repeat(2, 1, 1)) as page:
        tab = browser.new_page()
        tab.goto(page.url)
        wait_for(tab, page.server.get_clients, "no client came")
        tab.wait_for_timeout(1500)
        # As a run is shown; see test_parts_that_fail.py for TensorBoard.
        show = warning_once(page.show, "live page")
        for step in (10, 20):
            show("none", state_at(step), problem(render=look))
        tab.close()
    assert capsys.readouterr().err.count("live page failed (AssertionError: broken)") == 1


@pytest.mark.slow
@needs_chromium
def test_a_sequence_shows_its_predictions_as_text_with_the_wrong_ones_marked(browser: Any) -> None:
    passage = Passage("p", [Token("<b>th"), Token("e", "right"), Token("x", "wrong", "y")])
    with live.LivePage("text", score=LOSS) as page:
        tab = browser.new_page()
        tab.goto(page.url)
        wait_for(tab, page.server.get_clients, "no client came")
        page.show("rotary", state_at(10), problem(passage=lambda: passage))
        tab.get_by_text("<b>the").wait_for(timeout=10_000)
        assert tab.locator(".wrong").inner_text() == "x"
        assert tab.locator("rt").inner_text() == "y"
        tab.close()


def test_nobody_watching_costs_no_prediction() -> None:
    def predict() -> Passage:
        raise RuntimeError("nobody is there to see it")

    with live.LivePage("text", score=LOSS) as page:
        page.show("none", state_at(10), problem(passage=predict))


def wait_for(page: Any, condition: Any, what: str) -> None:
    for _ in range(100):
        if condition():
            return
        page.wait_for_timeout(100)
    raise AssertionError(what)


@pytest.mark.slow
@needs_chromium
def test_a_browser_sees_the_images(browser: Any) -> None:
    red = torch.tensor([1.0, 0.0, 0.0]).expand(60, 90, 3)
    with live.LivePage('<img src="x">') as page:
        tab = browser.new_page(viewport={"width": 1000, "height": 600})
        requested: list[str] = []
        tab.on("request", lambda request: requested.append(request.url))
        tab.goto(page.url)
        wait_for(tab, page.server.get_clients, "no client came")
        for step in (10, 20, 30, 100):
            images = problem(preview=lambda: [red], originals=[torch.ones(60, 90, 3)])
            page.show("none", state_at(step), images)
            tab.wait_for_timeout(300)

        def are_shown() -> bool:
            colors = shown_colors(tab)
            is_white = any(r > 240 and g > 240 and b > 240 for r, g, b in colors)
            return is_white and any(r > 240 and g < 20 and b < 20 for r, g, b in colors)

        # Beside other jobs a browser takes its time.
        wait_for(tab, are_shown, "the images are not shown")
        assert tab.locator('img[src="x"]').count() == 0
        outside = [
            url for url in requested if "127.0.0.1" not in url and not url.startswith("data:")
        ]
        assert not [url for url in outside if not url.startswith("blob:")]
        tab.close()


def shown_colors(tab: Any) -> set[tuple[int, int, int]]:
    with Image.open(io.BytesIO(tab.screenshot())) as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    colors, counts = np.unique(pixels, axis=0, return_counts=True)
    return {(int(r), int(g), int(b)) for r, g, b in colors[counts > 500]}


def angle_between(a: Tensor, b: Tensor) -> float:
    """Degrees between the directions in which two cameras look."""
    return math.degrees(math.acos(float((a[:3, 2] * b[:3, 2]).sum().clamp(-1, 1))))


@pytest.mark.slow
@needs_chromium
def test_a_browser_turns_the_camera_of_a_field(browser: Any) -> None:
    start = torch.eye(4)
    start[:3, :3] = torch.tensor([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]).T
    start[:3, 3] = torch.tensor([0.0, -3.0, 0.0])
    poses = orbit_poses(start[None].repeat(2, 1, 1), 2)
    rendered: list[tuple[Camera, Tensor]] = []

    def look(camera: Camera, pose: Tensor) -> Tensor:
        rendered.append((camera, pose))
        return torch.rand(camera.height, camera.width, 3)

    with live.LivePage('<img src="x">', poses=poses, pixels=2000) as page:
        tab = browser.new_page(viewport={"width": 1200, "height": 600})
        tab.goto(page.url)
        wait_for(tab, page.server.get_clients, "no client came")
        # Its camera first stands where viser has it stand.
        tab.wait_for_timeout(1500)
        page.show("fourier", state_at(10), problem(render=look))
        tab.mouse.move(300, 300)
        tab.mouse.down()
        tab.mouse.move(420, 330, steps=5)
        tab.mouse.up()
        for step in range(20, 100):
            page.show("fourier", state_at(step), problem(render=look))
            tab.wait_for_timeout(200)
            if step > 25 and angle_between(rendered[-1][1], rendered[0][1]) > 5:
                break
        wait_for(tab, tab.get_by_text("PSNR of the batches").count, "no curves")
        # The camera is what one finds first; a name is text.
        button = tab.get_by_role("button", name="reset the view")
        name = tab.locator('input[value="<img src=\\"x\\">"]')
        assert button.bounding_box()["y"] < name.bounding_box()["y"]
        turned = rendered[-1][1]
        button.click()
        tab.wait_for_timeout(1500)
        page.show("fourier", state_at(100), problem(render=look))
        tab.close()
    torch.testing.assert_close(rendered[-1][1][:3], poses[0, :3], atol=1e-2, rtol=0)
    camera, first = rendered[0]
    assert 1000 < camera.width * camera.height < 4000
    assert camera.width > camera.height
    for _, pose in rendered:
        rotation = pose[:3, :3]
        torch.testing.assert_close(rotation @ rotation.T, torch.eye(3), atol=1e-4, rtol=0)
        assert float(torch.linalg.det(rotation)) == pytest.approx(1, abs=1e-4)
    # It starts where the first view is and looks where that looks.
    torch.testing.assert_close(first[:3, 3], poses[0, :3, 3], atol=1e-3, rtol=0)
    torch.testing.assert_close(first[:3, 2], poses[0, :3, 2], atol=1e-3, rtol=0)
    assert angle_between(turned, first) > 5
