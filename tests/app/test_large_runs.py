"""Runs of images of many pixels: their defaults, and a whole run."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

import train_fit
from nerf_posenc.images import Image
from nerf_posenc_app.kinds.image.defaults import default_length, defaults_for, longer_than_on_cpu
from nerf_posenc_app.kinds.image.image import ImageKind
from nerf_posenc_app.kinds.image.options import ImageConfig, ImageOptions
from nerf_posenc_app.runs.saved import read_metrics
from tests.test_large_images import any_is_large as any_is_large
from tests.test_large_images import pixels

pytestmark = pytest.mark.usefixtures("own_folder")

MEGAPIXEL = 1 << 20


def resolved(num_pixels: int, resolution: int, **options: Any) -> ImageConfig:
    # One pixel that is seen many times takes no memory.
    height = max(1, num_pixels // resolution)
    rgb = torch.zeros(1, 1, 3, dtype=torch.uint8).expand(height, resolution, 3)
    options = {"device": "cpu", "quiet": True, **options}
    return with_defaults(ImageOptions(**options), Image.from_rgb(rgb))


def with_defaults(options: ImageOptions, image: Image) -> ImageConfig:
    return ImageKind.with_defaults(options, **defaults_for(options, image))


def test_small_images_keep_their_defaults() -> None:
    for num_pixels in (1, MEGAPIXEL):
        found = resolved(num_pixels, 1024)
        assert (found.steps, found.batch_size) == (600, 8192)
        assert found.num_bands == 9
        assert found.encodings == ("none", "fourier", "hash")


def test_the_defaults_of_large_images_grow_with_their_pixels() -> None:
    lengths = [default_length(n * MEGAPIXEL, on_cpu=True) for n in (1, 2, 4, 5, 12, 24, 58)]
    drawn = [steps * batch_size for steps, batch_size in lengths]
    assert drawn == sorted(drawn)
    assert lengths[2] == (1200, 8192)
    assert lengths[-2] == (1470, 32768)
    assert default_length(4 * MEGAPIXEL, on_cpu=False) == (4000, 65536)


def test_a_longer_default_of_a_gpu_names_that_of_a_cpu() -> None:
    image = Image.from_rgb(torch.zeros(8, 8, 3))
    on_gpu = with_defaults(ImageOptions(device="cuda"), image)
    assert "--steps 600 --batch-size 8192" in (longer_than_on_cpu(on_gpu, image) or "")
    assert longer_than_on_cpu(replace(on_gpu, steps=700), image) is None
    assert longer_than_on_cpu(with_defaults(ImageOptions(device="cpu"), image), image) is None
    # 2^12 pi is more than three quarters of the Nyquist frequency of 10800 pixels, 5400 pi.
    assert resolved(58 * MEGAPIXEL, 10800).num_bands == 12


def test_raw_coordinates_are_left_out_of_many_megapixels_unless_named() -> None:
    found = resolved(9 * MEGAPIXEL, 4000)
    assert found.encodings == ("fourier", "hash")
    found = resolved(8 * MEGAPIXEL, 4000)
    assert found.encodings == ("none", "fourier", "hash")
    assert resolved(9 * MEGAPIXEL, 4000, encodings=("none",)).encodings == ("none",)
    assert resolved(9 * MEGAPIXEL, 4000, num_bands=5).encodings == ("fourier",)


def test_a_large_run_has_tiles_and_is_compared(any_is_large: None, tmp_path: Path) -> None:
    image = pixels(60, 90).numpy()
    PIL.Image.fromarray(image).save("a.png")
    run = ["--image", "a.png", "--encodings", "fourier"]
    command = [*run, "--width", "16", "--depth", "2", "--bands", "4", "--steps", "20"]
    command += ["--quiet", "--video", "2"]
    assert train_fit.main([*command, "--out", "run"]) == 0
    (fit,) = json.loads(Path("run/metrics.json").read_text())["fits"]
    kept = np.asarray(PIL.Image.open("run/fourier.png")) / 255
    error = ((kept - image / 255) ** 2).mean()
    assert fit["psnr_db"] == pytest.approx(-10 * np.log10(error), abs=0.05)
    np.testing.assert_array_equal(np.asarray(PIL.Image.open("run/original.png")), image)
    assert Path("run/tiles/original/0-0-0.jpg").is_file()
    assert Path("run/tiles/fourier/0-0-0.jpg").is_file()
    assert '"width": 90' in Path("run/report.html").read_text()
    assert list(read_metrics(Path("run")).complete_fits()) == ["fourier"]
    assert train_fit.main(["--resume", "run"]) == 0
    assert train_fit.main(["compare", "run", "--out", "page.html"]) == 0


def test_no_memory_for_an_image_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("nerf_posenc_app.data.image_files.read_image", no_memory)
    PIL.Image.fromarray(pixels(4, 4).numpy()).save("a.png")
    assert train_fit.main(["--image", "a.png"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "out of memory" in error
