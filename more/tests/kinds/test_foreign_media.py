"""Clips and sounds as other programs write them: read right, or refused by name."""

import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from nerf_posenc_app.data import SceneError, open_image
from nerf_posenc_kinds.data.captures import video_photos
from nerf_posenc_kinds.data.clips import open_clip
from nerf_posenc_kinds.data.sounds import open_sound
from nerf_posenc_kinds.scan import ScanKind, ScanOptions
from nerf_posenc_kinds.sound_report import wav_bytes
from tests.optional import needs


def test_a_scan_is_empty_where_it_is_transparent(tmp_path: Path) -> None:
    rgba = np.full((16, 16, 4), 200, np.uint8)
    rgba[:, :8, 3], rgba[:, 8:, 3] = 0, 255
    Image.fromarray(rgba).save(tmp_path / "a.png")
    slices = ScanKind(ScanOptions(scan=str(tmp_path / "a.png"))).slices
    assert float(slices[0, :, :8].max()) == 0
    assert float(slices[0, 8, 10]) == pytest.approx(200 / 255)


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
    needs("imageio_ffmpeg")
    import imageio_ffmpeg as ffmpeg

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
    needs("imageio_ffmpeg")
    import imageio_ffmpeg as ffmpeg

    for name, codec in (
        ("a.mkv", "mjpeg"),
        ("a.avi", "mjpeg"),
        ("a.avi", "mpeg4"),
        ("a.ogv", "libtheora"),
    ):
        writer = ffmpeg.write_frames(str(tmp_path / name), (64, 64), fps=10, codec=codec)
        writer.send(None)
        noise = np.random.default_rng(0).integers(0, 256, (20, 64, 64, 3), dtype=np.uint8)
        for frame in noise:
            writer.send(frame)
        writer.close()
        assert len(open_clip(str(tmp_path / name), num_frames=99, size=64).frames) == 20
        data = (tmp_path / name).read_bytes()
        for share in (0.4, 0.75):
            (tmp_path / name).write_bytes(data[: round(share * len(data))])
            reason = r"ends after \d+ (of \d+ )?frames|it is truncated"
            with pytest.raises(SceneError, match=reason):
                open_clip(str(tmp_path / name), num_frames=99, size=64)


def ffmpeg(*arguments: str) -> None:
    needs("imageio_ffmpeg")
    import imageio_ffmpeg

    subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", *arguments], check=True)


def test_frames_of_a_varying_rate_are_each_read_once(tmp_path: Path) -> None:
    source = ["-f", "lavfi", "-i", "testsrc=size=32x24:rate=12:duration=1"]
    later = ["-vf", "setpts='(N+5*gt(N,6)*(N-6))/12/TB'", "-fps_mode", "vfr", "-c:v", "mpeg4"]
    ffmpeg(*source, *later, str(tmp_path / "a.mp4"))
    assert len(open_clip(str(tmp_path / "a.mp4"), num_frames=64, size=32).frames) == 12


def test_the_sharpest_frames_of_a_video_are_its_photographs(tmp_path: Path) -> None:
    # Of four frames each, at 8 a second, one is sharp; its number goes on by one each time.
    source = ["-f", "lavfi", "-i", "testsrc2=size=64x48:rate=8:duration=3"]
    blur = "gblur=sigma=4:enable='not(eq(mod(n,4),mod(floor(n/4),4)))'"
    coded = ["-c:v", "mpeg4", "-q:v", "2"]
    ffmpeg(*source, "-vf", blur, *coded, str(tmp_path / "shaken.mp4"))
    ffmpeg(*source, *coded, str(tmp_path / "still.mp4"))
    said: list[str] = []
    folder = video_photos(tmp_path / "shaken.mp4", tmp_path / "runs", log=said.append)
    whole = open_clip(str(tmp_path / "still.mp4"), num_frames=99, size=64).frames
    photos = sorted(folder.iterdir())
    assert len(photos) == 6
    for i, photo in enumerate(photos):
        difference = (whole - open_image(str(photo)).rgb).abs().mean((1, 2, 3))
        assert int(difference.argmin()) == 4 * i + i % 4
    assert said == [f"frames   6 of {tmp_path / 'shaken.mp4'}, in {folder}"]
    assert video_photos(tmp_path / "shaken.mp4", tmp_path / "runs", log=said.append) == folder
    (tmp_path / "a.gif").write_bytes(b"GIF89a")
    with pytest.raises(SceneError, match="as a clip"):
        video_photos(tmp_path / "a.gif", tmp_path / "runs")


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
    needs("imageio_ffmpeg")
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
    with pytest.raises(SceneError, match="it is truncated: it has 3,200 of 4,000 bytes"):
        open_sound(str(tmp_path / "a.wav"))


def test_sounds_beyond_full_scale_are_written_as_they_are(tmp_path: Path) -> None:
    samples = torch.linspace(-4, 4, 2000)[:, None]
    (tmp_path / "a.wav").write_bytes(wav_bytes(samples, 8000))
    assert torch.equal(open_sound(str(tmp_path / "a.wav")).samples, samples)
    (tmp_path / "b.wav").write_bytes(wav_bytes(samples / 4, 8000))
    found = open_sound(str(tmp_path / "b.wav")).samples
    torch.testing.assert_close(found, samples / 4, atol=1 / 16384, rtol=0)
