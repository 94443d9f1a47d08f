"""Sounds, slices and volumes of Python, as files that the readers read back without loss."""

from pathlib import Path
from typing import Any

import numpy as np

from scenes import SceneError
from scenes.in_memory import numbers, write_once


def sound_file(data: Any) -> Path:
    """Write a sound.

    Args:
        data: samples ``(n,)`` or ``(n, channels)`` and their rate per second.

    Returns:
        The file, a WAV.

    Raises:
        SceneError: If the samples are of another shape, or the file cannot be written.
    """
    if not (isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], int)):
        raise SceneError("a sound must be a path, or (samples, samples per second)")
    samples, rate = numbers(data[0], "a sound"), data[1]
    if samples.ndim not in (1, 2):
        raise SceneError(f"a sound must be (n,) or (n, channels) samples; got {samples.shape}")

    def write(folder: Path) -> None:
        import soundfile

        subtype = "FLOAT" if samples.dtype.kind == "f" else None
        soundfile.write(folder / "sound.wav", samples, rate, subtype=subtype)

    return write_once("sound.wav", [samples, np.array(rate)], write)


def array_file(values: Any) -> Path:
    """Write a slice ``(height, width)`` or a volume ``(depth, height, width)`` as ``.npy``.

    Values of 8 or 16 bits without a sign count as shares of the largest that these hold, unless all
    are 0 or 1.
    """
    array = numbers(values, "an array")
    if array.dtype in (np.uint8, np.uint16) and int(array.max()) > 1:
        array = array / np.float32(np.iinfo(array.dtype).max)
    return write_once("volume.npy", [array], lambda folder: np.save(folder / "volume.npy", array))
