"""Fields that are orbited in a browser: what it shows is what the renderer gives."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from nerf_posenc.radiance.baking import bake
from nerf_posenc.radiance.base_renderer import Renderer
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.evaluation import render_camera
from nerf_posenc.radiance.occupancy import OccupancyGrid
from nerf_posenc.radiance.poses import find_orbit, look_at
from nerf_posenc.radiance.proposals import ProposalRenderer
from nerf_posenc.radiance.renderers import GridRenderer
from nerf_posenc.radiance.scene_spaces import make_space
from nerf_posenc_app.kinds.scene.volume import make_volume
from nerf_posenc_app.report.page import write_page
from nerf_posenc_app.report.volumes import shown_volumes
from nerf_posenc_app.values.blocks import Evaluation
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result
from tests.app.test_page import about
from tests.browsers import browser as browser
from tests.browsers import needs_chromium
from tests.radiance.formula_field import FormulaField
from tests.radiance.test_scene_spaces import around, forward_facing


class Ball(FormulaField):
    """A ball around a point of the cube, thick in the middle, with colors by position."""

    def __init__(self, center: tuple[float, float, float], radius: float) -> None:
        super().__init__()
        self.center, self.radius = center, radius

    def density(self, positions: Tensor, variance: Tensor | None = None) -> Tensor:
        distance = (positions - positions.new_tensor(self.center)).norm(dim=-1)
        return 40 * torch.sigmoid(60 * (self.radius - distance)) + 1e-6

    def color(self, positions: Tensor) -> Tensor:
        return 0.5 + 0.5 * torch.sin(6 * positions)


def scene_of(space: str) -> tuple[Renderer, Camera, Tensor]:
    """A renderer, a camera and poses from which its ball is seen."""
    camera = Camera.from_angle(64, 48, 0.8)
    if space == "box":
        renderer: Renderer = GridRenderer(
            Ball((0.1, -0.2, 0.1), 0.5), OccupancyGrid(32), num_samples=512
        )
        return renderer, camera, around(torch.zeros(3), 3.0).world_from_camera
    views = (
        around(torch.tensor([0.2, 0.1, 0.0]), 2.0) if space == "contracted" else forward_facing()
    )
    ball = Ball((0.1, 0.1, -0.1), 0.3) if space == "contracted" else Ball((0.1, 0.2, 0.3), 0.4)
    renderer = ProposalRenderer(
        ball,
        make_space(space, views),  # type: ignore[arg-type]
        num_samples=512,
    )
    return renderer, camera, views.world_from_camera


def test_a_baked_field_has_the_values_at_the_centers_of_the_cells() -> None:
    renderer, camera, poses = scene_of("box")
    baked = bake(renderer, camera, poses, 16)
    i, j, k = 9, 6, 7
    center = (torch.tensor([[i, j, k]]) + 0.5) / 8 - 1
    field = renderer.fields[0]
    density, rgb = field(center, center)
    assert float(baked.density[i, j, k]) == pytest.approx(float(density))
    torch.testing.assert_close(baked.rgb[i, j, k], rgb[0])
    assert float(baked.density[0, 0, 0]) < 1e-6
    assert not bool(baked.rgb[0, 0, 0].any())


def test_cells_that_the_grid_has_empty_stay_empty() -> None:
    renderer, camera, poses = scene_of("box")
    assert renderer.grid is not None
    renderer.grid.occupied.zero_()
    assert not bool(bake(renderer, camera, poses, 8).density.any())


def test_slices_lie_side_by_side_and_densities_are_kept_to_a_few_percent() -> None:
    renderer, camera, poses = scene_of("box")
    volume = make_volume(renderer, camera, poses, 1.0)
    (shown,) = shown_volumes({"a": volume})
    data = shown["density"].partition(",")[2]
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))[..., 0]
    n = shown["cells"]
    assert image.shape == (n * n // 8, 8 * n)
    # Rows of slices, y, slices of a row, x.
    codes = image.reshape(n // 8, n, 8, n).transpose(3, 1, 0, 2).reshape(n, n, n) / 255
    stored, density = np.expm1(codes * shown["limit"]), volume.density.numpy()
    np.testing.assert_allclose(stored, density, rtol=0.03, atol=0.03)
    assert density.max() > 30


@needs_chromium
@pytest.mark.parametrize("space", ["box", "contracted", "forward-facing"])
def test_the_browser_shows_what_the_renderer_gives(
    space: str, browser: Any, tmp_path: Path
) -> None:
    renderer, camera, poses = scene_of(space)
    volume = make_volume(renderer, camera, poses, 1.0)
    scores = {"psnr_db": 20.0, "ssim": 0.5}
    ball = Result(name=FitName("ball"), seconds=1.0, evaluation=Evaluation(scores, [volume]))
    write_page(tmp_path / "page.html", about(), [ball])
    opened = browser.new_page(viewport={"width": 700, "height": 700})
    messages: list[str] = []
    requests: list[str] = []
    opened.on("console", lambda message: messages.append(message.text))
    opened.on("pageerror", lambda error: messages.append(str(error)))
    opened.on("request", lambda request: requests.append(request.url))
    opened.goto((tmp_path / "page.html").as_uri())
    opened.wait_for_selector("canvas[data-ready]")
    opened.wait_for_timeout(500)
    # A browser without a GPU remarks that it reads back what it composes.
    assert [text for text in messages if "GPU stall due to ReadPixels" not in text] == []
    shot = opened.locator(".field").screenshot()
    found = np.asarray(
        Image.open(io.BytesIO(shot)).convert("RGB").resize((64, 48), Image.Resampling.BOX)
    )
    orbit = find_orbit(poses)
    start = orbit.origin + orbit.first if orbit.is_around else orbit.origin
    pose = look_at(start, orbit.center, orbit.up).float()
    expected = render_camera(renderer, camera, pose, background=1.0).rgb
    error = (torch.from_numpy(found.copy()).float() / 255 - expected.clamp(0, 1)).square().mean()
    assert float(-10 * error.log10()) > 25
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    # From another side it looks different; the keys do what a drag does.
    opened.locator(".field").press("ArrowLeft")
    opened.wait_for_timeout(800)
    assert opened.locator(".field").screenshot() != shot
    drawn = (
        "(c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(Boolean))"
        "(document.querySelector('.cameras'))"
    )
    assert not opened.evaluate(drawn)
    opened.locator("#show-cameras").check()
    opened.wait_for_timeout(800)
    assert opened.evaluate(drawn)
    opened.close()
