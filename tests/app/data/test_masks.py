"""Masks of posed images, by the conventions of three programs."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from nerf_posenc.metrics.image import psnr
from nerf_posenc.radiance.base_renderer import Renderer
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.evaluation import evaluate_views
from nerf_posenc.radiance.ray_batches import RayBatches
from nerf_posenc.radiance.volume_rendering import Rendering
from nerf_posenc_app.data import SceneError, open_scene
from nerf_posenc_app.data.posed.boxes import Box
from nerf_posenc_app.data.posed.frames import Frame, _surface_points
from tests.corpora import scene_corpus


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    return Path(shutil.copytree(scene_corpus()["transforms"], tmp_path / "scene"))


def size_of(image: Path) -> tuple[int, int]:
    with Pillow.open(image) as opened:
        return opened.size


def entries(scene: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((scene / "transforms.json").read_text())
    return values


def images(scene: Path) -> list[Path]:
    return [scene / frame["file_path"] for frame in entries(scene)["frames"]]


def write(path: Path, kept: np.ndarray[Any, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    Pillow.fromarray(255 * kept.astype(np.uint8)).save(path)


def kept_of(scene: Path) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(5)
    width, height = size_of(images(scene)[0])
    return [rng.uniform(size=(height, width)) > 0.15 for _ in images(scene)]


def by_nerfstudio(scene: Path) -> None:
    values = entries(scene)
    for i, (frame, kept) in enumerate(zip(values["frames"], kept_of(scene), strict=True)):
        frame["mask_path"] = f"mine/m{i}.png"
        write(scene / frame["mask_path"], kept)
    (scene / "transforms.json").write_text(json.dumps(values))


def by_colmap(scene: Path) -> None:
    for image, kept in zip(images(scene), kept_of(scene), strict=True):
        write(scene / "masks" / f"{image.name}.png", kept)


def by_stem(scene: Path) -> None:
    for image, kept in zip(images(scene), kept_of(scene), strict=True):
        write(scene / "masks" / f"{image.stem}.png", kept)


def by_metashape(scene: Path) -> None:
    for image, kept in zip(images(scene), kept_of(scene), strict=True):
        write(scene / "masks" / f"{image.stem}_mask.png", kept)


def by_instant_ngp(scene: Path) -> None:
    for image, kept in zip(images(scene), kept_of(scene), strict=True):
        write(image.with_name(f"dynamic_mask_{image.stem}.png"), ~kept)


@pytest.mark.parametrize(
    "convention", [by_nerfstudio, by_colmap, by_stem, by_metashape, by_instant_ngp]
)
def test_masks_are_found_and_said(scene: Path, convention: Callable[[Path], None]) -> None:
    kept = {image.name: mask for image, mask in zip(images(scene), kept_of(scene), strict=True)}
    convention(scene)
    found = open_scene(str(scene))
    for views in (found.train, found.test):
        assert views.masks is not None
        for name, mask in zip(views.names, views.masks, strict=True):
            np.testing.assert_array_equal(mask, kept[name])
    assert any("views have masks" in note for note in found.notes)
    assert not any("mask_path" in note for note in found.notes)


def test_rays_and_scores_leave_masked_pixels_out(scene: Path) -> None:
    by_colmap(scene)
    views = open_scene(str(scene)).train
    assert views.masks is not None
    width, height = views.size
    # What is masked is pure red, which nothing else is.
    pixels = torch.zeros(len(views), height, width, 3)
    pixels[~views.masks] = torch.tensor([1.0, 0.0, 0.0])
    marked = type(views)(pixels, views.cameras, views.world_from_camera, views.names)
    batches = RayBatches(marked, 500, seed=0)
    assert bool((batches(0)[1][:, 0] == 1).any())
    masked = type(views)(
        pixels, views.cameras, views.world_from_camera, views.names, masks=views.masks
    )
    batches = RayBatches(masked, 500, seed=0)
    assert not bool(batches(0)[1].any())
    assert not bool(batches.of_view(1, 200, seed=3)[1].any())

    class Black(Renderer):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, rays: Any) -> Any:
            count = len(rays.origins)
            return Rendering(torch.full((count, 3), 0.1), torch.ones(count), torch.ones(count))

    (score, *_) = evaluate_views(Black(), masked)
    assert score.psnr == pytest.approx(psnr(torch.full((4,), 0.1), torch.zeros(4)))
    (plain, *_) = evaluate_views(Black(), marked)
    assert plain.psnr < score.psnr


def test_points_that_masked_pixels_show_are_left_out() -> None:
    generator = np.random.default_rng(0)
    height, width = 5, 9
    masks = torch.from_numpy(generator.random((2, height, width)) < 0.5)
    # A point in the middle of every pixel; its position is its number.
    row, column = np.indices((height, width)).reshape(2, -1)
    places = np.stack([(column + 0.5) / width, (row + 0.5) / height], 1)
    numbers = np.arange(2 * height * width, dtype=float).reshape(2, -1)
    frames = [
        Frame(
            Path(f"{i}.png"),
            Camera.from_angle(width, height, 0.5).resized,
            np.eye(4),
            np.concatenate([places, np.stack([numbers[i]] * 3, 1)], 1),
        )
        for i in range(2)
    ]
    points = _surface_points(frames, Box(np.zeros(3), 1.0), masks)
    assert points is not None
    assert torch.equal(points.position[:, 0].long(), masks.flatten().nonzero()[:, 0])
    assert torch.equal(points.view, masks.nonzero()[:, 0])


def test_a_reduced_mask_keeps_what_is_kept_all_over(scene: Path) -> None:
    by_colmap(scene)
    full = open_scene(str(scene)).train
    small = open_scene(str(scene), size=max(full.size) // 2).train
    assert full.masks is not None
    assert small.masks is not None
    blocks = full.masks.unflatten(1, (-1, 2)).unflatten(3, (-1, 2))
    assert torch.equal(small.masks, blocks.all(4).all(2))
    assert torch.equal(full.resized(max(full.size) // 2).masks, small.masks)  # type: ignore[arg-type]
    assert full.subset(2).masks is not None


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda mask: mask.unlink(), "1 of .* views have no mask, such as"),
        (lambda mask: write(mask, np.ones((3, 3))), "has 3 x 3 pixels, and its image"),
        (
            lambda mask: Pillow.fromarray(
                np.random.default_rng(0).integers(0, 256, (*size_of(mask)[::-1], 3), dtype=np.uint8)
            ).save(mask),
            "has colors; save it in black and white",
        ),
        (lambda mask: write(mask, np.zeros(size_of(mask)[::-1])), "leaves no pixel of its image"),
    ],
)
def test_a_mask_that_does_not_fit_is_named(
    scene: Path, spoil: Callable[[Path], None], said: str
) -> None:
    by_colmap(scene)
    spoil(scene / "masks" / f"{images(scene)[1].name}.png")
    with pytest.raises(SceneError, match=said):
        open_scene(str(scene))


def test_a_named_mask_that_is_missing_is_an_error(scene: Path) -> None:
    values = entries(scene)
    values["frames"][0]["mask_path"] = "gone.png"
    (scene / "transforms.json").write_text(json.dumps(values))
    with pytest.raises(SceneError, match=r"frame 0: there is no mask .*gone.png; add it"):
        open_scene(str(scene))
