"""Samples of sound files; run by the worker, within its limits."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scenes.errors import SceneError

_WAV_HEADS = (b"RIFF", b"RIFX", b"RF64")
_OTHER_HEADS = (b"fLaC", b"OggS")


def read_samples(
    path: Path, most: int, duration: float | None
) -> tuple[npt.NDArray[np.float32], int]:
    """Read the samples of a file.

    Integers are divided by the largest value of their type; 8 bits have no sign.

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
        with path.open("rb") as file:
            head = file.read(4)
        if head in _WAV_HEADS:
            values, rate = _wav(path)
        elif head in _OTHER_HEADS:
            values, rate = _other(path)
        else:
            raise SceneError(f"{path} is no WAV, FLAC or OGG file; convert it to WAV")
    except (SceneError, MemoryError):
        raise
    except OSError as error:
        raise SceneError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # Readers raise nearly every type on a damaged file.
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise SceneError(f"cannot read {path}: {reason}; export it anew as WAV") from None
    values = values[:, None] if values.ndim == 1 else values
    if not 1 <= rate <= 1_000_000 or values.ndim != 2 or not 1 <= values.shape[1] <= 2:
        channels = values.shape[1] if values.ndim == 2 else values.ndim
        raise SceneError(
            f"{path} has {rate:,} samples per second of {channels} channels; mono and stereo of up "
            "to 1,000,000 are read"
        )
    if duration is not None:
        values = values[: max(1, round(duration * rate))]
    if len(values) > most:
        raise SceneError(f"{path} has {len(values):,} samples, over {most:,}; add --duration 10")
    return _in_unit_range(values), rate


def _wav(path: Path) -> tuple[npt.NDArray[Any], int]:
    from scipy.io import wavfile

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Chunks that it does not know.
        # Mapped where that is possible, so that an excerpt of a long file costs no memory.
        try:
            rate, values = wavfile.read(path, mmap=True)
        except ValueError:
            rate, values = wavfile.read(path)
    return values, int(rate)


def _other(path: Path) -> tuple[npt.NDArray[Any], int]:
    try:
        import soundfile
    except ImportError:
        raise SceneError(
            f"{path}: FLAC and OGG need soundfile: pip install 'nerf_posenc[sound]'"
        ) from None
    values, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return values, int(rate)


def _in_unit_range(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    with np.errstate(all="ignore"):  # What does not fit is not finite, and is refused.
        samples: npt.NDArray[np.float32] = values.astype(np.float32)
    if values.dtype == np.uint8:
        samples -= 128
        samples /= 128
    elif values.dtype.kind == "i":
        # 24 bits are read as the upper bits of 32.
        samples /= 1 << (8 * values.dtype.itemsize - 1)
    return samples
