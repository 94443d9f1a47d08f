"""Clips: files against what was written, places and times against closed forms, whole runs."""

from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import pytest
import torch
from PIL import Image

import train_fit
from nerf_posenc_kinds.clip import ClipKind, ClipOptions, frame_points, frame_times
from nerf_posenc_kinds.data.clips import open_clip, turning_spheres

pytestmark = pytest.mark.usefixtures("own_folder")

QUICK = ["--steps", "12", "--batch-size", "256", "--width", "16", "--video", "0", "--quiet"]


def write_clip(name: str, frames: int = 6, height: int = 16, width: int = 24) -> np.ndarray:
    """A bar that moves by a column each frame, on a ramp."""
    pixels = np.zeros((frames, height, width, 3), np.uint8)
    pixels[..., 1] = np.linspace(0, 200, height, dtype=np.uint8)[:, None]
    for frame in range(frames):
        pixels[frame, :, 2 * frame : 2 * frame + 2] = (250, 40, 40)
    options: dict[str, Any] = {"fps": 10} if name.endswith("mp4") else {"duration": 100, "loop": 0}
    iio.imwrite(name, pixels, **options)
    return pixels


@pytest.mark.parametrize(("name", "error"), [("a.png", 0), ("a.gif", 12), ("a.mp4", 40)])
def test_frames_and_their_rate_are_those_that_were_written(name: str, error: int) -> None:
    written = write_clip(name, height=32, width=48)
    clip = open_clip(name, num_frames=100, size=100)
    assert clip.frames.shape == written.shape
    assert clip.rate == pytest.approx(10, rel=0.01)
    difference = (255 * clip.frames.numpy() - written.astype(float)).round()
    assert np.abs(difference).mean() <= error


def test_frames_that_are_shown_longer_than_others_have_the_mean_rate() -> None:
    frames = [Image.new("RGB", (8, 8), (60 * i, 0, 0)) for i in range(4)]
    frames[0].save("a.gif", save_all=True, append_images=frames[1:], duration=[50, 200, 50, 100])
    assert open_clip("a.gif", num_frames=9, size=8).rate == pytest.approx(10)


def test_frames_are_averaged_down_and_cut_to_those_that_are_asked_for() -> None:
    written = write_clip("a.png", height=32, width=48)
    clip = open_clip("a.png", num_frames=3, size=12)
    means = written[:3].reshape(3, 8, 4, 12, 4, 3).mean((2, 4)) / 255
    torch.testing.assert_close(clip.frames, torch.from_numpy(means).float(), atol=0.004, rtol=0)


def test_places_and_times_are_those_of_the_conventions() -> None:
    assert frame_times(4) == [-0.75, -0.25, 0.25, 0.75]
    points = frame_points(4, 2, 0.5).view(2, 4, 3)
    assert points[0, :, 0].tolist() == [-0.75, -0.25, 0.25, 0.75]
    assert points[:, 0, 1].tolist() == [-0.25, 0.25]
    assert bool((points[..., 2] == 0.5).all())
    write_clip("a.gif")
    kind = ClipKind(ClipOptions(clip="a.gif"))
    # A pixel of the clip and its row of coordinates have the same number.
    at = (2 * 16 + 5) * 24 + 7
    assert kind.points[at].tolist() == pytest.approx([-9 / 24, -5 / 24, frame_times(6)[2]])
    assert torch.equal(kind.clip.frames.view(-1, 3)[at], kind.clip.frames[2, 5, 7])


def test_the_built_in_spheres_turn_once() -> None:
    frames = turning_spheres(4, 16)
    assert frames.shape == (4, 16, 16, 3)
    steps = (frames - frames.roll(1, 0)).abs().mean((1, 2, 3))
    assert bool((steps > 0.005).all())
    assert steps.max() < 3 * steps.min()


def test_a_clip_is_rendered_at_other_sizes_and_frame_rates() -> None:
    write_clip("a.gif")
    assert train_fit.main(["--clip", "a.gif", *QUICK, "--encodings", "hash", "--out", "run"]) == 0
    for name, more in {"own": [], "other": ["--rate", "20", "--size", "12"]}.items():
        assert train_fit.main(["render", "run", "--quiet", *more, "--out", name]) == 0
    own, other = (sorted(Path(name).glob("*.png")) for name in ("own", "other"))
    assert (len(own), iio.imread(own[0]).shape) == (6, (16, 24, 3))
    assert (len(other), iio.imread(other[0]).shape) == (12, (8, 12, 3))
