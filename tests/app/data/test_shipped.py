"""Images and scenes that ship with the program, and files of the user's that make such."""

import json
import math
from pathlib import Path

import pytest
import torch

from nerf_posenc_app.data import SceneError, open_image, open_scene
from nerf_posenc_app.data.scene_files import scene_in_memory
from nerf_posenc_app.data.shipped import made_by, shipped
from nerf_posenc_app.in_memory import InMemory
from train_fit import main


def test_spokes_are_sines_of_the_angle_down_to_the_frequency_of_nyquist() -> None:
    image = open_image("star", size=256)
    x, y = image.coordinates.unbind(-1)
    radius = torch.hypot(x, y)
    # 48 cycles around: at Nyquist's 64 cycles per unit the circle is 0.75 long.
    shown = (radius > 0.75 / (2 * math.pi) + 1e-4) & (radius < 1)
    expected = 0.5 + 0.5 * torch.cos(48 * torch.atan2(y, x))
    torch.testing.assert_close(image.rgb[..., 0][shown], expected[shown])
    assert bool((image.rgb[(radius < 0.11) | (radius > 1)] == 0.5).all())


def test_rings_reach_the_frequency_of_nyquist_at_the_edge() -> None:
    image = open_image("zone-plate", size=512)
    # Along the row beside the middle the sign of a wave of Nyquist's frequency changes with each
    # pixel; halfway there with every second.
    row = image.rgb[256, :, 0] - 0.5
    signs = row[:-1] * row[1:] < 0
    assert float(signs[-20:].float().mean()) > 0.9
    assert float(signs[374:394].float().mean()) == pytest.approx(0.5, abs=0.1)


def test_noise_has_no_frequency_above_half_of_nyquist() -> None:
    image, share = open_image("bandlimited", size=64), 0.5
    power = torch.fft.fft2(image.rgb[..., 0].double() - 0.5).abs()
    along = torch.fft.fftfreq(64, dtype=torch.float64)
    frequency = (along[:, None].square() + along.square()).sqrt()
    above, below = frequency > share / 2, (frequency > 0) & (frequency <= share / 2)
    assert float(power[above].max()) < 1e-3
    assert float(power[below].mean()) > 1
    assert 0 <= float(image.rgb.min()) <= float(image.rgb.max()) <= 1


def test_a_star_of_too_few_pixels_is_refused() -> None:
    with pytest.raises(SceneError, match="--size of 64"):
        open_image("star", size=32)


FILE = """
import torch
def image(size=20):
    return torch.linspace(0, 1, size).expand(size // 2, size)
"""


def test_a_file_of_the_users_makes_an_image_which_a_resumed_run_needs_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(FILE)
    few = ["--steps", "2", "--width", "8", "--depth", "1", "--quiet", "--video", "0"]
    assert main(["--image", "mine.py", "--size", "16", *few, "--out", "run"]) == 0
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert (metrics["data"]["title"], metrics["data"]["size"]) == ("mine", [16, 8])
    assert metrics["config"]["image"] == "mine.py"
    # No saved run runs code: the values that the file made are in its folder.
    Path("mine.py").write_text("raise SystemExit('it was run')")
    Path("run/metrics.json").unlink()
    assert main(["--resume", "run", "--quiet"]) == 0
    again = json.loads(Path("run/metrics.json").read_text())
    assert again["fits"][0]["psnr_db"] == metrics["fits"][0]["psnr_db"]
    assert again["config"]["image"] == "mine.py"


@pytest.mark.parametrize("name", sorted(shipped("scene")))
def test_a_copy_of_a_scene_that_ships_is_fitted_like_it(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.py"
    copy.write_bytes(shipped("scene")[name].read_bytes())
    made = InMemory(made_by(copy, "scene", 6), "copy.py")
    made.save(tmp_path, "scene")
    expected = open_scene(name, size=6)
    for held in (made, InMemory.load(tmp_path, "scene", "copy.py")):
        scene = scene_in_memory(held.values, size=6)
        assert torch.equal(scene.test.pixels, expected.test.pixels)
        assert scene.notes == expected.notes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "has no function image(size)"),
        ("\n1 / 0", "mine.py, line 2: ZeroDivisionError"),
        ("def image(size): return 'red'", "must be a path or numbers"),
    ],
)
def test_a_file_that_makes_no_image_is_named(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(text)
    assert main(["--image", str(tmp_path / "mine.py"), "--size", "8"]) == 2
    assert said in capsys.readouterr().err


def test_the_home_folder_of_a_path_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.py").write_text(FILE)
    few = ["--steps", "1", "--width", "8", "--depth", "1", "--quiet", "--video", "0"]
    assert main(["--image=~/mine.py", *few, "--out=~/run"]) == 0
    assert main(["render", "~/run", "--scale", "2"]) == 0
    assert list((tmp_path / "run" / "renders").iterdir())
    (tmp_path / "a.png").write_bytes(shipped("image")["cat"].read_bytes())
    assert torch.equal(open_image("~/a.png").rgb, open_image("cat").rgb)
