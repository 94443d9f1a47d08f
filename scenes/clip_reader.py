"""Frames of animations and videos; run by the worker, within its limits."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import PIL.Image

from scenes.errors import SceneError

_ANIMATIONS = (b"GIF8", b"RIFF", b"\x89PNG")
_USUAL_RATE = 10.0


def read_frames(path: Path, most: int, size: int) -> tuple[npt.NDArray[np.uint8], float]:
    """Read the first frames of a file.

    Args:
        path: animated GIF, WebP or PNG; or a video, with imageio-ffmpeg installed.
        most: number of frames that are read.
        size: pixels along the longer side; larger frames are averaged down to it.

    Returns:
        ``(frames, height, width, 3)`` and the frames per second.

    Raises:
        SceneError: If the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            is_animation = file.read(4) in _ANIMATIONS
        frames, rate = _animation(path, most) if is_animation else _video(path)
        reduced = [_reduced(frame, size) for frame in itertools.islice(frames, most)]
    except (SceneError, MemoryError):
        raise
    except Exception as error:  # Decoders raise nearly every type on a damaged file.
        if isinstance(error, OSError) and error.strerror:
            raise SceneError(f"cannot read {path}: {error.strerror}") from None
        # The last line says why; ffmpeg has its version and how it was built before it.
        lines = str(error).split("\n")
        said = next((line for line in reversed(lines) if line.strip()), type(error).__name__)
        reason = " ".join(said.split())[:200]
        raise SceneError(f"cannot read {path}: {reason}; export it anew as GIF or MP4") from None
    return np.stack(reduced), rate


def _reduced(frame: PIL.Image.Image, size: int) -> npt.NDArray[np.uint8]:
    scale = size / max(frame.size)
    if scale < 1:
        width, height = (max(1, round(side * scale)) for side in frame.size)
        frame = frame.resize((width, height), PIL.Image.Resampling.BOX)
    return np.asarray(frame)


def _animation(path: Path, most: int) -> tuple[Iterator[PIL.Image.Image], float]:
    image = PIL.Image.open(path, formats=("GIF", "WEBP", "PNG"))
    durations = []
    for index in range(min(most, getattr(image, "n_frames", 1))):
        image.seek(index)
        durations.append(float(image.info.get("duration") or 1000 / _USUAL_RATE))
    # Frames that are shown longer than others have the mean rate.
    milliseconds = sum(durations) / len(durations)

    def frames() -> Iterator[PIL.Image.Image]:
        for index in range(getattr(image, "n_frames", 1)):
            image.seek(index)
            yield image.convert("RGB")

    return frames(), 1000 / milliseconds


def _video(path: Path) -> tuple[Iterator[PIL.Image.Image], float]:
    try:
        import imageio_ffmpeg
    except ImportError:
        raise SceneError(
            f"{path} is no GIF, WebP or PNG; videos need imageio-ffmpeg: pip install "
            "'nerf_posenc[video]'"
        ) from None
    # No file has others opened over a network.
    reader = imageio_ffmpeg.read_frames(str(path), input_params=["-protocol_whitelist", "file"])
    about = next(reader)

    def frames() -> Iterator[PIL.Image.Image]:
        for data in reader:
            yield PIL.Image.frombytes("RGB", about["size"], data)

    return frames(), float(about["fps"])
