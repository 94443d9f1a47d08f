"""Built-in scenes against finer quadrature, and folders of posed images as people have them."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from nerf_posenc.metrics.image import psnr
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.ray_batches import RayBatches
from nerf_posenc.radiance.rays import camera_rays
from nerf_posenc_app.data import SceneError, open_scene
from nerf_posenc_app.data.formulas.quadrature import (
    hemisphere_poses,
    look_at_origin,
    render_exactly,
)
from nerf_posenc_app.data.shipped import module_of, shipped
from tests.optional import needs

SCENES = shipped("scene")


@pytest.mark.parametrize(
    "name",
    ["spheres", *(pytest.param(n, marks=pytest.mark.slow) for n in SCENES if n != "spheres")],
)
def test_views_are_the_integral_to_55_db(name: str) -> None:
    medium = module_of(SCENES[name]).medium()
    rays = camera_rays(Camera.from_angle(14, 14, 0.6), look_at_origin(0.3, 0.5))
    rendering = render_exactly(medium, rays)
    finer = render_exactly(medium, rays, step=medium.step / 4)
    assert psnr(rendering.rgb, finer.rgb) > 55
    assert float((rendering.opacity - finer.opacity).abs().max()) < 2e-3


@pytest.mark.parametrize("name", sorted(SCENES))
def test_clearance_is_clear_and_densities_are_not_negative(name: str) -> None:
    medium = module_of(SCENES[name]).medium()
    positions = torch.rand(4000, 3, dtype=torch.float64) * 2 - 1
    clearance = medium.clearance(positions)
    steps = torch.nn.functional.normalize(torch.randn(4000, 3, dtype=torch.float64), dim=-1)
    there = positions + steps * clearance.clamp(min=0)[:, None] * 0.999
    density = medium.density(there, medium.clearance(there))
    assert bool((density >= 0).all())
    assert float(density[clearance > 0].max()) < 1e-6
    assert float(density.max()) > 0


def test_the_quadrature_of_a_ball_is_beer_and_lambert_s() -> None:
    class Ball:
        step = 0.01

        def clearance(self, x: torch.Tensor) -> torch.Tensor:
            distance: torch.Tensor = x.norm(dim=-1)
            return distance - 0.5

        def density(self, x: torch.Tensor, clearance: torch.Tensor) -> torch.Tensor:
            return torch.where(clearance < 0, 1.7, 0.0).double()

        def rgb(self, x: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
            return torch.zeros_like(x)

    rays = camera_rays(Camera.from_angle(9, 9, 0.3), look_at_origin(0.3, 0.5))
    rendering = render_exactly(Ball(), rays)
    nearest = torch.linalg.cross(rays.origins, rays.directions).norm(dim=-1).double()
    chord = 2 * (0.25 - nearest.square()).clamp(min=0).sqrt()
    torch.testing.assert_close(rendering.opacity, 1 - torch.exp(-1.7 * chord), atol=0.02, rtol=0)
    torch.testing.assert_close(rendering.rgb[:, 0], 1 - rendering.opacity)


def test_cameras_look_at_the_middle_from_above() -> None:
    poses = hemisphere_poses(20)
    assert bool((poses[:, 2, 3] > 0).all())
    back = torch.nn.functional.normalize(poses[:, :3, 3], dim=-1)
    torch.testing.assert_close(poses[:, :3, 2], back)


def test_a_built_in_scene_has_views_to_fit_and_others_to_test() -> None:
    scene = open_scene("spheres", size=8)
    assert scene.train.size == (8, 8)
    assert len(scene.train) == 48
    assert len(scene.test) == 8
    assert 0.1 < float(scene.train.opacity(0).mean()) < 0.9
    between = torch.cdist(
        scene.test.world_from_camera[:, :3, 3], scene.train.world_from_camera[:, :3, 3]
    )
    assert float(between.min()) > 0.01


POSE = look_at_origin(0.5, 0.4, 4.0).tolist()


def write_blender(folder: Path, **changes: Any) -> None:
    for split, count in (("train", 3), ("test", 2)):
        (folder / split).mkdir(parents=True, exist_ok=True)
        frames = []
        for i in range(count):
            rgba = np.full((6, 8, 4), 200, np.uint8)
            rgba[..., 3] = [0] * 4 + [255] * 4
            Image.fromarray(rgba).save(folder / split / f"r_{i}.png")
            frames.append({"file_path": f"./{split}/r_{i}", "transform_matrix": POSE})
        meta = {"camera_angle_x": 0.7, "frames": frames, **changes}
        (folder / f"transforms_{split}.json").write_text(json.dumps(meta))


def test_a_nerf_synthetic_folder_is_read(tmp_path: Path) -> None:
    write_blender(tmp_path)
    scene = open_scene(str(tmp_path))
    assert scene.train.size == (8, 6)
    assert (len(scene.train), len(scene.test)) == (3, 2)
    assert scene.scale == 1.5
    torch.testing.assert_close(
        scene.train.world_from_camera[0, :3, 3], torch.tensor(POSE)[:3, 3] / 1.5
    )
    assert scene.train.opacity(0)[0].tolist() == [0.0] * 4 + [1.0] * 4
    # Transparent pixels are white over white, whatever color they store.
    assert scene.train.over(0, 1.0)[0, 0].tolist() == [1.0, 1.0, 1.0]
    assert scene.train.over(0, 0.0)[0, 0].tolist() == [0.0, 0.0, 0.0]
    assert scene.train.cameras[0].fx == pytest.approx(4 / math.tan(0.35))
    small = open_scene(str(tmp_path), size=4)
    assert small.train.size == (4, 3)
    assert small.train.opacity(0)[0].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert small.train.cameras[0].fx == pytest.approx(2 / math.tan(0.35))


def write_single(folder: Path, count: int = 9, **changes: Any) -> dict[str, Any]:
    (folder / "images").mkdir(parents=True, exist_ok=True)
    frames = []
    for i in range(count):
        Image.fromarray(np.full((6, 8, 3), 10 * i, np.uint8)).save(folder / f"images/{i:03}.png")
        frames.append({"file_path": f"images/{i:03}.png", "transform_matrix": POSE})
    meta: dict[str, Any] = {
        "fl_x": 20.0,
        "fl_y": 21.0,
        "cx": 7.5,
        "cy": 6.5,
        "w": 16,
        "h": 12,
        "aabb_scale": 2,
    }
    meta |= {"k1": -0.05, "p1": 0.001, "frames": frames, **changes}
    (folder / "transforms.json").write_text(json.dumps(meta))
    return meta


def test_views_that_are_fitted_and_tested_or_share_an_image_are_named(tmp_path: Path) -> None:
    names = [f"images/{i:03}.png" for i in range(9)]
    write_single(tmp_path, train_filenames=names[:6] + names[:1], test_filenames=names[5:])
    notes = open_scene(str(tmp_path)).notes
    assert "1 of the 4 test views are fitted as well" in notes
    assert "1 of the 7 views to fit share an image with another" in notes


def test_an_instant_ngp_folder_is_read(tmp_path: Path) -> None:
    meta = write_single(tmp_path)
    (tmp_path / "images/003.png").unlink()
    meta["frames"][4]["fl_x"] = 30.0
    (tmp_path / "transforms.json").write_text(json.dumps(meta))
    scene = open_scene(str(tmp_path))
    assert (len(scene.train), len(scene.test)) == (7, 1)
    assert any("1 of the 9 images of transforms.json" in note for note in scene.notes)
    assert any("every 8th view" in note for note in scene.notes)
    # The images are half the size that the intrinsics are for.
    camera = scene.train.cameras[0]
    assert (camera.fx, camera.fy, camera.cx, camera.cy) == (10.0, 10.5, 3.75, 3.25)
    assert camera.distortion == (-0.05, 0.0, 0.001, 0.0)
    assert 15.0 in {camera.fx for camera in scene.train.cameras}
    assert scene.scale == pytest.approx(0.5 * 2 / 0.33)


def test_nerfstudio_s_own_split_is_kept(tmp_path: Path) -> None:
    names = [f"images/{i:03}.png" for i in range(9)]
    write_single(tmp_path, train_filenames=names[:5], val_filenames=names[5:7])
    scene = open_scene(str(tmp_path))
    assert list(scene.train.names) == [Path(name).name for name in names[:5]]
    assert list(scene.test.names) == [Path(name).name for name in names[5:7]]


def write_llff(folder: Path, unit: float = 1.0) -> None:
    (folder / "images").mkdir(parents=True)
    rows = []
    for i in range(9):
        Image.fromarray(np.full((6, 8, 3), 10 * i, np.uint8)).save(folder / f"images/{i}.png")
        # Axes down, right, back of a camera that looks along -z, moved along x.
        x = unit * i / 10
        table = np.array([[0, 1, 0, x, 12], [-1, 0, 0, 0, 16], [0, 0, 1, 0, 20]], float)
        rows.append([*table.flatten(), 2.0 * unit, 6.0 * unit])
    np.save(folder / "poses_bounds.npy", np.array(rows))


def test_a_scene_in_other_units_is_the_same(tmp_path: Path) -> None:
    scenes = []
    for unit in (1.0, 10.0):
        write_llff(tmp_path / f"{unit}", unit)
        scenes.append(open_scene(str(tmp_path / f"{unit}")))
    first, second = scenes
    torch.testing.assert_close(first.train.world_from_camera, second.train.world_from_camera)
    assert second.scale == pytest.approx(10 * first.scale)
    # The nearest bound is 2.
    assert first.train.near is not None
    assert first.train.near * first.scale == pytest.approx(2.0)
    assert second.train.near == pytest.approx(first.train.near)


def test_an_llff_folder_is_read(tmp_path: Path) -> None:
    write_llff(tmp_path)
    scene = open_scene(str(tmp_path))
    assert (len(scene.train), len(scene.test)) == (7, 2)
    torch.testing.assert_close(scene.train.world_from_camera[0, :3, :3], torch.eye(3))
    assert scene.train.cameras[0].fx == 10.0
    # What a view sees at its bounds lies in the cube.
    rays = scene.train.rays(0)
    for depth in (2.0, 6.0):
        rendering = rays.origins + rays.directions / -rays.directions[:, 2:] * depth / scene.scale
        assert float(rendering.abs().max()) <= 1.0


def test_a_colmap_model_is_read(tmp_path: Path) -> None:
    needs("pycolmap")
    (tmp_path / "images").mkdir()
    model = tmp_path / "sparse/0"
    model.mkdir(parents=True)
    (model / "cameras.txt").write_text("1 SIMPLE_RADIAL 16 12 20 8 6 -0.05\n")
    points = np.random.default_rng(0).uniform((-1, -1, 4), (1, 1, 6), (50, 3))
    lines = []
    for i in range(9):
        Image.fromarray(np.full((6, 8, 3), 10 * i, np.uint8)).save(tmp_path / f"images/{i}.png")
        # Looking along +z from (-i / 10, 0, 0), y down.
        lines.append(f"{i + 1} 1 0 0 0 {i / 10} 0 0 1 {i}.png\n")
        across = (points[:, :2] + (i / 10, 0)) / points[:, 2:]
        bent = across * (1 - 0.05 * np.square(across).sum(1, keepdims=True))
        # The first has no point here.
        seen = [
            f"{x} {y} {number + 1 if number else -1}"
            for number, (x, y) in enumerate(20 * bent + (8, 6))
        ]
        lines.append(" ".join(seen) + "\n")
    (model / "images.txt").write_text("".join(lines))
    track = [" ".join(f"{i + 1} {number}" for i in range(9)) for number in range(50)]
    (model / "points3D.txt").write_text(
        "".join(
            f"{i + 1} {x} {y} {z} 9 9 9 0.1 {track[i] if i else ''}\n"
            for i, (x, y, z) in enumerate(points)
        )
    )
    scene = open_scene(str(tmp_path))
    assert (len(scene.train), len(scene.test)) == (7, 2)
    pose = scene.train.world_from_camera[0]
    torch.testing.assert_close(pose[:3, :3], torch.diag(torch.tensor([1.0, -1.0, -1.0])))
    assert float(pose[2, 3]) < -3
    camera = scene.train.cameras[0]
    assert camera.fx == 10.0
    assert camera.distortion[0] == -0.05
    # Rays through what the views show of the points end at the points, within half a pixel.
    assert scene.train.points is not None
    batch, _ = RayBatches(scene.train, 400, seed=0, known_share=0.75)(0)
    assert batch.distances is not None
    assert (batch.distances > 0).sum() == 300
    ends = (batch.rays.origins + batch.rays.directions * batch.distances[:, None])[:300]
    shown = torch.from_numpy((points[1:] - scene.center) / scene.scale).float()
    apart, nearest = torch.cdist(ends, shown).min(-1)
    half_diagonal = 0.75 / camera.fx * batch.distances[:300]
    assert bool((apart < half_diagonal).all())
    assert len(nearest.unique()) == 49


def broken_folders() -> dict[str, Any]:
    def meta(**changes: Any) -> Any:
        return lambda folder: write_blender(folder, **changes)

    def frame(**changes: Any) -> Any:
        entry = {"file_path": "./train/r_0", "transform_matrix": POSE, **changes}
        return lambda folder: write_blender(folder, frames=[entry])

    def damaged(folder: Path) -> None:
        write_blender(folder)
        (folder / "train/r_1.png").write_text("no image")

    def text(content: str) -> Any:
        return lambda folder: (folder / "transforms.json").write_text(content)

    stretched = (torch.tensor(POSE) * 2).tolist()
    mirrored = (torch.tensor(POSE) @ torch.diag(torch.tensor([-1.0, 1, 1, 1]))).tolist()
    return {
        "empty folder": (lambda folder: None, "no posed images"),
        "malformed JSON": (text('{"frames": ['), "cannot read"),
        "a list": (text("[]"), "must contain an object"),
        "no frames": (text("{}"), "no list of frames"),
        "no camera": (meta(camera_angle_x=None), "neither fl_x nor camera_angle_x"),
        "wide camera": (meta(camera_angle_x=4.0), "camera_angle_x must be between 0 and pi rad"),
        "stretched": (frame(transform_matrix=stretched), "not rigid"),
        "transposed": (
            frame(transform_matrix=torch.tensor(POSE).T.tolist()),
            "the last row of transform_matrix",
        ),
        "mirrored": (frame(transform_matrix=mirrored), "not rigid"),
        "short matrix": (frame(transform_matrix=[[1, 2], [3, 4]]), "4 x 4"),
        "ragged matrix": (frame(transform_matrix=[[1, 2], [3]]), "4 x 4"),
        "infinite matrix": (frame(transform_matrix=[[math.inf] * 4] * 4), "4 x 4"),
        "no path": (frame(file_path=3), "no file_path"),
        "a path that leaves": (frame(file_path="../../etc/passwd"), "outside itself"),
        "no image there": (frame(file_path="./train/none"), "none of their images"),
        "a damaged image": (damaged, "damaged"),
        "fisheye": (meta(is_fisheye=True), "fisheye"),
        "k5": (meta(k5=0.1), "a lens with k5"),
        "a lens that folds": (meta(k1=-30.0), "cannot be undone"),
        "bad bounds": (
            lambda folder: (folder / "poses_bounds.npy").write_bytes(b"xx"),
            "table of 17",
        ),
    }


@pytest.mark.parametrize("what", sorted(broken_folders()))
def test_a_broken_folder_gets_one_clear_error(what: str, tmp_path: Path) -> None:
    make, message = broken_folders()[what]
    make(tmp_path)
    with pytest.raises(SceneError, match=message) as error:
        open_scene(str(tmp_path))
    assert "\n" not in str(error.value)


def test_an_unknown_scene_is_answered_with_those_there_are() -> None:
    with pytest.raises(SceneError, match="blocks, cloud, spheres"):
        open_scene("dragon")


def test_views_reduced_as_they_are_read_are_those_reduced_afterwards(tmp_path: Path) -> None:
    write_blender(tmp_path)
    early, late = open_scene(str(tmp_path), size=3), open_scene(str(tmp_path)).resized(3)
    assert torch.equal(early.train.pixels, late.train.pixels)
    assert early.train.cameras == late.train.cameras


def test_views_that_all_look_away_are_refused(tmp_path: Path) -> None:
    write_blender(tmp_path)
    file = tmp_path / "transforms_train.json"
    meta = json.loads(file.read_text())
    for frame in meta["frames"]:
        rotated = np.array(frame["transform_matrix"]) @ np.diag([-1.0, 1.0, -1.0, 1.0])
        frame["transform_matrix"] = rotated.tolist()
    file.write_text(json.dumps(meta))
    with pytest.raises(SceneError, match=r"3 of the 3 views of .* do not look at the scene"):
        open_scene(str(tmp_path))
