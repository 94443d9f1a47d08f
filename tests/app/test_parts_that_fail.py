"""Runs outlive what comes before and after their fits: references, figures, pages, videos."""

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import PIL.Image
import pytest

import train_fit
from tests.optional import needs
from tests.small import SMALL_RUN, SMALL_SCENE, quick_report, without_hull, write_noise

pytestmark = pytest.mark.usefixtures("own_folder")

ONE_FIT = [*SMALL_RUN, "--encodings", "fourier", "--out", "run"]


def fail(*_: Any, **__: Any) -> None:
    raise ValueError("no font\nTraceback of a library")


def row(name: str) -> None:
    """A mask with one row of pixels."""
    pixels = np.zeros((16, 24), np.uint8)
    pixels[5] = 255
    PIL.Image.fromarray(pixels).save(name)


def line(name: str) -> None:
    """An image of one row."""
    PIL.Image.fromarray(np.arange(0, 240, 4, dtype=np.uint8)[None]).save(name)


@pytest.mark.parametrize(
    ("words", "make", "reference"),
    [
        (["--observed", "columns:0.03"], None, "linear"),
        (["--observed", "columns:0.03", "--references", "rbf"], None, "rbf"),
        (["--observed", "mask.png"], row, "linear"),
        (["--observed", "0.5"], line, "linear"),
    ],
)
def test_references_that_do_not_exist_are_noted(
    words: list[str],
    make: Callable[[str], None] | None,
    reference: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_noise()
    if make is not None:
        make("noise.png" if make is line else "mask.png")
    with quick_report():
        assert train_fit.main(["--image", "noise.png", *words, *ONE_FIT]) == 0
    assert f"no {reference} to compare with: the fitted pixels lie on one line" in (
        capsys.readouterr().out
    )
    assert json.loads(Path("run/metrics.json").read_text())["fits"][0]["name"] == "fourier"


def test_no_step_is_taken_before_the_references(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*_: Any) -> dict[str, Callable[[], Any]]:
        def compute() -> None:
            raise KeyboardInterrupt

        return {"slow": compute}

    write_noise()
    monkeypatch.setattr("nerf_posenc_app.kinds.image.image.ImageKind.references", ended)
    assert train_fit.main(["--image", "noise.png", *ONE_FIT]) == 130
    assert not Path("run").exists()


def test_masks_that_leave_no_held_out_pixel_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write_noise()
    pixels = np.zeros((16, 24), np.uint8)
    pixels[4, 4] = 255
    PIL.Image.fromarray(pixels).save("mask.png")
    words = ["--image", "noise.png", "--mask", "mask.png", "--held-out", *ONE_FIT]
    assert train_fit.main(words) == 2
    assert "the mask leaves 1 pixels to fit and 0 held out" in capsys.readouterr().err


OUTPUTS = "nerf_posenc_app.report.outputs."


@pytest.mark.parametrize(
    "part",
    [
        *(OUTPUTS + name for name in ("_write_views", "_write_videos", "write_training_video")),
        *(OUTPUTS + name for name in ("save_comparison", "save_charts", "_write_figures")),
        OUTPUTS + "write_page",
        "nerf_posenc_app.kinds.image.image.ImageKind.notes",
        "nerf_posenc_app.kinds.image.image.reference_result",
        "torch.utils.tensorboard.SummaryWriter.add_scalar",
        "torch.utils.tensorboard.SummaryWriter.close",
    ],
)
def test_a_part_that_fails_leaves_the_others(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_noise()
    words = ["--figures", "--held-out", "--references", "bilinear"]
    if "tensorboard" in part:
        needs("tensorboard")
        words.append("--tensorboard")
    with mock.patch(part, side_effect=fail):
        assert train_fit.main(["--image", "noise.png", *ONE_FIT, *words]) == 0
    said = capsys.readouterr()
    assert "no font" in said.out + said.err
    assert "Traceback" not in said.out + said.err
    assert "fourier" in said.out
    assert json.loads(Path("run/metrics.json").read_text())["fits"][0]["psnr_db"] > 0
    is_page = part.endswith("write_page")
    assert Path("run/report.html").exists() != is_page
    if part.startswith(OUTPUTS) and not is_page:
        assert "no font" in Path("run/report.html").read_text()
    assert ("; open run/report.html" in said.out) != is_page


@pytest.mark.parametrize(
    ("part", "named"),
    [("make_volume", "further views of fourier"), ("SceneKind._turntable", "turntable of fourier")],
)
def test_fields_are_scored_without_their_orbits(part: str, named: str) -> None:
    words = [*SMALL_SCENE, "--turntable", "2", "--encodings", "fourier", "--out", "run"]
    with without_hull(), mock.patch(f"nerf_posenc_app.kinds.scene.scene.{part}", side_effect=fail):
        assert train_fit.main(words) == 0
    assert f"The {named} could not be made: no font" in Path("run/report.html").read_text()


def test_a_full_disk_is_an_error_that_keeps_the_fits(capsys: pytest.CaptureFixture[str]) -> None:
    write_noise()
    full = OSError(errno.ENOSPC, "No space left on device")
    with mock.patch(OUTPUTS + "write_page", side_effect=full):
        assert train_fit.main(["--image", "noise.png", *ONE_FIT]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert not Path("run/metrics.json").exists()
    assert train_fit.main(["--resume", "run"]) == 0
    assert Path("run/metrics.json").exists()
