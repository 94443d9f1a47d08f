"""Posed scenes as other programs write them: read as they mean it, refused by name, or noted."""

import io
import itertools
import json
import re
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.rays import camera_rays
from nerf_posenc.radiance.views import Scene
from nerf_posenc_app.data import SceneError, open_image, open_scene
from nerf_posenc_app.data.formulas.quadrature import look_at_origin
from nerf_posenc_app.data.image_files import images_in
from nerf_posenc_app.data.posed.boxes import Box
from nerf_posenc_app.data.posed.frames import Frame, PosedImages, load_scene
from tests.app.data.test_scenes import POSE, write_blender
from tests.optional import needs

RGB = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)


def write_views(folder: Path, count: int = 9, *, orientation: int = 1, suffix: str = "png") -> None:
    (folder / "images").mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    exif[274] = orientation
    for i in range(count):
        pixels = np.roll(RGB, i, axis=1)
        Image.fromarray(pixels).save(folder / f"images/{i:03}.{suffix}", exif=exif)


def write_meta(folder: Path, count: int = 9, name: str = "images/{:03}.png", **more: Any) -> None:
    frames = [
        {"file_path": name.format(i), "transform_matrix": POSE} | more.pop(f"frame_{i}", {})
        for i in range(count)
    ]
    meta = {"fl_x": 9.0, "w": 8, "h": 6, "frames": frames, **more}
    meta = {key: value for key, value in meta.items() if value is not None}
    (folder / "transforms.json").write_text(json.dumps(meta))


def transforms(folder: Path) -> None:
    write_meta(folder)


def llff(folder: Path) -> None:
    table = np.array([[0, 1, 0, 0, 6], [-1, 0, 0, 0, 8], [0, 0, 1, 0, 9]], float).flatten()
    np.save(folder / "poses_bounds.npy", np.array([[*table, 2.0, 6.0]] * 9))


def colmap(
    folder: Path, *, number: int = 0, names: str = "{:03}.png", count: int = 9, **more: Any
) -> None:
    needs("pycolmap")
    model = folder / f"sparse/{number}"
    model.mkdir(parents=True)
    camera = more.get("camera", "SIMPLE_PINHOLE 8 6 9 4 3")
    (model / "cameras.txt").write_text(f"1 {camera}\n")
    between = more.get("between", "\n\n")
    lines = (f"{i + 1} 1 0 0 0 {i / 10} 0 0 1 {names.format(i)}{between}" for i in range(count))
    (model / "images.txt").write_text("".join(lines))
    points = np.random.default_rng(0).uniform((-1, -1, 4), (1, 1, 6), (100, 3))
    points[: more.get("outliers", 0)] *= 1e4
    rows = (f"{i + 1} {x} {y} {z} 9 9 9 0.1\n" for i, (x, y, z) in enumerate(points))
    (model / "points3D.txt").write_text("".join(rows))


FORMATS: dict[str, Callable[[Path], None]] = {
    "transforms": transforms,
    "LLFF": llff,
    "COLMAP": colmap,
}


def said(scene: Scene) -> str:
    return "; ".join(scene.notes)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("orientation", "suffix"), [(6, "png"), (3, "png"), (6, "tif")])
def test_pixels_of_views_are_those_that_are_stored(
    tmp_path: Path, kind: str, orientation: int, suffix: str
) -> None:
    needs(*(["tifffile"] if suffix == "tif" else []))
    # Cameras are for the stored pixels: what EXIF rotates is not rotated, and that is said.
    write_views(tmp_path, orientation=orientation, suffix=suffix)
    write_meta(tmp_path, name=f"images/{{:03}}.{suffix}") if kind == "transforms" else None
    if kind != "transforms":
        FORMATS[kind](tmp_path)
    scene = open_scene(str(tmp_path))
    assert torch.equal(scene.test.pixels[0], torch.from_numpy(RGB))
    assert (scene.train.cameras[0].fx, scene.train.cameras[0].fy) == (9, 9)
    assert "EXIF orientations of 9 views are not applied" in said(scene)
    upright = open_image(str(tmp_path / f"images/000.{suffix}"))
    assert upright.size == ((6, 8) if orientation == 6 else (8, 6))


def test_a_compressed_tiff_is_turned_once(tmp_path: Path) -> None:
    needs("tifffile", "imagecodecs")
    exif = Image.Exif()
    exif[274] = 6
    Image.fromarray(RGB).save(tmp_path / "a.tif", compression="jpeg", quality=100, exif=exif)
    expected = np.rot90(np.asarray(Image.fromarray(RGB)), -1)
    found = 255 * open_image(str(tmp_path / "a.tif")).rgb.numpy()
    # JPEG changes noise by this much, and a wrong orientation by 80.
    assert np.abs(found - expected).mean() < 40


@pytest.mark.parametrize("kind", FORMATS)
def test_a_camera_for_pixels_of_another_shape_is_refused(tmp_path: Path, kind: str) -> None:
    write_views(tmp_path)
    FORMATS[kind](tmp_path)
    for file in (tmp_path / "images").iterdir():
        Image.fromarray(RGB.swapaxes(0, 1)).save(file)
    with pytest.raises(SceneError, match=r"is for 8 x 6 pixels, and 00\d.png has 6 x 8"):
        open_scene(str(tmp_path))


@pytest.mark.parametrize(("width", "height"), [(16, 12), (805, 600), (1001, 750)])
def test_images_may_be_reduced_with_rounding(tmp_path: Path, width: int, height: int) -> None:
    write_views(tmp_path)
    write_meta(tmp_path, w=width, h=height, fl_x=9 * width / 8)
    assert open_scene(str(tmp_path)).train.cameras[0].fx == pytest.approx(9)


@pytest.mark.parametrize("lens", [{"fl_x": 36.0}, {"fl_x": None, "camera_angle_x": 0.8366}])
@pytest.mark.parametrize("sides", [{"w": 32, "h": 24}, {"w": 32, "h": None}, {"w": None, "h": 24}])
def test_intrinsics_are_those_of_the_full_size(
    tmp_path: Path, lens: dict[str, Any], sides: dict[str, Any]
) -> None:
    write_views(tmp_path)
    write_meta(tmp_path, cx=14.0, cy=12.0, **lens, **sides)
    camera = open_scene(str(tmp_path)).train.cameras[0]
    assert (camera.cx, camera.cy) == (3.5, 3.0)
    assert camera.fx == pytest.approx(9, rel=1e-3)


def test_two_fields_of_view_are_compared(tmp_path: Path) -> None:
    write_views(tmp_path)
    write_meta(tmp_path, camera_angle_x=0.5)
    assert "camera_angle_x is 28.65 degrees and fl_x means 47.92; fl_x is used" in said(
        open_scene(str(tmp_path))
    )
    write_meta(tmp_path, w=0, camera_angle_x=0.5)
    assert "fl_x is used" in said(open_scene(str(tmp_path)))
    write_meta(tmp_path, fl_y=20.0)
    assert "pixels that are not square: fx 9, fy 20" in said(open_scene(str(tmp_path)))
    write_meta(tmp_path, cx=-3.0, cy=2.0)
    assert "principal point outside" in said(open_scene(str(tmp_path)))


@pytest.mark.parametrize(
    ("camera", "message"),
    [
        ({"cx": 0, "cy": 0}, "principal point at .*corner"),
        ({"cx": 0.5, "cy": 0.5}, "principal point at .*corner"),
        ({"fl_x": 0.3}, "field of view of 171 degrees.*in pixels"),
        ({"fl_x": None, "camera_angle_x": 3.07}, "field of view of 176 degrees"),
        ({"aabb_scale": -4}, "scale and aabb_scale must be above 0"),
        ({"k6": 0.1}, "a lens with k6 is not supported"),
    ],
)
def test_implausible_cameras_are_refused(
    tmp_path: Path, camera: dict[str, Any], message: str
) -> None:
    write_views(tmp_path)
    write_meta(tmp_path, **camera)
    with pytest.raises(SceneError, match=message):
        open_scene(str(tmp_path))


@pytest.mark.parametrize("model", ["SIMPLE_DIVISION 8 6 9 4 3 0.1", "FOV 8 6 9 9 4 3 0.1"])
def test_lenses_of_other_models_are_refused(tmp_path: Path, model: str) -> None:
    write_views(tmp_path)
    colmap(tmp_path, camera=model)
    with pytest.raises(SceneError, match=f"of the kind {model.split()[0]} are not supported"):
        open_scene(str(tmp_path))


def test_scale_and_offset_of_instant_ngp_place_the_box(tmp_path: Path) -> None:
    write_views(tmp_path)
    write_meta(tmp_path, scale=0.1, offset=[0.5, 0.6, 0.5], aabb_scale=2)
    scene = open_scene(str(tmp_path))
    # The cube 0.1 p + (0.5, 0.6, 0.5) = 0.5 +- 1.
    assert scene.scale == pytest.approx(10)
    assert scene.center == pytest.approx((0, -1, 0))


def test_a_frame_s_own_field_of_view_stands_in_for_that_of_all(tmp_path: Path) -> None:
    write_views(tmp_path)
    write_meta(tmp_path, frame_1={"camera_angle_x": 1.2, "fl_y": None}, camera_angle_y=None)
    cameras = open_scene(str(tmp_path)).train.cameras
    assert cameras[0].fx == cameras[0].fy == pytest.approx(4 / np.tan(0.6))
    assert cameras[1].fx == 9


def test_views_that_see_nothing_of_the_box_are_counted(tmp_path: Path) -> None:
    write_views(tmp_path)
    away = (np.array(POSE) @ np.diag([-1.0, 1.0, -1.0, 1.0])).tolist()
    write_meta(tmp_path, frame_1={"transform_matrix": away})
    assert "1 of the 7 views to fit see nothing of the fitted box" in said(
        open_scene(str(tmp_path))
    )


def capture(folder: Path, count: int = 24, **changes: Any) -> None:
    """Views around the origin, in transforms.json; ``frame_3`` of changes is a distance."""
    write_views(folder, count)
    poses = [look_at_origin(2 * np.pi * i / count, 0.4, 4.0) for i in range(count)]
    distances = {f"frame_{i}": changes.pop(f"frame_{i}", 1.0) for i in range(count)}
    for pose, times in zip(poses, distances.values(), strict=True):
        pose[:3, 3] *= times
    for i, pose in enumerate(poses):
        changes[f"frame_{i}"] = {"transform_matrix": pose.tolist()}
    write_meta(folder, count, **changes)


def test_views_that_lie_far_out_are_named(tmp_path: Path) -> None:
    capture(tmp_path / "good")
    assert "as far" not in said(open_scene(str(tmp_path / "good")))
    capture(tmp_path / "far", frame_3=20.0)
    found = said(open_scene(str(tmp_path / "far")))
    assert "1 of the 21 views to fit are up to 20 times as far" in found
    assert "as most: 003.png;" in found


def test_one_far_bound_does_not_set_the_scale_of_an_llff_scene(tmp_path: Path) -> None:
    write_views(tmp_path)
    llff(tmp_path)
    good = open_scene(str(tmp_path))
    rows = np.load(tmp_path / "poses_bounds.npy")
    rows[4, 16] = 1e4
    np.save(tmp_path / "poses_bounds.npy", rows)
    assert open_scene(str(tmp_path)).scale < 4 * good.scale


def ball_capture(
    folder: Path, scale: float = 1.0, center: tuple[float, ...] = (0, 0, 0), **changes: Any
) -> None:
    """A ball of radius 1 before a transparent background, seen from a distance of 4."""
    (folder / "images").mkdir(parents=True)
    camera = Camera.from_angle(32, 32, 0.8)
    for i in range(16):
        pose = look_at_origin(np.pi * i / 8, (0.2, 0.9, -0.6)[i % 3], 4.0)
        rays = camera_rays(camera, pose.float())
        across = torch.linalg.cross(rays.origins, rays.directions).norm(dim=-1)
        rgba = np.full((32, 32, 4), 200, np.uint8)
        rgba[..., 3] = 255 * (across < 1).reshape(32, 32).numpy()
        Image.fromarray(rgba).save(folder / f"images/{i:03}.png")
        pose[:3, 3] = scale * pose[:3, 3] + torch.tensor(center)
        changes[f"frame_{i}"] = {"transform_matrix": pose.tolist()}
    write_meta(folder, 16, **{"fl_x": camera.fx, "w": 32, "h": 32} | changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"aabb_scale": 16}, "the object takes 0.0.* of the width of the scene's box, 48.5 wide"),
        ({"scale": 10.0}, r"\d\d% of the rays of opaque pixels miss .* 3.03 wide"),
        ({"center": (40.0, 0.0, 0.0)}, "100% of the rays of opaque pixels miss"),
    ],
    ids=["aabb_scale", "lengths", "beside"],
)
def test_the_box_of_an_object_follows_its_views(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    ball_capture(tmp_path, **changes)
    scene, scale = open_scene(str(tmp_path)), changes.get("scale", 1.0)
    assert scale < scene.scale < 1.4 * scale
    center = torch.tensor(changes.get("center", (0.0, 0.0, 0.0)))
    assert float((torch.tensor(scene.center) - center).norm()) < 0.3 * scale
    assert re.search(f"cube around the object.*{reason}.*aabb_scale, scale and offset", said(scene))


def test_a_box_that_an_object_fills_is_that_of_the_file(tmp_path: Path) -> None:
    ball_capture(tmp_path)
    scene = open_scene(str(tmp_path))
    assert scene.scale == pytest.approx(0.5 / 0.33)
    assert scene.center == (0, 0, 0)
    assert "box" not in said(scene)


def test_opaque_views_need_no_box(tmp_path: Path) -> None:
    capture(tmp_path)
    near = open_scene(str(tmp_path))
    meta = json.loads((tmp_path / "transforms.json").read_text())
    for frame in meta["frames"]:
        for row, moved in zip(frame["transform_matrix"], (90, 40, 20), strict=False):
            row[3] += moved
    (tmp_path / "transforms.json").write_text(json.dumps(meta))
    far = open_scene(str(tmp_path))
    assert "the fitted box is the cube around the cameras, 8 wide" in said(far)
    assert far.center == pytest.approx((90, 40, 20), abs=1e-3)
    torch.testing.assert_close(
        far.train.world_from_camera[:, :3, 3] * far.scale,
        near.train.world_from_camera[:, :3, 3] * near.scale,
        atol=1e-3,
        rtol=0,
    )


def turn_axes(folder: Path) -> None:
    meta = json.loads((folder / "transforms.json").read_text())
    for frame in meta["frames"]:
        turned = np.array(frame["transform_matrix"]) @ np.diag([1.0, -1.0, -1.0, 1.0])
        frame["transform_matrix"] = turned.tolist()
    (folder / "transforms.json").write_text(json.dumps(meta))


@pytest.mark.parametrize("write", [capture, ball_capture])
def test_axes_of_opencv_are_found_out_and_turned(
    tmp_path: Path, write: Callable[..., None]
) -> None:
    write(tmp_path / "gl", aabb_scale=16)
    write(tmp_path / "cv", aabb_scale=16)
    turn_axes(tmp_path / "cv")
    message = 'meet behind the cameras.*set "camera_convention": "opencv"'
    if write is ball_capture:
        with pytest.raises(SceneError, match=message):
            open_scene(str(tmp_path / "cv"))
    else:
        assert re.search(message, said(open_scene(str(tmp_path / "cv"))))
    write(tmp_path / "named", aabb_scale=16, camera_convention="opencv")
    turn_axes(tmp_path / "named")
    named, expected = (open_scene(str(tmp_path / name)) for name in ("named", "gl"))
    assert torch.equal(named.train.world_from_camera, expected.train.world_from_camera)
    assert named.notes == expected.notes
    assert "behind" not in said(expected)


def test_an_unknown_convention_of_axes_is_refused(tmp_path: Path) -> None:
    capture(tmp_path, camera_convention="mitsuba")
    with pytest.raises(SceneError, match=r"camera_convention must be opengl .* got 'mitsuba'"):
        open_scene(str(tmp_path))


def test_images_of_several_sizes_are_padded_and_the_padding_is_masked(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    sizes = [(8, 6) if i % 4 else (6, 8) for i in range(9)]
    arrays = [np.roll(RGB if w == 8 else RGB.swapaxes(0, 1), i) for i, (w, _) in enumerate(sizes)]
    frames, poses = [], [look_at_origin(0.7 * i, 0.4, 4.0).double().numpy() for i in range(9)]
    for i, (width, height) in enumerate(sizes):
        path = tmp_path / f"images/{i:03}.png"
        Image.fromarray(arrays[i]).save(path)
        # A point at a quarter of the width and half of the height of each image.
        camera = Camera(width, height, 9, 9, width / 2, height / 2)
        points = np.array([[0.25, 0.5, 0, 0, 0]])
        frames.append(Frame(path, camera.resized, poses[i], points, sizes[i]))
    found = PosedImages(frames[1:], frames[:1], Box(np.zeros(3), 2.0), [])
    scene = load_scene(tmp_path, found, max_pixels=10_000, size=None)
    assert "several sizes (6 x 8, 8 x 6): smaller ones are padded" in said(scene)
    train = scene.train
    assert train.is_opaque
    assert train.size == (8, 8)
    assert train.masks is not None
    assert train.points is not None
    # A turntable is seen by a camera that looks ahead; here all are as far aside.
    small = replace(train.cameras[0], cx=2.0, cy=2.0)
    ahead = replace(train.cameras[0], cx=4.0, cy=4.0)
    cameras = [small, ahead, *train.cameras[2:]]
    assert replace(train, cameras=cameras).central_camera == ahead
    for i, (width, height) in enumerate(sizes[1:]):
        assert torch.equal(train.pixels[i, :height, :width], torch.from_numpy(arrays[i + 1]))
        assert train.masks[i].sum() == train.masks[i, :height, :width].sum() == 48
        assert train.cameras[i] == Camera(8, 8, 9, 9, width / 2, height / 2)
        assert (8 * train.points.place[i]).tolist() == [width / 4, height / 2]


def test_images_of_several_resolutions_are_reduced_to_one(tmp_path: Path) -> None:
    write_views(tmp_path)
    with Image.open(tmp_path / "images/003.png") as image:
        image.resize((16, 12), Image.Resampling.NEAREST).save(tmp_path / "images/003.png")
    write_meta(tmp_path)
    scene = open_scene(str(tmp_path), size=4)
    assert "several sizes" not in said(scene)
    assert scene.train.size == (4, 3)
    assert scene.train.masks is None
    # Twice the pixels of the same view: the same camera, the same means.
    assert len(set(scene.train.cameras)) == 1
    write_views(tmp_path)
    expected = open_scene(str(tmp_path), size=4).train.pixels
    torch.testing.assert_close(scene.train.pixels, expected, atol=1e-6, rtol=0)


def test_paths_of_another_machine_and_models_without_a_folder_are_found(tmp_path: Path) -> None:
    write_views(tmp_path)
    write_meta(tmp_path, name="/home/me/capture/images/{:03}.png")
    scene = open_scene(str(tmp_path))
    assert "as images/000.png for /home/me/capture/images/000.png" in said(scene)
    (tmp_path / "transforms.json").unlink()
    colmap(tmp_path)
    for file in (tmp_path / "sparse/0").iterdir():
        file.rename(tmp_path / file.name)
    (tmp_path / "cameras.txt").write_text("\ufeff" + (tmp_path / "cameras.txt").read_text())
    assert len(open_scene(str(tmp_path)).train) == 7


def test_the_file_of_poses_that_is_given_is_read(tmp_path: Path) -> None:
    write_blender(tmp_path)
    write_views(tmp_path, 8)
    write_meta(tmp_path)
    for name, other in itertools.permutations(("transforms.json", "transforms_train.json")):
        found = said(open_scene(str(tmp_path / name)))
        assert f"poses are those of {name}; not read: {other}" in found


def test_what_is_not_read_is_named(tmp_path: Path) -> None:
    write_views(tmp_path, 10)
    write_meta(tmp_path, frame_3={"time": 0.5}, ply_file_path="points.ply")
    Image.fromarray(RGB).save(tmp_path / "images/003_mask.png")
    colmap(tmp_path)
    found = said(open_scene(str(tmp_path)))
    assert "not read: ply_file_path, time" in found
    assert "not read: 003_mask.png; put masks into masks/" in found
    assert "1 images beside those of transforms.json have no pose: 009.png" in found
    assert "poses are those of transforms.json; not read: sparse/0" in found
    write_blender(tmp_path / "synthetic")
    meta = tmp_path / "synthetic/transforms_test.json"
    shutil.copy(meta, meta.with_name("transforms_val.json"))
    assert "transforms_val.json is not read" in said(open_scene(str(tmp_path / "synthetic")))


NAMES = [f"images/{i:03}.png" for i in range(9)]


@pytest.mark.parametrize(
    ("split", "tested", "note"),
    [
        ({"train_filenames": NAMES[1:]}, [0], "all others, 1, are tested"),
        ({"test_filenames": NAMES[:2]}, [0, 1], "all others, 7, are fitted"),
        ({"train_filenames": NAMES}, [0, 8], "every 8th"),
        (
            {"train_filenames": [n[:-4] for n in NAMES[2:]], "val_filenames": ["images/000"]},
            [0],
            "",
        ),
        (
            {"train_filenames": [*NAMES[2:], "images/x.png"], "test_filenames": NAMES[:1]},
            [0],
            "1 names of train_filenames have no frame: images/x.png",
        ),
        (
            {
                "train_filenames": NAMES[3:],
                "val_filenames": NAMES[:1],
                "test_filenames": NAMES[1:3],
            },
            [1, 2],
            "1 views of val_filenames are neither",
        ),
    ],
)
def test_splits_are_honoured_and_the_rest_is_said(
    tmp_path: Path, split: dict[str, Any], tested: list[int], note: str
) -> None:
    write_views(tmp_path)
    write_meta(tmp_path, **split)
    scene = open_scene(str(tmp_path))
    assert list(scene.test.names) == [f"{i:03}.png" for i in tested]
    assert note in said(scene)


def test_scannet_s_test_frames_are_tested(tmp_path: Path) -> None:
    write_views(tmp_path)
    write_meta(tmp_path)
    meta = json.loads((tmp_path / "transforms.json").read_text())
    meta["frames"], meta["test_frames"] = meta["frames"][2:], meta["frames"][:2]
    (tmp_path / "transforms.json").write_text(json.dumps(meta))
    scene = open_scene(str(tmp_path))
    assert (len(scene.train), len(scene.test)) == (7, 2)


@pytest.mark.parametrize(
    ("names", "stored", "folder"),
    [
        ("images\\{:03}.png", "{:03}.png", "images"),
        ("images/{:03}.png", "{:03}.PNG", "images"),
        ("images/{:03}.jpeg", "{:03}.png", "images"),
        ("images/{:03}", "{:03}.webp", "images"),
        ("images/\u00e4{:03}.png", "a\u0308{:03}.png", "images"),
        ("images/a%20{:03}.png", "a {:03}.png", "images"),
        ("Images/{:03}.png", "{:03}.png", "images"),
        ("images/{:03}.png", "{:03}.png", "images_4"),
        ("images/{:03}.png", "{:03}.png", "input"),
    ],
)
def test_images_are_found_under_the_names_that_they_have_now(
    tmp_path: Path, names: str, stored: str, folder: str
) -> None:
    (tmp_path / folder).mkdir()
    for i in range(9):
        suffix = stored.rpartition(".")[2]
        data = io.BytesIO()
        Image.fromarray(RGB).save(
            data, suffix.upper(), **{"lossless": True} if suffix == "webp" else {}
        )
        (tmp_path / folder / stored.format(i)).write_bytes(data.getvalue())
    write_meta(tmp_path, name=names)
    scene = open_scene(str(tmp_path))
    assert torch.equal(scene.train.pixels[0], torch.from_numpy(RGB))
    assert ("9 images have other names than in transforms.json" in said(scene)) == (
        names != "images/{:03}"
    )
    colmap_home = tmp_path / "colmap-home"
    colmap_home.mkdir()
    shutil.move(tmp_path / folder, colmap_home / folder)
    if "/" in names and names.startswith("images"):
        colmap(colmap_home, names=names.partition("/")[2])
        assert len(open_scene(str(colmap_home)).train) == 7


@pytest.mark.parametrize(
    "name", ["images/{:03}.png", "../slike\\{:03}.png", "/home/me/shots/{:03}.png", "{:03}.png"]
)
def test_images_are_found_in_the_only_folder_that_has_them(tmp_path: Path, name: str) -> None:
    write_views(tmp_path)
    (tmp_path / "images").rename(tmp_path / "My Photos")
    shutil.copytree(tmp_path / "My Photos", tmp_path / "depths")
    write_meta(tmp_path, name=name)
    scene = open_scene(str(tmp_path))
    assert "9 images have other names" in said(scene)
    assert f"as My Photos/000.png for {name.format(0)}" in said(scene)
    shutil.copytree(tmp_path / "My Photos", tmp_path / "Edited Photos")
    with pytest.raises(SceneError, match=r"none of their images|outside itself"):
        open_scene(str(tmp_path))


def test_images_that_are_missing_are_not_those_of_another_folder(tmp_path: Path) -> None:
    write_blender(tmp_path)
    (tmp_path / "train/r_1.png").unlink()
    assert len(open_scene(str(tmp_path)).train) == 2
    shutil.rmtree(tmp_path / "train")
    with pytest.raises(SceneError, match="none of their images exists"):
        open_scene(str(tmp_path))
    write_views(tmp_path / "masked")
    write_meta(tmp_path / "masked", mask_path="masks/000.png")
    with pytest.raises(SceneError, match=r"there is no mask masks/000\.png"):
        open_scene(str(tmp_path / "masked"))


def test_the_first_image_that_was_looked_for_is_named_with_what_lies_there(tmp_path: Path) -> None:
    write_views(tmp_path)
    for make in (
        lambda: write_meta(tmp_path, name="images/x{:03}.png"),
        lambda: colmap(tmp_path, names="x{}.png"),
    ):
        make()
        with pytest.raises(
            SceneError, match=r"images/x0\S*.png, is not in .*images contains 000.png, 001"
        ):
            open_scene(str(tmp_path))
        (tmp_path / "transforms.json").unlink(missing_ok=True)


def test_the_largest_model_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    write_views(tmp_path)
    colmap(tmp_path, number=0, count=3)
    colmap(tmp_path, number=1)
    scene = open_scene(str(tmp_path))
    assert len(scene.train) + len(scene.test) == 9
    assert "the model with 9 images is read, not sparse/0 (3 images)" in said(scene)
    shutil.rmtree(tmp_path / "sparse/1")
    assert "6 images beside those of" in said(open_scene(str(tmp_path)))


@pytest.mark.parametrize("name", ["a {} of 9.png", "2024 05 {}.png"])
@pytest.mark.parametrize(
    "between", ["\n\n", "\n", "\n1 2 -1 3 4 -1\n", "\n1 2 -1 3 4 -1 5 6 -1 7 8 -1\n"]
)
def test_images_are_read_whole_with_spaces_and_without_empty_lines(
    tmp_path: Path, between: str, name: str
) -> None:
    write_views(tmp_path)
    for i in range(9):
        (tmp_path / f"images/{i:03}.png").rename(tmp_path / "images" / name.format(i))
    colmap(tmp_path, names=name, between=between)
    scene = open_scene(str(tmp_path))
    assert (len(scene.train), len(scene.test)) == (7, 2)
    assert torch.equal(scene.test.pixels[0], torch.from_numpy(RGB))


def test_points_far_away_do_not_set_the_scale(tmp_path: Path) -> None:
    write_views(tmp_path)
    colmap(tmp_path)
    plain = open_scene(str(tmp_path))
    shutil.rmtree(tmp_path / "sparse")
    colmap(tmp_path, outliers=5)
    scene = open_scene(str(tmp_path))
    assert scene.scale == pytest.approx(plain.scale, rel=0.3)
    assert "the box encloses the middle 80%" in said(scene)


def test_rigs_without_frames_are_named(tmp_path: Path) -> None:
    write_views(tmp_path)
    colmap(tmp_path)
    (tmp_path / "sparse/0/rigs.bin").write_bytes(b"")
    with pytest.raises(SceneError, match=r"rigs.bin without the frames.bin"):
        open_scene(str(tmp_path))


@pytest.mark.parametrize("how", ["utf-8-sig", "utf-16", "utf-32", "comments"])
def test_json_with_marks_comments_and_wide_characters_is_read(tmp_path: Path, how: str) -> None:
    write_views(tmp_path)
    write_meta(tmp_path, note="// is kept /* in strings */")
    file = tmp_path / "transforms.json"
    text = file.read_text()
    if how == "comments":
        file.write_text("// from a program\n" + text.replace('"w"', '/* the\nwidth */ "w"'))
    else:
        file.write_text(text, encoding=how)
    assert len(open_scene(str(tmp_path)).train) == 7


def test_cameras_may_be_matrices(tmp_path: Path) -> None:
    write_views(tmp_path)
    matrix = [[11.0, 0, 4.5], [0, 12.0, 2.5], [0, 0, 1]]
    write_meta(tmp_path, frame_1={"K": matrix})
    one, other = open_scene(str(tmp_path)).train.cameras[:2]
    assert (one.fx, one.fy, one.cx, one.cy) == (11, 12, 4.5, 2.5)
    assert other.fx == 9
    write_meta(tmp_path, frame_1={"K": [11.0, 12.0]})
    with pytest.raises(SceneError, match="frame 1: K must be a matrix of 3 x 3 numbers"):
        open_scene(str(tmp_path))


def test_a_file_that_cannot_be_read_is_named_with_what_lies_beside_it(tmp_path: Path) -> None:
    write_views(tmp_path)
    write_meta(tmp_path)
    llff(tmp_path)
    file = tmp_path / "transforms.json"
    file.write_text(file.read_text()[:-20])
    message = (
        r"cannot read .*transforms\.json.*to read poses_bounds\.npy instead, remove transforms"
    )
    with pytest.raises(SceneError, match=message):
        open_scene(str(tmp_path))


def test_masks_and_splits_that_are_not_read_are_named(tmp_path: Path) -> None:
    write_views(tmp_path)
    write_meta(tmp_path)
    (tmp_path / "latest.txt").touch()
    assert "not read" not in said(open_scene(str(tmp_path)))
    (tmp_path / "images_mask").mkdir()
    (tmp_path / "test_img_id.txt").touch()
    assert "not read: images_mask, test_img_id.txt; masks" in said(open_scene(str(tmp_path)))


def test_hidden_files_are_no_images(tmp_path: Path) -> None:
    write_views(tmp_path)
    llff(tmp_path)
    for name in ("._000.png", ".hidden.jpg"):
        (tmp_path / f"images/{name}").write_bytes(b"Mac OS X")
    assert len(open_scene(str(tmp_path)).train) == 7
    assert len(images_in(tmp_path / "images")) == 9


def test_views_that_show_nothing_are_refused(tmp_path: Path) -> None:
    write_views(tmp_path)
    write_meta(tmp_path)
    clear = np.dstack([RGB, np.zeros((6, 8), np.uint8)])
    for file in (tmp_path / "images").iterdir():
        Image.fromarray(clear).save(file)
    with pytest.raises(SceneError, match="fully transparent"):
        open_scene(str(tmp_path))
    with pytest.raises(SceneError, match="fully transparent: its alpha is 0 everywhere"):
        open_image(str(tmp_path / "images/000.png"))
    # Every program shows a BMP as if it had no alpha then.
    header = struct.pack("<IiiHHIIiiII", 108, 8, 6, 1, 32, 3, 0, 0, 0, 0, 0)
    masks = struct.pack("<4I", 0xFF0000, 0xFF00, 0xFF, 0xFF000000) + bytes(52)
    pixels = np.dstack([RGB[::-1, :, ::-1], np.zeros((6, 8), np.uint8)]).tobytes()
    start = 14 + len(header) + len(masks)
    head = b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, start)
    (tmp_path / "a.bmp").write_bytes(head + header + masks + pixels)
    found = open_image(str(tmp_path / "a.bmp")).rgb
    torch.testing.assert_close(found, torch.from_numpy(RGB / np.float32(255)))
