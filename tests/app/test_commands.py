"""Saved fits rendered and exported from the command line."""

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import train_fit
from nerf_posenc.fits import ImageFit, SceneFit, load_fit
from nerf_posenc.training.devices import fastest_dtype
from nerf_posenc_app.commands import render
from nerf_posenc_app.data import open_image
from tests.optional import needs
from tests.small import SMALL_RUN, SMALL_SCENE, quick_report, without_hull


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs ``image`` and ``scene``."""
    folder = tmp_path_factory.mktemp("home")
    image = ["--image", "cat", "--encodings", "none", "hash", *SMALL_RUN, "--video", "0"]
    scene = [*SMALL_SCENE, "--encodings", "fourier"]
    with without_hull(), quick_report():
        for name, options in (("image", image), ("scene", scene)):
            assert train_fit.main([*options, "--quiet", "--out", str(folder / name)]) == 0
    return folder


@pytest.fixture(autouse=True)
def _in_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)


def test_an_image_is_rendered_at_any_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_fit.main(["render", "image", "--size", "100"]) == 0
    # The best fit, without being named.
    assert "rendered hash: wrote image/renders/hash-100x67.png" in capsys.readouterr().out
    fit = load_fit("image/fits/hash.safetensors")
    assert isinstance(fit, ImageFit)
    pixels = np.asarray(Image.open("image/renders/hash-100x67.png")) / 255
    assert np.abs(pixels - fit.render(100).numpy()).max() <= 0.5 / 255 + 1e-5


def test_links_of_a_run_folder_are_not_followed(tmp_path: Path) -> None:
    for name in ("metrics.json", "fits"):
        run = shutil.copytree("image", tmp_path / name)
        (run / name).rename(tmp_path / f"outside {name}")
        (run / name).symlink_to(tmp_path / f"outside {name}")
        command = "compare" if name == "metrics.json" else "render"
        assert train_fit.main([command, str(run)]) == 2
    run = shutil.copytree("image", tmp_path / "loop")
    (run / "original.png").unlink()
    (run / "original.png").symlink_to("original.png")
    assert train_fit.main(["compare", str(run)]) == 2


def test_renders_at_the_same_time_have_their_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    barrier = threading.Barrier(3)
    original = render._write

    def together(*args: Any, **kwargs: Any) -> Path:
        barrier.wait(20)
        return original(*args, **kwargs)

    monkeypatch.setattr(render, "_write", together)
    sizes = (30, 60, 90)
    threads = [
        threading.Thread(
            target=render.render,
            args=(Path("scene"),),
            kwargs=dict(turntable=1, size=size, quiet=True),
        )
        for size in sizes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files = Path("scene/renders").glob("*-view*.png")
    found = [max(open_image(str(file)).size) for file in files]
    assert sorted(found) == [30, 60, 90]
    assert not list(Path("scene/renders").glob(".*"))


def test_it_is_said_which_of_several_fits_was_taken(capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", "taken.png", "--overwrite"]
    assert train_fit.main(["render", "image", *out]) == 0
    note = "note: chose hash of none, hash, the best by PSNR; choose another with --encoding"
    assert note in capsys.readouterr().out
    for named in (["image", "--encoding", "hash"], ["image/fits/hash.safetensors"]):
        assert train_fit.main(["render", *named, *out]) == 0
        assert "note: took" not in capsys.readouterr().out


def test_a_crop_is_a_part_of_the_image() -> None:
    whole, part = ["--out", "whole.png"], ["--crop", "6", "4", "12", "8", "--out", "part.png"]
    for options in (whole, part):
        assert train_fit.main(["render", "image", "--quiet", "--encoding", "none", *options]) == 0
    expected = open_image("whole.png").rgb[4:12, 6:18]
    assert float((open_image("part.png").rgb - expected).abs().max()) <= 1 / 255 + 1e-6
    # A part of a pixel is rendered at any size that is asked for.
    inside = ["--crop", "6.2", "4.3", "0.4", "0.2", "--size", "20", "--out", "inside.png"]
    assert train_fit.main(["render", "image", "--quiet", *inside]) == 0
    assert open_image("inside.png").size == (20, 10)


def test_a_scene_is_rendered_from_cameras_in_a_file() -> None:
    fit = load_fit("scene/fits/fourier.safetensors")
    assert isinstance(fit, SceneFit)
    pose = fit.world_from_camera[0].double().tolist()
    frames = [
        {"transform_matrix": pose},
        {"transform_matrix": pose, "camera_angle_x": 0.5, "w": 12, "h": 9},
    ]
    Path("path.json").write_text(json.dumps({"frames": frames}))
    options = ["render", "scene", "--cameras", "path.json", "--quiet", "--out"]
    assert train_fit.main([*options, "frames"]) == 0
    assert sorted(file.name for file in Path("frames").iterdir()) == ["0000.png", "0001.png"]
    first = open_image("frames/0000.png")
    dtype = fastest_dtype(torch.device("cpu"), is_small=False)
    rendering = fit.render(fit.camera, fit.world_from_camera[0], autocast_dtype=dtype)
    expected = rendering.rgb.clamp(0, 1)
    assert float((first.rgb - expected).abs().max()) <= 0.5 / 255 + 1e-5
    assert open_image("frames/0001.png").size == (12, 9)
    Path("one.json").write_text(json.dumps({"frames": frames[:1]}))
    one = ["render", "scene", "--cameras", "one.json", "--size", "16", "--quiet"]
    assert train_fit.main([*one, "--out", "one.png"]) == 0
    assert open_image("one.png").size == (16, 16)


def test_a_turntable_is_a_video() -> None:
    options = ["render", "scene", "--turntable", "3", "--quiet", "--out", "around.webp"]
    assert train_fit.main(options) == 0
    with Image.open("around.webp") as video:
        assert (video.format, video.size) == ("WEBP", (8, 8))
        assert getattr(video, "n_frames", 1) == 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["image", "scene"])
def test_onnxruntime_gives_the_same_values(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    needs("onnx", "onnxscript", "onnxruntime")
    import onnxruntime

    assert train_fit.main(["export", name, "--overwrite"]) == 0
    path = capsys.readouterr().out.strip().rpartition(" ")[2]
    assert Path(path).parent == Path(name)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    fit = load_fit(f"{name}/fits/{Path(path).stem}.safetensors")
    if isinstance(fit, ImageFit):
        x = torch.rand(1000, 2) * 1.2 - 0.6
        outputs = session.run(None, {"coordinates": x.numpy()})
        expected: tuple[torch.Tensor, ...] = (fit(x),)
    else:
        assert isinstance(fit, SceneFit)
        x = torch.rand(1000, 3) * 2 - 1
        along = torch.nn.functional.normalize(torch.randn(1000, 3), dim=-1)
        outputs = session.run(None, {"positions": x.numpy(), "directions": along.numpy()})
        with torch.no_grad():
            expected = fit.field(x, along)
    for ours, theirs in zip(expected, outputs, strict=True):
        torch.testing.assert_close(torch.from_numpy(theirs), ours, atol=1e-5, rtol=1e-5)


def mistakes() -> dict[str, tuple[list[str], str]]:
    return {
        "no run": (["render", "nowhere"], "there is no folder nowhere"),
        "no fit of this name": (["render", "image", "--encoding", "siren"], "it has hash, none"),
        "a size of nothing": (["render", "image", "--size", "0"], "--size must be 1 to"),
        "a crop outside": (["render", "image", "--crop", "20", "0", "9", "9"], "must lie in"),
        "a crop of a scene": (["render", "scene", "--crop", "0", "0", "1", "1"], "is for an image"),
        "cameras of an image": (["render", "image", "--cameras", "x"], "is for a scene"),
        "cameras that are missing": (["render", "scene", "--cameras", "x.json"], "cannot read"),
        "cameras beside a turntable": (
            ["render", "scene", "--cameras", "x.json", "--turntable", "3"],
            "--cameras and --turntable both set the cameras",
        ),
        "a rate of an image": (["render", "image", "--rate", "3"], "this is the fit of an image"),
        "cameras of no format": (["render", "scene", "--cameras", "bad.json"], "no list of frames"),
        "a file that exists": (["render", "image", "--out", "bad.json"], "exists already"),
        "an image of no format": (["render", "image", "--out", "a.mp3"], "written as .png"),
        "a video of no format": (["render", "scene", "--out", "a.mp3"], "written as .mp4"),
        "a file under a file": (
            ["render", "image", "--out", "bad.json/a.png"],
            "cannot write bad.json",
        ),
        "a size beyond memory": (["render", "image", "--size", "99999"], "--size must be 1 to"),
        "a turntable of an image": (["render", "image", "--turntable", "3"], "is for a scene"),
        "a run of no metrics": (["compare", "image/fits"], "it has no metrics.json"),
        "a file that is no fit": (["export", "bad.json"], "is not a checkpoint"),
        "several images": (["render", "."], "give the folder of one"),
    }


@pytest.mark.parametrize("mistake", sorted(mistakes()))
def test_a_mistake_gets_one_line(mistake: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.json").write_text("{}")
    arguments, message = mistakes()[mistake]
    is_scene = arguments[:2] == ["render", "scene"] and "--cameras" not in arguments
    more = ["--turntable", "2"] if is_scene else []
    assert train_fit.main([*arguments, *more, *(["--quiet"] if "render" in arguments else [])]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.count("\n") == 1


def test_the_size_of_a_rendering_is_known_before() -> None:
    fit = load_fit("image/fits/hash.safetensors")
    assert isinstance(fit, ImageFit)
    for size, window in ((None, None), (50, None), (7, (1, 2, 9, 3)), (None, (0, 0, 5, 8))):
        height, width, _ = fit.render(size, window=window).shape
        assert fit.rendered_size(size, window=window) == (width, height)


def test_a_fit_is_rendered_at_a_multiple_of_its_size() -> None:
    options = ["--encodings", "none", *SMALL_RUN, "--quiet", "--out", "own"]
    assert train_fit.main(["--image", "cat", *options]) == 0
    whole = ["render", "own", "--quiet", "--out"]
    assert train_fit.main([*whole, "a.png", "--scale", "4"]) == 0
    assert train_fit.main([*whole, "b.png", "--size", "96"]) == 0
    assert Path("a.png").read_bytes() == Path("b.png").read_bytes()
    assert train_fit.main([*whole, "c.png", "--scale", "2", "--crop", "0", "0", "8", "4"]) == 0
    with Image.open("c.png") as image:
        assert image.size == (16, 8)
    assert train_fit.main([*whole, "d.png", "--scale", "2", "--size", "9"]) == 2


def test_a_comparison_leaves_out_what_is_no_complete_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, table = tmp_path / "page.html", tmp_path / "table.tex"
    paths = ["image", str(tmp_path), "--out", str(page)]
    assert train_fit.main(["compare", *paths, "--tex", str(table)]) == 0
    said = f"note: {tmp_path} is left out: it is no complete run"
    assert said in capsys.readouterr().out
    assert f"% {said}\n" in table.read_text()
    # A folder of runs is all of them.
    shutil.copytree("image", tmp_path / "runs/one")
    shutil.copytree("image", tmp_path / "runs/two")
    (tmp_path / "runs/latest").symlink_to("two")
    (tmp_path / "runs/two/metrics.json").unlink()
    capsys.readouterr()
    words = ["compare", str(tmp_path / "runs"), "--out", str(tmp_path / "all.html")]
    assert train_fit.main(words) == 0
    printed = capsys.readouterr().out
    assert "one: hash" in printed
    assert f"note: {tmp_path / 'runs/two'} is left out" in printed
    # The page that it wrote is among the files of the next glob.
    assert (
        train_fit.main(["compare", "image", str(page), "--out", str(tmp_path / "next.html")]) == 0
    )
    capsys.readouterr()
    assert train_fit.main(["compare", "image", "--csv", "scores", "--tex", "./scores"]) == 2
    assert "different files" in capsys.readouterr().err
    assert train_fit.main(["compare", "image", "--csv", "missing/scores.csv"]) == 2
    assert "--csv missing/scores.csv cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["help"], ["help", "render"]])
def test_help_is_a_command_too(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert train_fit.main(words) == 0
    assert "--out" in capsys.readouterr().out


def test_an_enlarged_image_with_bands_beyond_its_pixels_is_said_to_be_noise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--encodings", "fourier", *SMALL_RUN, "--quiet", "--bands", "5", "--out", "noisy"]
    assert train_fit.main(["--image", "cat", *options]) == 0
    capsys.readouterr()
    # Band 4 of 24 pixels, 16 pi rad per unit, is beyond their Nyquist frequency of 12 pi.
    for scale, is_said in (("2", True), ("1", False), ("0.5", False)):
        assert train_fit.main(["render", "noisy", "--scale", scale]) == 0
        assert ("those above 4 add noise" in capsys.readouterr().out) == is_said
