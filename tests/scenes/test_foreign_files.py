"""Files as other programs write them: read as they mean it, refused by name, or said in a note."""

import io
import json
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image

from app.kinds.image.inputs import find_images
from app.kinds.scan.scan import ScanKind, ScanOptions
from app.report.sounds import wav_bytes
from nerf_posenc.radiance.views import Scene
from scenes import SceneError, open_image, open_scene
from scenes.clips import open_clip
from scenes.meshes import Shape, open_shape
from scenes.photos import photo_files
from scenes.sounds import open_sound
from tests.scenes.test_scenes import POSE, write_blender

pytest.importorskip("pycolmap", reason="COLMAP models take the extra 'photos'")
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


def test_a_compressed_tiff_that_pillow_reads_is_turned_once(tmp_path: Path) -> None:
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
    assert "camera_angle_x is 28.65 degrees and fl_x means 47.92: fl_x is taken" in said(
        open_scene(str(tmp_path))
    )
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
def test_cameras_that_nobody_has_are_refused(
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
    assert "1 of the 7 views to fit see nothing of the box" in said(open_scene(str(tmp_path)))


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


def test_what_is_not_read_is_named(tmp_path: Path) -> None:
    write_views(tmp_path, 10)
    write_meta(tmp_path, frame_3={"time": 0.5}, ply_file_path="points.ply")
    Image.fromarray(RGB).save(tmp_path / "images/003_mask.png")
    colmap(tmp_path)
    found = said(open_scene(str(tmp_path)))
    assert "not read: ply_file_path, time" in found
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
    assert "the box is that of the middle 80%" in said(scene)


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


def test_hidden_files_are_no_images(tmp_path: Path) -> None:
    write_views(tmp_path)
    llff(tmp_path)
    for name in ("._000.png", ".hidden.jpg"):
        (tmp_path / f"images/{name}").write_bytes(b"Mac OS X")
    assert len(open_scene(str(tmp_path)).train) == 7
    assert len(find_images([str(tmp_path / "images")], 10**9)) == 9
    assert len(photo_files(tmp_path / "images")) == 9


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


def test_a_scan_is_empty_where_it_is_transparent(tmp_path: Path) -> None:
    rgba = np.full((16, 16, 4), 200, np.uint8)
    rgba[:, :8, 3], rgba[:, 8:, 3] = 0, 255
    Image.fromarray(rgba).save(tmp_path / "a.png")
    slices = ScanKind(ScanOptions(scan=str(tmp_path / "a.png"))).slices
    assert float(slices[0, :, :8].max()) == 0
    assert float(slices[0, 8, 10]) == pytest.approx(200 / 255)


def test_bands_that_are_called_gray_are_not_dropped(tmp_path: Path) -> None:
    extra: dict[str, Any] = {"photometric": "minisblack", "extrasamples": ["unspecified"] * 2}
    tifffile.imwrite(tmp_path / "a.tif", RGB, planarconfig="contig", **extra)
    with pytest.raises(SceneError, match="has 3 channels and calls them gray; save it as RGB"):
        open_image(str(tmp_path / "a.tif"))


def test_thumbnails_are_passed_over_and_raw_photographs_refused(tmp_path: Path) -> None:
    small = RGB[::2, ::2]
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(small, photometric="rgb", subfiletype=1)
        file.write(RGB, photometric="rgb")
    found = open_image(str(tmp_path / "a.tif"))
    torch.testing.assert_close(found.rgb, torch.from_numpy(RGB / np.float32(255)))
    with tifffile.TiffWriter(tmp_path / "a.dng") as file:
        version = [(50706, "B", 4, b"\1\4\0\0", True)]
        file.write(small, photometric="rgb", subfiletype=1, extratags=version)
    with tifffile.TiffWriter(tmp_path / "a.nef") as file:
        file.write(small, photometric="rgb", subfiletype=1, subifds=1)
        file.write(RGB[..., 0], photometric=32803)
    for name in ("a.dng", "a.nef"):
        with pytest.raises(SceneError, match="raw photograph"):
            open_image(str(tmp_path / name))


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"\0\0\0\x18ftypheic", "HEIC"),
        (b"\0\0\0\x18ftypavif", "AVIF"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"v/1\x01", "OpenEXR"),
        (b"PF\n2 2\n", "PFM"),
        (b"P7\nWIDTH 2", "PAM"),
        (bytes(128) + b"DICM", "DICOM"),
        (bytes(344) + b"n+1\0", "NIfTI"),
        (b"PK\x03\x04", "archive"),
        (b"\0\0\0\x18ftypisom", "a video"),
        (b"RIFF\0\0\0\0oops", "damaged or of an unknown format"),
    ],
)
def test_other_formats_are_named_by_what_they_are(tmp_path: Path, head: bytes, name: str) -> None:
    for suffix in ("jpg", "png"):
        (tmp_path / f"a.{suffix}").write_bytes(head + bytes(64))
        with pytest.raises(SceneError, match=name):
            open_image(str(tmp_path / f"a.{suffix}"))


def animation(folder: Path, name: str) -> np.ndarray:
    """A red square that moves over nothing, whose pixels hold green."""
    frames = np.zeros((4, 12, 16, 4), np.uint8)
    frames[..., 1] = 255
    for i, frame in enumerate(frames):
        frame[4:8, 2 * i : 2 * i + 4] = (255, 0, 0, 255)
    images = [Image.fromarray(frame) for frame in frames]
    more: dict[str, Any] = {"lossless": True} if name.endswith("webp") else {"disposal": 2}
    images[0].save(folder / name, save_all=True, append_images=images[1:], duration=80, **more)
    return frames


@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.webp"])
def test_transparent_animations_are_laid_over_white_as_images_are(
    tmp_path: Path, name: str
) -> None:
    frames = animation(tmp_path, name)
    expected = np.where(frames[..., 3:] > 0, frames[..., :3], 255) / 255
    clip = open_clip(str(tmp_path / name), num_frames=9, size=16)
    torch.testing.assert_close(clip.frames, torch.from_numpy(expected).float())
    assert clip.rate == pytest.approx(12.5)
    image = open_image(str(tmp_path / name))
    torch.testing.assert_close(image.rgb, clip.frames[0])


# imageio-ffmpeg leaves its pipes open.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("suffix", ["avi", "mkv", "mp4", "mov", "webm", "ts", "flv", "ogv", "mpg"])
def test_videos_are_read_as_another_reader_does(tmp_path: Path, suffix: str) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="videos take the extra 'video'")
    ramp = np.tile(np.linspace(0, 220, 48, dtype=np.uint8)[:, None], (32, 1, 3))
    path = str(tmp_path / f"a.{suffix}")
    codecs = {
        "webm": "libvpx",
        "flv": "flv1",
        "avi": "mjpeg",
        "ogv": "libtheora",
        "mpg": "mpeg2video",
    }
    writer = ffmpeg.write_frames(
        path, (48, 32), fps=25, codec=codecs.get(suffix, "libx264"), macro_block_size=1
    )
    writer.send(None)
    for i in range(6):
        writer.send(np.ascontiguousarray(np.roll(ramp, 4 * i, axis=1)))
    writer.close()
    reader = ffmpeg.read_frames(path)
    next(reader)
    theirs = np.stack([np.frombuffer(frame, np.uint8).reshape(32, 48, 3) for frame in reader])
    clip = open_clip(path, num_frames=99, size=100)
    np.testing.assert_allclose(255 * clip.frames.numpy(), theirs, atol=2.5)
    assert clip.rate == pytest.approx(25)


# imageio-ffmpeg leaves its pipes open.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_video_that_ends_early_is_refused(tmp_path: Path) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="videos take the extra 'video'")
    for name, codec in (("a.mkv", "mjpeg"), ("a.avi", "mjpeg")):
        writer = ffmpeg.write_frames(str(tmp_path / name), (64, 64), fps=10, codec=codec)
        writer.send(None)
        noise = np.random.default_rng(0).integers(0, 256, (20, 64, 64, 3), dtype=np.uint8)
        for frame in noise:
            writer.send(frame)
        writer.close()
        assert len(open_clip(str(tmp_path / name), num_frames=99, size=64).frames) == 20
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) // 2])
        with pytest.raises(SceneError, match=r"ends after \d+ (of \d+ )?frames"):
            open_clip(str(tmp_path / name), num_frames=99, size=64)


def ffmpeg(*arguments: str) -> None:
    exe = pytest.importorskip("imageio_ffmpeg", reason="videos take the extra 'video'")
    subprocess.run([exe.get_ffmpeg_exe(), "-v", "error", "-y", *arguments], check=True)


def test_frames_of_a_varying_rate_are_each_read_once(tmp_path: Path) -> None:
    source = ["-f", "lavfi", "-i", "testsrc=size=32x24:rate=12:duration=1"]
    later = ["-vf", "setpts='(N+5*gt(N,6)*(N-6))/12/TB'", "-fps_mode", "vfr", "-c:v", "mpeg4"]
    ffmpeg(*source, *later, str(tmp_path / "a.mp4"))
    assert len(open_clip(str(tmp_path / "a.mp4"), num_frames=64, size=32).frames) == 12


def test_titles_are_no_rates_and_wide_pixels_are_made_square(tmp_path: Path) -> None:
    source = ["-f", "lavfi", "-i", "testsrc=size=32x24:rate=12:duration=1", "-c:v", "mpeg4"]
    title = ["-metadata", "title=Music Video: sea in 99 fps", "-aspect", "8:3"]
    ffmpeg(*source, *title, str(tmp_path / "a.mp4"))
    clip = open_clip(str(tmp_path / "a.mp4"), num_frames=64, size=64)
    assert clip.rate == 12
    assert clip.frames.shape == (12, 24, 64, 3)


def test_transparent_videos_are_laid_over_white(tmp_path: Path) -> None:
    frames = animation(tmp_path, "a.png")
    ffmpeg("-i", str(tmp_path / "a.png"), "-c:v", "png", str(tmp_path / "a.mov"))
    clip = open_clip(str(tmp_path / "a.mov"), num_frames=64, size=64)
    expected = np.where(frames[..., 3:] > 0, frames[..., :3], 255) / 255
    torch.testing.assert_close(clip.frames[:4], torch.from_numpy(expected).float())


def test_what_ffmpeg_says_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg", reason="videos take the extra 'video'")
    for content, reason in (
        (b"\0\0\0\x18ftypisom" + bytes(90), "moov atom not found|Invalid data"),
        (b"#EXTM3U\nsecret.mp4\n", "neither an animation nor a video"),
        (b"ffconcat version 1.0\nfile secret.mp4\n", "neither an animation nor a video"),
        (b"fLaC" + bytes(90), "neither"),
    ):
        (tmp_path / "a.mp4").write_bytes(content)
        with pytest.raises(SceneError, match=reason) as error:
            open_clip(str(tmp_path / "a.mp4"), num_frames=9, size=16)
        assert "ffmpeg version" not in str(error.value)
        assert "\n" not in str(error.value)


def wav(samples: np.ndarray, *, size: int | None = None, odd: bool = False) -> bytes:
    data = samples.astype("<i2").tobytes()
    chunks = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
    # A remark that holds the name of the chunk of samples.
    chunks += b"LIST" + struct.pack("<I", 16) + b"INFOraw data\0\0\0\0"
    if odd:
        chunks += b"note" + struct.pack("<I", 3) + b"abc"
    length = len(data) if size is None else size
    chunks += b"data" + struct.pack("<I", length) + data
    riff = len(chunks) + 4 if size is None else size
    return b"RIFF" + struct.pack("<I", riff) + b"WAVE" + chunks


SAMPLES = (8000 * np.sin(np.arange(2000) / 9)).astype(np.int16)


@pytest.mark.parametrize(
    "data",
    [
        wav(SAMPLES),
        wav(SAMPLES, size=0xFFFFFFFF),
        wav(SAMPLES, size=0x7FFFF000),
        wav(SAMPLES, size=0),
        wav(SAMPLES, odd=True),
    ],
    ids=["plain", "of a pipe", "of another pipe", "sizes of 0", "odd chunk"],
)
def test_wav_files_of_programs_that_cannot_go_back_are_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.wav").write_bytes(data)
    sound = open_sound(str(tmp_path / "a.wav"))
    assert torch.equal(sound.samples[:, 0], torch.from_numpy(SAMPLES / np.float32(32768)))
    (tmp_path / "a.wav").write_bytes(wav(SAMPLES)[:-800])
    with pytest.raises(SceneError, match="it is cut: it has 3,200 of 4,000 bytes"):
        open_sound(str(tmp_path / "a.wav"))


def test_sounds_beyond_full_scale_are_written_as_they_are(tmp_path: Path) -> None:
    samples = torch.linspace(-4, 4, 2000)[:, None]
    (tmp_path / "a.wav").write_bytes(wav_bytes(samples, 8000))
    assert torch.equal(open_sound(str(tmp_path / "a.wav")).samples, samples)
    (tmp_path / "b.wav").write_bytes(wav_bytes(samples / 4, 8000))
    found = open_sound(str(tmp_path / "b.wav")).samples
    torch.testing.assert_close(found, samples / 4, atol=1 / 16384, rtol=0)


Outline = Sequence[tuple[float, float]]
L_SHAPE: Outline = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
DART: Outline = [(0, 0), (2, 1), (0, 2), (0.7, 1)]
STAR: Outline = [
    (r * np.cos(a), r * np.sin(a))
    for r, a in zip([2, 0.6] * 5, np.arange(10) * np.pi / 5, strict=True)
]


def prism(outline: Outline, first: int = 0) -> tuple[list[Any], list[list[int]]]:
    """Corners and polygons of a prism of height 1 whose lids begin at one of their corners."""
    count = len(outline)
    vertices = [(x, y, float(z)) for z in (0, 1) for x, y in outline]
    lid = [(first + i) % count for i in range(count)]
    faces = [lid[::-1], [count + i for i in lid]]
    faces += [[i, (i + 1) % count, count + (i + 1) % count, count + i] for i in range(count)]
    return vertices, faces


def area_of(outline: Outline) -> float:
    """Twice the outline's area by the shoelace formula, and the sides."""
    points = np.array(outline)
    after = np.roll(points, -1, axis=0)
    lid = float((points[:, 0] * after[:, 1] - points[:, 1] * after[:, 0]).sum())
    return lid + float(np.linalg.norm(after - points, axis=1).sum())


def write_obj(path: Path, vertices: list[Any], faces: list[list[int]], dialect: str = "") -> None:
    lines = [f"v {x} {y} {z}" for x, y, z in vertices]
    lines += ["f " + " ".join(str(i + 1) for i in face) for face in faces]
    text = "\n".join(["# a comment", *lines]) + "\n"
    if dialect == "relative":
        lines = [f"v {x} {y} {z}" for x, y, z in vertices]
        lines += ["f " + " ".join(str(i - len(vertices)) for i in face) for face in faces]
        text = "\n".join(lines) + "\n"
    elif dialect == "tabs":
        text = text.replace("f ", "\tf\t").replace(" ", "\t")
    elif dialect == "comments":
        text = text.replace("\n", " # x\n")
    elif dialect == "continued":
        text = text.replace("f ", "f \\\n ")
    elif dialect == "capitals":
        text = text.upper()
    elif dialect == "bom":
        text = "\ufeff" + text.replace("\n", "\r")
    path.write_text(text, encoding="utf-8", newline="")


def write_off(path: Path, vertices: list[Any], faces: list[list[int]], end: str = "\n") -> None:
    rows = [f"OFF{end}{len(vertices)} {len(faces)} 0"]
    rows += [" ".join(map(str, vertex)) for vertex in vertices]
    rows += [" ".join(map(str, [len(face), *face])) for face in faces]
    path.write_text("\n".join(rows) + "\n")


def write_ply(path: Path, vertices: list[Any], faces: list[list[int]], binary: bool) -> None:
    form = "binary_little_endian" if binary else "ascii"
    head = f"ply\nformat {form} 1.0\nelement vertex {len(vertices)}\n"
    head += "".join(f"property double {axis}\n" for axis in "xyz")
    head += f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    if binary:
        body = np.array(vertices, "<f8").tobytes()
        body += b"".join(struct.pack(f"<B{len(f)}i", len(f), *f) for f in faces)
    else:
        rows = [" ".join(map(str, v)) for v in vertices]
        rows += [" ".join(map(str, [len(f), *f])) for f in faces]
        body = ("\n".join(rows) + "\n").encode()
    path.write_bytes(head.encode() + body)


WRITERS: dict[str, Callable[[Path, list[Any], list[list[int]]], None]] = {
    "a.obj": write_obj,
    "b.obj": lambda path, v, f: write_obj(path, v, f, "relative"),
    "c.obj": lambda path, v, f: write_obj(path, v, f, "tabs"),
    "d.obj": lambda path, v, f: write_obj(path, v, f, "comments"),
    "e.obj": lambda path, v, f: write_obj(path, v, f, "continued"),
    "f.obj": lambda path, v, f: write_obj(path, v, f, "bom"),
    "g.obj": lambda path, v, f: write_obj(path, v, f, "capitals"),
    "a.off": write_off,
    "b.off": lambda path, v, f: write_off(path, v, f, ""),
    "a.ply": lambda path, v, f: write_ply(path, v, f, binary=False),
    "b.ply": lambda path, v, f: write_ply(path, v, f, binary=True),
}


def surface(shape: Shape) -> tuple[float, float]:
    """Area and volume in the units of the file."""
    a, b, c = (shape.vertices.double() * shape.scale)[shape.faces].unbind(1)
    area = torch.linalg.cross(b - a, c - a).norm(dim=-1).sum() / 2
    return float(area), float((a * torch.linalg.cross(b, c)).sum() / 6)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("outline", [L_SHAPE, DART, STAR], ids=["L", "dart", "star"])
def test_polygons_are_covered_and_nothing_beside_them(
    tmp_path: Path, name: str, outline: Outline
) -> None:
    for first in (0, 2):
        vertices, faces = prism(outline, first)
        WRITERS[name](tmp_path / name, vertices, faces)
        shape = open_shape(str(tmp_path / name))
        area, volume = surface(shape)
        assert area == pytest.approx(area_of(outline), rel=1e-5)
        points = np.array(outline)
        after = np.roll(points, -1, axis=0)
        shoelace = (points[:, 0] * after[:, 1] - points[:, 1] * after[:, 0]).sum() / 2
        assert volume == pytest.approx(shoelace, rel=1e-5)
        assert shape.is_closed
        assert not shape.notes


@pytest.mark.parametrize("name", [*WRITERS, "a.glb", "a.stl"])
def test_meshes_are_read_as_another_reader_does(tmp_path: Path, name: str) -> None:
    assimp = pytest.importorskip("assimp_py", reason="Open Asset Import Library")
    if name in ("b.off", "c.obj", "d.obj", "f.obj", "g.obj"):
        pytest.skip("that reader refuses comments after faces, byte order marks, and tabs before f")
    path = tmp_path / name
    if name in WRITERS:
        # It loses half of a star's lids in OFF.
        WRITERS[name](path, *prism(L_SHAPE if name == "a.off" else STAR))
    else:
        import trimesh

        ball = trimesh.creation.icosphere(2)
        ball.apply_transform(trimesh.transformations.rotation_matrix(0.3, (1, 2, 3), (4, 5, 6)))
        scene = trimesh.Scene()
        scene.add_geometry(ball, transform=trimesh.transformations.scale_matrix(2, (1, 1, 1)))
        scene.add_geometry(ball, transform=trimesh.transformations.translation_matrix((9, 0, 0)))
        (scene if name == "a.glb" else ball).export(path)
    flags = assimp.Process_Triangulate | assimp.Process_PreTransformVertices
    parts = [
        np.asarray(mesh.vertices, float).reshape(-1, 3)[np.asarray(mesh.indices).reshape(-1, 3)]
        for mesh in assimp.import_file(str(path), flags).meshes
    ]
    a, b, c = np.concatenate(parts).transpose(1, 0, 2)
    theirs = (
        np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2,
        (a * np.cross(b, c)).sum() / 6,
    )
    shape = open_shape(str(path))
    area, volume = surface(shape)
    center = np.concatenate(parts).reshape(-1, 3)
    assert shape.center == pytest.approx((center.min(0) + center.max(0)) / 2, abs=1e-4)
    assert (area, volume) == pytest.approx(theirs, rel=1e-4)


def stl(words: str, *, binary: bool = False) -> bytes:
    """A box of 2 x 1 x 1 as triangles, with words at the beginning."""
    vertices, faces = prism([(0, 0), (2, 0), (2, 1), (0, 1)])
    points = np.array(vertices)
    corners = np.array(
        [points[[f[0], f[i], f[i + 1]]] for f in faces for i in range(1, len(f) - 1)]
    )
    if binary:
        kind = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])
        facets = np.zeros(len(corners), kind)
        facets["corners"] = corners
        return words.encode().ljust(80) + struct.pack("<I", len(facets)) + facets.tobytes()
    rows = [f"solid {words}"]
    for triangle in corners:
        rows += ["facet normal 0 0 0", " outer loop"]
        rows += [f"  vertex {x:e} {y:e} {z:e}" for x, y, z in triangle]
        rows += [" endloop", "endfacet"]
    return "\n".join([*rows, f"endsolid {words}"]).encode()


@pytest.mark.parametrize(
    "data",
    [
        stl("a"),
        stl("vertex facet"),
        stl("a").upper(),
        b"\xef\xbb\xbf\n " + stl("a").replace(b"\n", b"\r\n"),
        stl("a", binary=True),
        stl("solid a\nfacet normal", binary=True),
        stl("a", binary=True) + bytes(20),
    ],
    ids=["text", "words", "capitals", "mark", "binary", "solid", "trailing"],
)
def test_stl_is_told_apart_by_its_length_and_not_its_first_word(
    tmp_path: Path, data: bytes
) -> None:
    (tmp_path / "a.stl").write_bytes(data)
    area, volume = surface(open_shape(str(tmp_path / "a.stl")))
    assert area == pytest.approx(10)
    assert volume == pytest.approx(2)


def write_glb(path: Path, file: dict[str, Any], binary: bytes) -> None:
    text = json.dumps({"asset": {"version": "2.0"}, **file}).encode()
    text += b" " * (-len(text) % 4)
    binary += bytes(-len(binary) % 4)
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text
    chunks += struct.pack("<II", len(binary), 0x004E4942) + binary
    path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks)


def box_file(**changes: Any) -> tuple[dict[str, Any], bytes]:
    """Two nodes of a cube of int16 from -1 to 1, one corner of which a sparse accessor gives."""
    vertices, faces = prism([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    positions = np.array(vertices) * (1, 1, 2) - (0, 0, 1)
    triangles = [t for f in faces for t in (f[:3], [f[0], f[2], f[3]])]
    binary = (32767 * positions).astype("<i2").tobytes()
    binary += np.array(triangles, "<u2").tobytes()
    binary += np.array([0], "<u2").tobytes() + (32767 * positions[:1]).astype("<i2").tobytes()
    views = [(0, 48), (48, 72), (120, 2), (122, 6)]
    position = {
        "bufferView": 0,
        "componentType": 5122,
        "count": 8,
        "type": "VEC3",
        "normalized": True,
    }
    index = {"bufferView": 1, "componentType": 5123, "count": 36, "type": "SCALAR"}
    sparse = {
        "count": 1,
        "indices": {"bufferView": 2, "componentType": 5123},
        "values": {"bufferView": 3},
    }
    file: dict[str, Any] = {
        "extensionsUsed": ["KHR_mesh_quantization"],
        "extensionsRequired": ["KHR_mesh_quantization"],
        "scenes": [{"nodes": [0, 1]}],
        "nodes": [
            {"mesh": 0, "scale": [1, 2, 3]},
            {"children": [2], "translation": [10, 0, 0]},
            {"mesh": 0, "matrix": [-1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]},
        ],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        "accessors": [{**position, "sparse": sparse}, index],
        "bufferViews": [{"buffer": 0, "byteOffset": a, "byteLength": b} for a, b in views],
        "buffers": [{"byteLength": 128}],
        **changes,
    }
    return file, binary


def test_normalized_sparse_and_mirrored_parts_of_a_glb_are_in_their_places(tmp_path: Path) -> None:
    write_glb(tmp_path / "a.glb", *box_file())
    shape = open_shape(str(tmp_path / "a.glb"))
    # Boxes of 2 x 4 x 6 and of 2 x 2 x 2, the second one mirrored and 10 away.
    area, volume = surface(shape)
    assert area == pytest.approx(88 + 24, rel=1e-3)
    assert volume == pytest.approx(48 + 8, rel=1e-3)
    assert shape.scale * 1.6 == pytest.approx(12, rel=1e-3)
    # Without the sparse value the corner would be another one.
    file, binary = box_file()
    write_glb(tmp_path / "b.glb", file, binary[:-6] + np.array([0, 0, 0], "<i2").tobytes())
    assert surface(open_shape(str(tmp_path / "b.glb")))[1] < 50


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"extensionsRequired": ["XX_unknown"]}, "needs XX_unknown, which is not read"),
        ({"extensionsRequired": ["KHR_draco_mesh_compression"]}, "compressed by Draco"),
        ({"extensionsUsed": ["EXT_mesh_gpu_instancing"]}, "needs EXT_mesh_gpu_instancing"),
        ({"buffers": [{"byteLength": 128, "uri": "../secret"}]}, "in another file"),
        ({"nodes": [{"children": [1], "mesh": 0}, {"children": [0]}]}, "a node below two others"),
        ({"scenes": [{"nodes": []}]}, "no meshes in its scene"),
        ({"nodes": [{"mesh": 0, "skin": 0}]}, "a skin, whose pose is not computed"),
        ({"nodes": [{"mesh": 0, "weights": [0.5]}]}, "morph targets that are not at rest"),
    ],
)
def test_a_glb_that_needs_what_is_not_read_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    write_glb(tmp_path / "a.glb", *box_file(**changes))
    with pytest.raises(SceneError, match=message):
        open_shape(str(tmp_path / "a.glb"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 0 1 2\n", "vertex 0 in line 4; OBJ counts from 1"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nf -3 -2 -1\nv 0 1 0\n", "vertex -3 in line 3"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n", "faces of vertices that it lacks"),
        ("a.obj", "v 0 0 0\ncstype bspline\nsurf 0 1 0 1 1\n", "free-form surfaces"),
        ("a.stl", "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\n", "is cut"),
        ("a.off", "OFF\n3 2 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n", "is cut: .*1 of 2 faces"),
        ("a.off", "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n4 0 1 2\n", "fewer corners"),
    ],
)
def test_a_mesh_with_a_wrong_number_is_refused_by_it(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SceneError, match=message):
        open_shape(str(tmp_path / name))


def test_a_surface_without_an_inside_is_refused(tmp_path: Path) -> None:
    x, y = np.meshgrid(np.linspace(-1, 1, 12), np.linspace(-1, 1, 12))
    vertices = np.stack([x, y, 0.2 * np.sin(4 * x) * np.cos(3 * y)], -1).reshape(-1, 3).tolist()
    faces = [[i, i + 1, i + 13, i + 12] for i in range(131) if i % 12 < 11]
    write_obj(tmp_path / "a.obj", vertices, faces)
    with pytest.raises(SceneError, match="has no inside: its surface is open"):
        open_shape(str(tmp_path / "a.obj"))
    # A body with a hole, facing inwards, has one.
    box, sides = prism(L_SHAPE)
    write_obj(tmp_path / "b.obj", box, [side[::-1] for side in sides[:-1]])
    notes = open_shape(str(tmp_path / "b.obj")).notes
    assert len(notes) == 2
    assert "flipped" in notes[1]
