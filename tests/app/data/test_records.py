"""What image files hold, written by other libraries: light, opacity, windows, missing pixels."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from nerf_posenc.images import Image, MuLaw
from nerf_posenc_app.data import SceneError, open_image, open_scene
from nerf_posenc_app.data.image_files import read_mask, stored_pixels
from nerf_posenc_app.data.reading.decoding import read_pixels
from nerf_posenc_app.data.reading.record import Decoded
from tests.corpora import scene_corpus
from tests.optional import needs

LIGHT = np.random.default_rng(1).uniform(0, 3, (6, 8, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def exr(channels: dict[str, Any], **header: Any) -> Path:
    needs("OpenEXR")
    import OpenEXR

    basic = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
    planes = {name: np.ascontiguousarray(values) for name, values in channels.items()}
    OpenEXR.File({**basic, **header}, planes).write("a.exr")
    return Path("a.exr")


def record(path: Path) -> Decoded:
    values, opacity, has_value, facts = read_pixels(path, 10**6)
    return Decoded(
        values, opacity, has_value, facts["is_light"], facts["orientation"], tuple(facts["dropped"])
    )


def light_of(image: Image) -> torch.Tensor:
    assert image.tone is not None
    return image.tone.light(image.pixels)


def test_a_gray_exr_is_gray_of_its_own_size() -> None:
    found = record(exr({"Y": LIGHT[..., 0], "A": np.full((6, 8), 0.5, np.float32)}))
    # Channels of OpenEXR are multiplied by their opacity.
    np.testing.assert_allclose(found.values, 2 * LIGHT[..., :1], rtol=1e-6)
    assert found.opacity is not None
    assert (found.opacity == 0.5).all()
    assert found.is_light
    image = open_image("a.exr")
    assert image.size == (8, 6)
    torch.testing.assert_close(
        light_of(image), torch.from_numpy(LIGHT[..., :1] + 0.5).expand(-1, -1, 3), rtol=1e-4, atol=0
    )


@pytest.mark.parametrize("others", [("RY", "BY"), ("X", "Z")])
def test_luminance_beside_other_channels_is_refused(others: tuple[str, str]) -> None:
    path = exr(dict.fromkeys(("Y", *others), LIGHT[..., 0]))
    with pytest.raises(SceneError, match="luminance beside"):
        record(path)


def test_the_display_window_of_an_exr_is_shown() -> None:
    data, display = ((2, 1), (9, 6)), ((0, 0), (11, 7))
    found = record(exr({"RGB": LIGHT}, dataWindow=data, displayWindow=display))
    expected = np.zeros((8, 12, 3), np.float32)
    expected[1:7, 2:10] = LIGHT
    np.testing.assert_array_equal(found.values, expected)
    overscan = ((0, 0), (7, 5)), ((2, 1), (5, 3))
    found = record(exr({"RGB": LIGHT}, dataWindow=overscan[0], displayWindow=overscan[1]))
    np.testing.assert_array_equal(found.values, LIGHT[1:4, 2:6])


def test_the_part_of_an_exr_with_colors_is_read_and_the_others_are_named() -> None:
    needs("OpenEXR")
    import OpenEXR

    kind = {"type": OpenEXR.scanlineimage}
    parts = [({"Z": LIGHT[..., 0]}, "depth"), ({"RGB": LIGHT}, "beauty"), ({"RGB": LIGHT}, "glow")]
    OpenEXR.File([OpenEXR.Part({"name": n, **kind}, c) for c, n in parts]).write("a.exr")
    found = record(Path("a.exr"))
    np.testing.assert_array_equal(found.values, LIGHT)
    assert set(found.dropped) == {"the part depth", "the part glow"}
    assert "not read: the part depth, the part glow" in open_image("a.exr").notes


def test_light_stays_light_at_any_exposure() -> None:
    medians = []
    for exposure in (1.0, 0.1):
        image = open_image(str(exr({"RGB": exposure * LIGHT})))
        assert image.tone is not None
        medians.append(float(image.pixels.median()))
    assert medians[0] == pytest.approx(medians[1], abs=1e-5)


def test_radiance_files_say_their_exposure_and_color_space() -> None:
    needs("imagecodecs")
    import imagecodecs

    data = imagecodecs.rgbe_encode(LIGHT, header=True)
    plain = imagecodecs.rgbe_decode(data)
    head, size, rest = data.partition(b"\n\n-Y")
    for lines, factor in (
        (b"EXPOSURE=4", [4.0]),
        (b"EXPOSURE=2\nEXPOSURE= 3", [6.0]),
        (b"COLORCORR=2 1 4", [2.0, 1.0, 4.0]),
    ):
        Path("a.hdr").write_bytes(head + b"\n" + lines + size + rest)
        found = record(Path("a.hdr")).values
        np.testing.assert_allclose(found, plain / np.array(factor, np.float32), rtol=1e-6)
    ends = (head.replace(b"\n", b"\r\n") + b"\r\n\r\n-Y" + rest.replace(b"\n", b"\r\n", 1), plain)
    Path("a.hdr").write_bytes(ends[0])
    np.testing.assert_array_equal(record(Path("a.hdr")).values, ends[1])
    Path("a.hdr").write_bytes(data.replace(b"_rle_rgbe", b"_rle_xyze"))
    with pytest.raises(SceneError, match="XYZ colors"):
        record(Path("a.hdr"))


def test_associated_alpha_of_light_is_not_cut_at_1() -> None:
    needs("tifffile")
    rgba = np.concatenate([LIGHT * 0.5, np.full((6, 8, 1), 0.5, np.float32)], -1)
    import tifffile

    tifffile.imwrite("a.tif", rgba, photometric="rgb", extrasamples=["assocalpha"])
    np.testing.assert_allclose(record(Path("a.tif")).values, LIGHT, rtol=1e-6)


def test_missing_pixels_are_neither_fitted_nor_scored() -> None:
    values = LIGHT / 3
    values[2, 3, 1] = np.nan
    np.save("a.npy", values)
    image = open_image("a.npy")
    assert image.weights is not None
    assert image.num_fitted == 47
    assert image.weights[2, 3] == 0
    assert "1 pixels have no value (NaN), and are neither fitted nor scored" in image.notes
    np.save("a.npy", np.full_like(LIGHT, np.nan))
    with pytest.raises(SceneError, match="all pixels are NaN"):
        open_image("a.npy")


def test_frames_and_profiles_that_are_not_used_are_named() -> None:
    frames = [Pillow.fromarray(np.full((4, 4, 3), value, np.uint8)) for value in (0, 90, 200)]
    frames[0].save("a.webp", save_all=True, append_images=frames[1:], lossless=True)
    assert "not read: 2 further frames" in open_image("a.webp").notes
    from PIL import ImageCms

    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    wide = lab.replace("sRGB".encode("utf-16-be"), "Wide".encode("utf-16-be"))
    frames[1].save("b.png", icc_profile=wide)
    assert any("color profile" in note for note in open_image("b.png").notes)
    frames[1].save("c.png", icc_profile=lab)
    assert open_image("c.png").notes == ()


@pytest.mark.parametrize("text", [b"P2\n3 1\n100\n33 0 100\n", b"P5\n3 1\n100\n\x21\x00\x64"])
def test_a_pgm_is_in_shares_of_its_largest_value(text: bytes) -> None:
    Path("a.pgm").write_bytes(text)
    torch.testing.assert_close(open_image("a.pgm").rgb[0, :, 0], torch.tensor([0.33, 0.0, 1.0]))


def test_masks_have_one_rule_and_transparency_is_refused() -> None:
    kept = np.zeros((4, 6), bool)
    kept[:, :3] = True
    for values in (255 * kept, 200 * kept + 11 * ~kept, 1 * kept, 65535 * kept):
        dtype = np.uint16 if values.max() > 255 else np.uint8
        iio.imwrite("m.png", values.astype(dtype))
        assert torch.equal(read_mask(Path("m.png"), "m"), torch.from_numpy(kept))
    black = np.zeros((4, 6, 4), np.uint8)
    black[..., 3] = 255 * kept
    iio.imwrite("m.png", black)
    with pytest.raises(SceneError, match=r"m\.png has transparent pixels"):
        read_mask(Path("m.png"), "m.png")
    iio.imwrite("m.png", np.stack([255 * kept, 0 * kept, 0 * kept], -1).astype(np.uint8))
    with pytest.raises(SceneError, match="has colors"):
        read_mask(Path("m.png"), "m.png")


def test_a_mask_in_jpeg_is_black_and_white() -> None:
    kept = np.zeros((48, 64), bool)
    kept[10:37, 9:51] = True
    values = np.stack([255 * kept] * 3, -1).astype(np.uint8)
    values[kept.nonzero()] -= np.array([0, 5, 9], np.uint8)
    iio.imwrite("m.jpg", values, quality=60)
    assert not (iio.imread("m.jpg") == iio.imread("m.jpg")[..., :1]).all()
    assert torch.equal(read_mask(Path("m.jpg"), "m"), torch.from_numpy(kept))


def test_views_keep_their_opacity_and_light_is_encoded() -> None:
    rgba = np.concatenate([LIGHT / 6, np.full((6, 8, 1), 0.5, np.float32)], -1)
    pixels, found = stored_pixels(exr({"RGBA": rgba}))
    assert found.is_light
    assert pixels.shape == (6, 8, 4)
    linear = LIGHT / 3
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    np.testing.assert_allclose(pixels[..., :3], encoded, atol=1e-6)


@pytest.mark.parametrize(
    "place", ["masks/{stem}.jpg", "MASK/{stem}.PNG", "masks/images/{name}.png"]
)
def test_masks_beside_images_are_found_by_every_path(place: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(scene_corpus()["transforms"], tmp_path / "turntable"))
    images = sorted((folder / "images").iterdir())
    for image in images:
        with Pillow.open(image) as opened:
            width, height = opened.size
        mask = np.zeros((height, width), np.uint8)
        mask[:, : width // 2] = 255
        file = folder / place.format(stem=image.stem.upper(), name=image.name)
        file.parent.mkdir(parents=True, exist_ok=True)
        Pillow.fromarray(mask).save(file, quality=60)
    (tmp_path / "link").symlink_to(folder)
    for name in (str(folder), "turntable", "./turntable", "link"):
        scene = open_scene(name)
        assert scene.train.masks is not None, name
        assert float(scene.train.masks.float().mean()) == pytest.approx(0.5, abs=0.05)
        assert any("views have masks" in note for note in scene.notes)
    shutil.rmtree(folder / place.split("/")[0])
    (folder / "masks").mkdir()
    assert any("not read: masks/" in note for note in open_scene("turntable").notes)


def test_means_of_light_are_of_light_under_a_mask_too() -> None:
    grid = np.where(np.indices((32, 32)).sum(0) % 2, 1000, 0.1).astype(np.float32)
    image = Image.from_rgb(torch.from_numpy(grid)[..., None].expand(-1, -1, 3).contiguous())
    white = torch.ones(32, 32)
    for tone in (None, MuLaw(1000.0)):
        light = image if tone is None else image.tone_mapped(tone)
        weighted = replace(light, weights=white)
        small = weighted.resized(16)
        found = small.pixels if tone is None else tone.light(small.pixels)
        torch.testing.assert_close(found.mean(), torch.tensor(500.05), rtol=1e-4, atol=0)


def test_a_masked_sun_does_not_set_the_scale() -> None:
    sun = torch.full((8, 8, 3), 2.0)
    sun[0, 7] = 1e5
    weights = torch.ones(8, 8)
    weights[:, 4:] = 0
    found = Image(
        **{**vars(Image.from_rgb(sun)), "weights": weights, "is_light": True}
    ).tone_mapped()
    assert found.tone is not None
    assert found.tone.peak == 2.0


def test_a_quaternion_of_length_0_is_no_pose(tmp_path: Path) -> None:
    needs("pycolmap")
    model = tmp_path / "sparse" / "0"
    model.mkdir(parents=True)
    (tmp_path / "images").mkdir()
    lines = []
    for i in range(3):
        iio.imwrite(tmp_path / "images" / f"{i}.png", np.zeros((48, 64, 3), np.uint8))
        quaternion = "0 0 0 0" if i == 1 else "1 0 0 0"
        lines.append(f"{i + 1} {quaternion} 0 0 3 1 {i}.png\n\n")
    (model / "cameras.txt").write_text("1 PINHOLE 64 48 75 75 32 24\n")
    (model / "images.txt").write_text("".join(lines))
    (model / "points3D.txt").write_text("")
    with pytest.raises(SceneError, match=r"the quaternion of 1\.png has length 0, not 1"):
        open_scene(str(tmp_path))
