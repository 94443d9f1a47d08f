"""Mistakes at the command line: one line that says how to mend them, and nothing written."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import nerf_posenc
import train_fit
from tests.small import SMALL_RUN

pytestmark = pytest.mark.usefixtures("own_folder")


def bad_inputs() -> dict[str, list[str]]:
    return {
        "compare nothing": ["compare"],
        "compare no run": ["compare", "folder"],
        "compare a missing run": ["compare", "no/such/run"],
        "missing file": ["--image", "no/such/file.png"],
        "unknown name": ["--image", "dragon"],
        "unknown scene": ["--scene", "dragon"],
        "folder that is no scene": ["--scene", "folder"],
        "image and images": ["--image", "cat", "--images", "cat"],
        "a folder without images": ["--images", "folder"],
        "image and scene": ["--image", "cat", "--scene", "spheres"],
        "network of an image": ["--scene", "spheres", "--network", "siren"],
        "compiling a scene": ["--scene", "spheres", "--compile"],
        "holding pixels out of a scene": ["--scene", "spheres", "--held-out"],
        "no test views": ["--scene", "spheres", "--test-views", "0"],
        "negative turntable": ["--scene", "spheres", "--turntable", "-1"],
        "negative training video": ["--video", "-1"],
        "training video of one frame": ["--video", "1"],
        "folder": ["--image", "folder"],
        "text": ["--image", "text.png"],
        "truncated": ["--image", "truncated.png"],
        "empty": ["--image", "empty.png"],
        "no bands": ["--bands", "0"],
        "negative bands": ["--bands", "-1"],
        "too many bands": ["--bands", "101"],
        "bands that are no number": ["--bands", "many"],
        "no steps": ["--steps", "0"],
        "no batch": ["--batch-size", "0"],
        "no size": ["--size", "0"],
        "no width": ["--width", "0"],
        "no depth": ["--depth", "0"],
        "negative learning rate": ["--lr", "-1"],
        "learning rate of zero": ["--lr", "0"],
        "negative seed": ["--seed", "-1"],
        "seed of 64 bits": ["--seed", "9223372036854775807"],
        "bad sigma": ["--sigma", "0"],
        "sigma that is no number": ["--sigma", "wide"],
        "automatic sigma of nothing": ["--sigma", "auto", "--encodings", "none"],
        "an automatic encoding among others": ["--encodings", "auto", "fourier"],
        "an automatic encoding of a scene": ["--encodings", "auto", "--scene", "spheres"],
        "an automatic encoding with bands": ["--encodings", "auto", "--bands", "4"],
        "an automatic encoding of many images": ["--encodings", "auto", "--images", "cat"],
        "sigma without gaussian": ["--image", "cat", "--sigma", "3"],
        "bands without fourier": ["--encodings", "none", "--bands", "4"],
        "bands of a scene without fourier": [
            "--scene",
            "spheres",
            "--encodings",
            "none",
            "--bands",
            "4",
        ],
        "two images": ["--image", "cat", "--image", "rocket"],
        "layers of a memory network": ["--sequence", "stories", "--depth", "3"],
        "a folder as an image": ["--image", "."],
        "automatic sigma of a scene": ["--sigma", "auto", "--scene", "spheres"],
        "muon on complex matrices": ["--network", "wire", "--optimizer", "muon"],
        "unknown option": ["--bandz", "3"],
        "unknown encoding": ["--encodings", "magic"],
        "no encoding": ["--encodings"],
        "an encoding twice": ["--encodings", "none", "none"],
        "no such device": ["--device", "cuda:99"],
        "unknown device": ["--device", "abacus"],
        "a device torch knows": ["--device", "xla"],
        "folder under a file": ["--out", "text.png/run"],
        "folder is a file": ["--out", "text.png"],
        "folder nobody can write": ["--out", "/proc/run"],
    }


@pytest.mark.parametrize("mistake", sorted(bad_inputs()))
def test_a_mistake_gets_one_line_status_2_and_writes_nothing(
    mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("folder").mkdir()
    Path("text.png").write_text("not an image\n" * 20)
    Path("empty.png").touch()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 50, 3), np.uint8)).save("w.png")
    Path("truncated.png").write_bytes(Path("w.png").read_bytes()[:3000])
    before = sorted(Path().rglob("*"))
    assert train_fit.main([*bad_inputs()[mistake]]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    # One line, or a box that tyro draws around what is wrong with a value.
    if "full helptext" not in printed.err:
        assert printed.err.count("\n") == 1
        assert printed.err.startswith("train_fit.py: error: ")
        assert len(printed.err) < 400
    assert sorted(Path().rglob("*")) == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_cuda_device_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_fit.main(["--device", "cuda"]) == 2
    assert "not on this machine; available are: " in capsys.readouterr().err


def test_an_unknown_option_is_answered_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    near = {"--band": "--bands", "--encoding": "--encodings", "--parameter": "--parameters"}
    for option, known in near.items():
        assert train_fit.main([option, "3"]) == 2
        printed = capsys.readouterr().err
        assert f"there is no option {option}; did you mean {known}? (see " in printed
    for subject in ([], ["--scene", "spheres"]):
        assert train_fit.main([*subject, "--encodings", "gausian"]) == 2
        assert "no encoding 'gausian'; did you mean gaussian?" in capsys.readouterr().err
    assert train_fit.main(["--encodings", "auto", "--parameters", "5000"]) == 2
    assert "leave out --parameters" in capsys.readouterr().err
    assert train_fit.main(["render", "run", "--encodings", "hash"]) == 2
    assert "did you mean --encoding? (see train_fit.py render --help)" in capsys.readouterr().err


def test_a_live_page_without_its_server_is_a_mistake_that_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert train_fit.main(["--live", *SMALL_RUN]) == 2
    assert "pip install 'nerf_posenc[live]'" in capsys.readouterr().err
    assert not Path("runs").exists()


def test_a_field_that_does_not_take_the_encoding_is_a_mistake_that_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--scene", "spheres", "--field", "nerf", "--encodings", "hash", "--size", "6"]
    assert train_fit.main([*options, "--quiet", "--out", "run"]) == 2
    assert "use --field mlp" in capsys.readouterr().err
    assert not Path("run").exists()


def test_a_rate_that_breaks_the_fit_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    broken = ["--lr", "1e30", "--optimizer", "adam", "--out", "run", "--quiet"]
    assert train_fit.main([*broken, *SMALL_RUN]) == 1
    assert "use a smaller learning rate (--lr)" in capsys.readouterr().err
    assert not Path("run").exists()


def test_a_model_that_does_not_fit_in_memory_is_an_error_of_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # 8 TB of weights.
    vast = ["--width", "1000000", "--encodings", "none", "--out", "run", "--quiet"]
    assert train_fit.main([*vast, "--size", "8", "--steps", "1", "--device", "cpu"]) == 1
    assert "out of memory; use a smaller --batch-size, --width" in capsys.readouterr().err
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compair", "runs/a"], "no command 'compair'; did you mean compare?"),
        (["cat.png"], "to fit it, --image cat.png"),
        (["render"], "train_fit.py render --help"),
    ],
)
def test_a_mistyped_command_is_named(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train_fit.main(arguments) == 2
    assert words in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_fit.main(["--version"]) == 0
    assert nerf_posenc.__version__ in capsys.readouterr().out


def test_a_large_image_is_refused_by_a_reference_that_takes_minutes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.kinds.image.defaults.MAX_PATCH_PIXELS", 1 << 8)
    arguments = ["--image", "cat", "--held-out", "--references", "patch-network", "--out", "run"]
    assert train_fit.main([*arguments, "--size", "64"]) == 2
    error = capsys.readouterr().err
    assert "reduce it by --size, or leave the reference out" in error
    assert error.count("\n") == 1
    assert not Path("run").exists()


def test_an_option_of_another_kind_is_refused_with_the_kind_that_has_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cases = {
        "--image, not for --scene": ["--scene", "spheres", "--held-out"],
        "--scene, not for --sequence": ["--sequence", "docstrings", "--turntable", "3"],
        "--sequence, not for --image": ["--image", "cat", "--beam", "2"],
    }
    for words, arguments in cases.items():
        assert train_fit.main(arguments) == 2
        assert f"{arguments[2]} is for {words} (see train_fit.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bands", "six"], "Error parsing --bands"),
        (["--lr", "high"], "Error parsing --lr"),
        (["--steps", "6", "10"], "an option takes one value, unless --help shows several"),
        (["--scene", "spheres", "--bands", "6", "10"], "'10' belongs to no option"),
        (["--scene", "scene/transforms.json"], "give the folder of the scene: scene"),
        (["compare", "nowhere"], "there is no folder nowhere"),
    ],
)
def test_a_mistyped_value_is_answered_in_plain_words(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("scene").mkdir()
    Path("scene/transforms.json").write_text("{}")
    assert train_fit.main(arguments) == 2
    assert message in capsys.readouterr().err
