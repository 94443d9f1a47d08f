"""Images that stay in the type of their files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import pytest
import torch
from torch import Tensor

from nerf_posenc.radiance.ray_batches import RayBatches
from nerf_posenc.radiance.views import Scene, Views
from nerf_posenc_app.data import SceneError, open_scene
from nerf_posenc_app.data.formulas.quadrature import hemisphere_poses
from nerf_posenc_app.data.reading import pixel_stacks
from nerf_posenc_app.kinds.scene.options import SceneOptions
from nerf_posenc_app.kinds.scene.scene import SceneKind

ROOT = Path(__file__).parents[3]
TYPES = {
    "8 bits": (np.uint8, 3, ".png"),
    "8 bits with alpha": (np.uint8, 4, ".png"),
    "16 bits": (np.uint16, 3, ".npy"),
    "16 bits with alpha": (np.uint16, 4, ".npy"),
    "floats with alpha": (np.float32, 4, ".npy"),
}


def image_of(dtype: Any, channels: int, seed: int) -> Any:
    """An image that has every value of 8 bits."""
    generator = np.random.default_rng(seed)
    if dtype == np.float32:
        return generator.random((16, 20, channels), dtype=np.float32)
    return generator.integers(0, np.iinfo(dtype).max + 1, (16, 20, channels)).astype(dtype)


def write_folder(folder: Path, images: list[tuple[Any, str]]) -> None:
    frames = []
    for i, pose in enumerate(hemisphere_poses(len(images))):
        pixels, suffix = images[i]
        if suffix == ".npy":
            np.save(folder / f"{i}.npy", pixels)
        else:
            iio.imwrite(folder / f"{i}{suffix}", pixels)
        frames.append({"file_path": f"{i}{suffix}", "transform_matrix": pose.tolist()})
    meta = {"camera_angle_x": 0.7, "frames": frames}
    (folder / "transforms.json").write_text(json.dumps(meta))


def in_floats(pixels: Any) -> tuple[Tensor, Tensor]:
    """RGB times opacity, and opacity, in float32, of an image of any type."""
    largest = 1 if pixels.dtype == np.float32 else np.iinfo(pixels.dtype).max
    values = (pixels.astype(np.float64) / largest).astype(np.float32)
    alpha = values[..., 3:] if pixels.shape[2] == 4 else np.ones_like(values[..., :1])
    return torch.from_numpy(values[..., :3] * alpha), torch.from_numpy(alpha[..., 0].copy())


def require_equal_to_floats(views: Views, images: list[Any]) -> None:
    assert len(views) == len(images)
    for i, pixels in enumerate(images):
        rgb, opacity = in_floats(pixels)
        assert torch.equal(views.opacity(i), opacity)
        assert torch.equal(views.over(i, 0.0), rgb)
        assert torch.equal(views.over(i, 0.3), rgb + (1 - opacity)[..., None] * 0.3)


def folder_of(kind: str, folder: Path) -> list[Any]:
    """Write four images of one type, and return them."""
    dtype, channels, suffix = TYPES[kind]
    images = [image_of(dtype, channels, seed) for seed in range(4)]
    write_folder(folder, [(image, suffix) for image in images])
    return images


def with_memory(monkeypatch: pytest.MonkeyPatch, num_bytes: int) -> None:
    sizes = {"SC_PHYS_PAGES": 1, "SC_PAGE_SIZE": num_bytes}
    monkeypatch.setattr("nerf_posenc_app.data.reading.pixel_stacks.os.sysconf", sizes.__getitem__)


@pytest.mark.parametrize("kind", sorted(TYPES))
def test_views_keep_the_type_of_their_files_and_have_the_values_of_floats(
    kind: str, tmp_path: Path
) -> None:
    dtype, channels, _ = TYPES[kind]
    images = folder_of(kind, tmp_path)
    scene = open_scene(str(tmp_path))
    assert scene.train.pixels.numpy().dtype == dtype
    assert scene.train.pixels.shape[3] == channels
    assert scene.train.is_opaque == (channels == 3)
    require_equal_to_floats(scene.train, images[1:])
    require_equal_to_floats(scene.test, images[:1])


@pytest.mark.parametrize("kind", ["8 bits", "8 bits with alpha", "16 bits with alpha"])
def test_batches_are_those_of_float_views(kind: str, tmp_path: Path) -> None:
    images = folder_of(kind, tmp_path)
    stored = open_scene(str(tmp_path)).train
    rgba = [torch.cat([rgb, a[..., None]], -1) for rgb, a in map(in_floats, images[1:])]
    floats = Views(torch.stack(rgba), stored.cameras, stored.world_from_camera, stored.names)
    generator = torch.Generator().manual_seed(0)
    live = torch.rand(3, 16, 20, generator=generator) < 0.2
    for chosen in (None, live):
        batches = (
            RayBatches(views, 64, seed=1, background="random", live=chosen)
            for views in (stored, floats)
        )
        (first, rgb), (second, expected) = (batch(3) for batch in batches)
        assert torch.equal(rgb, expected)
        assert torch.equal(first.rays.directions, second.rays.directions)


def test_files_of_several_types_are_held_in_the_narrowest_that_holds_all(tmp_path: Path) -> None:
    kinds = ["8 bits", "8 bits", "8 bits with alpha", "16 bits", "8 bits"]
    images = [image_of(*TYPES[kind][:2], seed) for seed, kind in enumerate(kinds)]
    files = [(image, TYPES[kind][2]) for image, kind in zip(images, kinds, strict=True)]
    write_folder(tmp_path, files)
    views = open_scene(str(tmp_path)).train
    assert views.pixels.dtype == torch.uint16
    assert views.pixels.shape[3] == 4
    require_equal_to_floats(views, images[1:])
    write_folder(tmp_path, [*files, (image_of(np.float32, 4, 9), ".npy")])
    views = open_scene(str(tmp_path)).train
    assert views.pixels.dtype == torch.float32
    require_equal_to_floats(views, [*images[1:], image_of(np.float32, 4, 9)])


def test_a_checksum_is_that_of_the_values_and_the_cameras(tmp_path: Path) -> None:
    images = [image_of(np.uint8, 4, seed) for seed in range(3)]
    write_folder(tmp_path, [(image, ".png") for image in images])
    scene = open_scene(str(tmp_path))

    def digest(of: Scene) -> str:
        return SceneKind(SceneOptions(), of).digest()

    def with_floats(views: Views, of: list[np.ndarray]) -> Views:
        parts = [torch.cat((rgb, a[..., None]), -1) for rgb, a in map(in_floats, of)]
        return replace(views, pixels=torch.stack(parts))

    floats = replace(
        scene, train=with_floats(scene.train, images[1:]), test=with_floats(scene.test, images[:1])
    )
    assert digest(floats) == digest(scene)
    wider = [replace(camera, fx=camera.fx * 1.01) for camera in scene.train.cameras]
    assert digest(replace(scene, train=replace(scene.train, cameras=wider))) != digest(scene)
    moved = scene.train.world_from_camera + 1e-3
    assert digest(replace(scene, train=replace(scene.train, world_from_camera=moved))) != digest(
        scene
    )


def test_more_views_than_the_memory_holds_are_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path, [(image_of(np.uint8, 3, seed), ".png") for seed in range(4)])
    # Three views to fit, of 20 x 16 x 3 bytes.
    with_memory(monkeypatch, 3 * 3 * 960)
    assert open_scene(str(tmp_path)).train.size == (20, 16)
    with_memory(monkeypatch, 3 * 3 * 960 - 1)
    with pytest.raises(SceneError, match=r"the 3 views beside .* reduce them by --size") as error:
        open_scene(str(tmp_path))
    assert "\n" not in str(error.value)
    assert open_scene(str(tmp_path), size=3).train.size == (3, 2)


def test_the_memory_of_a_container_is_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = pixel_stacks.memory()
    for text, expected in (("1000000\n", 1e6), ("max\n", unlimited)):
        monkeypatch.setattr(Path, "read_text", lambda path, text=text: text)
        assert pixel_stacks.memory() == expected
