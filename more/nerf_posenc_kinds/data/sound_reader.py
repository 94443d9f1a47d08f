"""Samples of sound files; run by the worker, within its limits."""

import io
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.reading.decoding import other_format
from nerf_posenc_app.plugins import how_to_install

_HEADS = (b"RIFF", b"RIFX", b"RF64", b"fLaC", b"OggS")
# Larger sizes were written by a program that did not know the length.
_OF_PIPES = 0x7FFFF000


def read_samples(
    path: Path, most: int, duration: float | None
) -> tuple[npt.NDArray[np.float32], int]:
    """Read the samples of a file.

    Integers are divided by the largest value of their type.

    Args:
        path: WAV, FLAC or OGG file.
        most: a sound of more samples is refused.
        duration: seconds from the beginning; None for all of it.

    Returns:
        ``(samples, channels)`` and the samples per second.

    Raises:
        SceneError: If the file cannot be read.
    """
    try:
        import soundfile
    except ImportError:
        raise SceneError(
            f"{path}: sounds need soundfile: {how_to_install(companion=True)}"
        ) from None
    try:
        with path.open("rb") as file:
            head = file.read(12)
            if head[:4] not in _HEADS or head[8:12] in (b"AVI ", b"WEBP"):
                name = other_format(path) or "not a WAV, FLAC or OGG file; convert it to WAV"
                raise SceneError(f"cannot read {path} as a sound: it is {name}")
            with soundfile.SoundFile(_repaired(file, head)) as sound:
                rate, channels = sound.samplerate, sound.channels
                if not 1 <= rate <= 1_000_000 or channels > 2:
                    raise SceneError(
                        f"{path} has {rate:,} samples per second of {channels} channels; mono and "
                        "stereo of up to 1,000,000 are read"
                    )
                count = sound.frames
                if duration is not None:
                    count = min(count, max(1, round(duration * rate)))
                if count > most:
                    raise SceneError(
                        f"{path} has {count:,} samples, over {most:,}; add --duration 10"
                    )
                return sound.read(count, dtype="float32", always_2d=True), rate
    except (SceneError, MemoryError):
        raise
    except OSError as error:
        raise SceneError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # Readers raise nearly every type on a damaged file.
        said = str(error).rpartition(">: ")[2]  # soundfile names what it opened.
        reason = " ".join(said.split()).rstrip(".")[:200] or type(error).__name__
        raise SceneError(f"cannot read {path}: {reason}; export it again as WAV") from None


def _repaired(file: BinaryIO, head: bytes) -> BinaryIO:
    """The file, or what it would be if its writer had been able to go back to its beginning.

    Such a writer leaves a size of 0 there, or the largest one, which is understood as that of the
    whole file. Others leave out the byte that makes a chunk of an odd size even.

    Raises:
        ValueError: If the file is shorter than it says.
    """
    if head[:4] not in (b"RIFF", b"RIFX"):
        file.seek(0)
        return file
    order: Literal["little", "big"] = "little" if head[:4] == b"RIFF" else "big"
    length = file.seek(0, io.SEEK_END)
    place, form, is_plain = len(head), b"", True
    while place + 8 <= length:
        file.seek(place)
        name, size = file.read(4), int.from_bytes(file.read(4), order)
        if name == b"data":
            break
        if name == b"fmt ":
            form = file.read(size)
        place += 8 + size
        file.seek(place)
        # A chunk of an odd size ends with a byte of 0, or should.
        if size % 2 and file.read(1) == b"\0":
            place += 1
        elif size % 2:
            is_plain = False
    else:
        file.seek(0)
        return file
    present = length - place - 8
    if present < size < _OF_PIPES:
        raise ValueError(f"it is truncated: it has {present:,} of {size:,} bytes of samples")
    if is_plain and 0 < size < _OF_PIPES:
        file.seek(0)
        return file
    samples = file.read(size if 0 < size < _OF_PIPES else -1)
    parts = (
        b"fmt " + len(form).to_bytes(4, order) + form,
        b"data",
        len(samples).to_bytes(4, order),
    )
    return io.BytesIO(head + b"".join(parts) + samples)
