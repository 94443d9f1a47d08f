"""Frames of animations and videos; run by the worker, within its limits."""

import itertools
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
import PIL.Image

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.reading.decoding import colors_of, opened, other_format
from nerf_posenc_app.plugins import how_to_install

_USUAL_RATE = 10.0
_MAX_PIXELS = 1 << 27
# What ffmpeg reads a file as, by its bytes at a place. It is never left to guess: a playlist, which
# may have any name, would make it open other files, and it takes any text for a video.
_DEMUXERS = (
    (4, b"ftyp", "mov"),
    (4, b"moov", "mov"),
    (4, b"mdat", "mov"),
    (4, b"wide", "mov"),
    (4, b"free", "mov"),
    (0, b"\x1a\x45\xdf\xa3", "matroska"),
    (8, b"AVI ", "avi"),
    (0, b"OggS", "ogg"),
    (0, b"FLV", "flv"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "asf"),
    (0, b"\0\0\x01\xba", "mpeg"),
    (0, b"\0\0\x01\xb3", "mpegvideo"),
    (0, b"YUV4MPEG2 ", "yuv4mpegpipe"),
    (188, b"\x47", "mpegts"),
    (196, b"\x47", "mpegts"),  # Of cameras, with four bytes before each packet.
)
# A video whose header promises more frames than this share of them is cut; rates may vary.
_WHOLE = 0.9
_PICTURES = 0.5
# The sharpest of this many frames becomes a photograph, since a hand-held camera shakes.
_CANDIDATES = 4


def read_frames(
    path: Path, most: int, size: int, photos_per_second: float | None = None
) -> tuple[npt.NDArray[np.uint8], float]:
    """Read the first frames of a file; what is transparent is laid over white.

    Args:
        path: animated GIF, WebP or PNG; or a video, with imageio-ffmpeg installed.
        most: number of frames that are read.
        size: pixels along the longer side; larger frames are averaged down to it.
        photos_per_second: read that many of a video, each the sharpest of its time; None for all.

    Returns:
        ``(frames, height, width, 3)`` and the frames per second.

    Raises:
        SceneError: If the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(200)
        is_animation = head[8:12] == b"WEBP" or head.startswith((b"GIF8", b"\x89PNG"))
        if is_animation and photos_per_second is None:
            return _animation(path, most, size)
        demuxer = _demuxer(path, head)
        _require_end(path, demuxer, head)
        return _video(path, demuxer, most, size, photos_per_second)
    except (SceneError, MemoryError):
        raise
    except Exception as error:  # Decoders raise nearly every type on a damaged file.
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise SceneError(f"cannot read {path}: {reason}; export it again as GIF or MP4") from None


def _demuxer(path: Path, head: bytes) -> str:
    for start, mark, name in _DEMUXERS:
        # Packets of a transport stream begin alike: 188 is after one, 196 after 4 + 188 + 4.
        is_first = name != "mpegts" or head[4 if start == 196 else 0 :].startswith(mark)
        if head[start:].startswith(mark) and is_first:
            return name
    what = other_format(path)
    raise SceneError(
        f"cannot read {path} as a clip: it is {what or 'neither an animation nor a video'}"
    )


def _require_end(path: Path, demuxer: str, head: bytes) -> None:
    """Raise if a file lacks its end, of formats that ffmpeg reads without a complaint.

    MPEG streams have neither a length nor an end.

    Raises:
        ValueError: If it is cut.
    """
    size = path.stat().st_size
    if demuxer == "avi" and int.from_bytes(head[4:8], "little") + 8 > size:
        raise ValueError(f"it has {size:,} bytes, fewer than its header states: it is truncated")
    if demuxer == "ogg":
        with path.open("rb") as file:
            # A page takes 65,307 bytes at most (RFC 3533).
            file.seek(max(0, size - 65_307))
            tail = file.read()
        last = tail.rfind(b"OggS")
        # The third bit of its sixth byte marks the last page of a stream.
        if last < 0 or len(tail) < last + 6 or not tail[last + 5] & 4:
            raise ValueError("it ends before its last page: it is truncated")


def _reduced(colors: npt.NDArray[np.uint8], size: int) -> npt.NDArray[np.uint8]:
    """RGB of a frame over white, averaged down."""
    if colors.shape[2] == 4 and colors[..., 3].min() == 255:
        colors = colors[..., :3]
    elif colors.shape[2] == 4:
        alpha = colors[..., 3:] / np.float32(255)
        colors = np.rint(colors[..., :3] * alpha + 255 * (1 - alpha)).astype(np.uint8)
    frame = PIL.Image.fromarray(colors)
    scale = size / max(frame.size)
    if scale < 1:
        width, height = (max(1, round(side * scale)) for side in frame.size)
        frame = frame.resize((width, height), PIL.Image.Resampling.BOX)
    return np.asarray(frame)


def _animation(path: Path, most: int, size: int) -> tuple[npt.NDArray[np.uint8], float]:
    durations, frames = [], []
    with opened(path, _MAX_PIXELS, ("GIF", "WEBP", "PNG")) as image:
        # The first image of an animated PNG may be for programs that know no animations.
        first = int(bool(image.info.get("default_image")))
        last = min(first + most, getattr(image, "n_frames", 1))
        for index in range(first, last):
            image.seek(index)
            image.load()  # Of a WebP, which has its duration from then on.
            durations.append(float(image.info.get("duration") or 1000 / _USUAL_RATE))
            frames.append(_reduced(colors_of(image), size))
    # Frames that are shown longer than others have the mean rate.
    return np.stack(frames), 1000 * len(durations) / sum(durations)


def _video(
    path: Path, demuxer: str, most: int, size: int, photos_per_second: float | None
) -> tuple[npt.NDArray[np.uint8], float]:
    try:
        import imageio_ffmpeg
    except ImportError:
        raise SceneError(
            f"{path} is no GIF, WebP or PNG; videos need imageio-ffmpeg: "
            f"{how_to_install('video', companion=True)}"
        ) from None
    together = 1 if photos_per_second is None else _CANDIDATES
    command = [imageio_ffmpeg.get_ffmpeg_exe(), *_asked(path, demuxer, most, photos_per_second)]
    frames = []
    with tempfile.TemporaryFile() as log:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process:
            assert process.stdout is not None
            try:
                images = (_reduced(frame, size) for frame in _pam_images(process.stdout))
                while group := list(itertools.islice(images, together)):
                    frames.append(max(group, key=_sharpness) if together > 1 else group[0])
            finally:
                process.stdout.close()
        log.seek(0)
        said = log.read().decode(errors="replace")
    if process.returncode != 0 or not frames:
        has_no_video = "Input #0" in said and "Video:" not in said
        # The first line says why, after the part of ffmpeg in brackets; or it is a heading.
        reason = re.sub(r"^\[.*?\] ", "", said.split("\n")[0])
        if has_no_video or reason.startswith("Input #"):
            reason = "it has no video" if has_no_video else "it has no frame at that rate"
        raise ValueError(reason if not frames else f"damaged: it ends after {len(frames)} frames")
    if re.search(r"alpha_mode +: 1", said):
        raise ValueError("its transparency is in a separate stream, which is not read")
    fps = re.search(r"^  Stream #.*: Video:.*?([\d.]+)(k?) (?:fps|tbr)", said, re.MULTILINE)
    rate = photos_per_second or (float(fps[1]) * (1000 if fps[2] else 1) if fps else 0.0)
    length = re.search(
        r"^  Duration: (\d+):(\d+):([\d.]+)(?:, start: ([\d.]+))?", said, re.MULTILINE
    )
    if rate and length is not None:
        hours, minutes, seconds, start = (float(part or 0) for part in length.groups())
        promised = round((3600 * hours + 60 * minutes + seconds - start) * rate)
        # The sound may be longer than the video; ffmpeg reports a truncated file.
        is_damaged = re.search(r"prematurely|truncat|partial|corrupt|[Ii]nvalid", said) is not None
        if len(frames) < (_WHOLE if is_damaged else _PICTURES) * min(most, promised):
            raise ValueError(f"it ends after {len(frames)} of {promised} frames: it is truncated")
        if photos_per_second is None and len(frames) < min(most, promised):
            # Frames that are shown longer than others have the mean rate.
            rate = len(frames) / (3600 * hours + 60 * minutes + seconds - start)
    if photos_per_second is not None:
        # In a slow video, several photographs are the same frame.
        pairs = zip(frames[1:], frames, strict=False)
        frames = [frames[0], *(frame for frame, before in pairs if (frame != before).any())]
    return np.stack(frames), rate or _USUAL_RATE


def _asked(path: Path, demuxer: str, most: int, photos_per_second: float | None) -> list[str]:
    """Arguments of ffmpeg that write frames to its output, `_CANDIDATES` for each photograph."""
    # One thread, since each thread holds its own frames.
    source = ["-hide_banner", "-nostdin", "-threads", "1"]
    source += ["-protocol_whitelist", "file", "-f", demuxer, "-i", f"file:{path.resolve()}"]
    count, filters = most, []
    if photos_per_second is not None:
        count, filters = most * _CANDIDATES, [f"fps={_CANDIDATES * photos_per_second}"]
    # Decode each frame once, since rates may vary, and with square pixels.
    filters.append("scale=w='max(1,round(iw*(sar+not(sar))))':h=ih")
    frames = ["-map", "0:V:0", "-frames:v", str(count), "-fps_mode", "passthrough"]
    frames += ["-vf", ",".join(filters), "-pix_fmt", "rgba", "-f", "image2pipe", "-c:v", "pam", "-"]
    return [*source, *frames]


def _sharpness(frame: npt.NDArray[np.uint8]) -> float:
    """Mean square of the differences of neighboring pixels."""
    green = frame[..., 1].astype(np.float32)
    return float(sum(np.square(np.diff(green, axis=axis)).mean() for axis in (0, 1)))


def _pam_images(stream: IO[bytes]) -> Iterator[npt.NDArray[np.uint8]]:
    """RGBA of a stream of PAM images, whose headers are lines of text up to ENDHDR."""
    while stream.readline() == b"P7\n":
        lines = list(itertools.takewhile(lambda line: line not in (b"ENDHDR\n", b""), stream))
        header = dict(line.split(maxsplit=1) for line in lines)
        width, height = int(header[b"WIDTH"]), int(header[b"HEIGHT"])
        data = np.frombuffer(stream.read(4 * width * height), np.uint8)
        yield data.reshape(height, width, 4)
