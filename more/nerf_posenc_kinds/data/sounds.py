"""Sound files, and a phrase that is synthesized: samples in [-1, 1] with their sampling rate."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nerf_posenc.core.sinusoids import sincos
from nerf_posenc_app.data.arrays import numbers
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.reading.worker import read_file

PHRASE = "phrase"
"""Name of the built-in sound."""
MAX_SAMPLES = 1 << 23
"""Most samples of a sound, three minutes at 44,100 Hz: float32 tells no more moments apart."""

_RATE = 22_050
# Semitones above A3, and beats: a phrase that rises and comes home.
_NOTES = ((0, 1.0), (7, 1.0), (12, 0.5), (16, 0.5), (19, 1.0), (15, 0.5), (12, 0.5), (0, 2.0))
_BEAT_SECONDS = 0.4
_NUM_PARTIALS = 24


@dataclass(frozen=True)
class Sound:
    """Samples of a sound.

    Attributes:
        name: name for the report.
        source: path of the file, or what it is.
        samples: values in [-1, 1].
        rate: samples per second.
    """

    name: str
    source: str
    samples: Float[Tensor, "samples channels"]
    rate: int


def open_sound(
    name_or_path: str, *, duration: float | None = None, may_be_silent: bool = False
) -> Sound:
    """Open a sound file, or the built-in phrase by its name.

    Args:
        name_or_path: WAV, FLAC or OGG file; or ``"phrase"``.
        duration: seconds from the beginning; None for all of it.
        may_be_silent: whether silence is read, as the fit of a network that learned nothing is.

    Raises:
        SceneError: If there is no such file, or it cannot be read, is silent, or is too long.
    """
    path = Path(name_or_path)
    if name_or_path == PHRASE and not path.exists():
        samples, rate, source = synthesized_phrase(), _RATE, "a synthesized phrase"
    else:
        reader = "nerf_posenc_kinds.data.sound_reader:read_samples"
        values, rate = read_file(reader, path, MAX_SAMPLES, duration)
        samples = torch.from_numpy(values)
        source = str(path)
    return _shortened(
        Sound(path.stem, source, samples, rate), duration, may_be_silent=may_be_silent
    )


def sound_in_memory(data: Any, *, duration: float | None = None) -> Sound:
    """Make a sound of values that Python holds.

    Args:
        data: samples, ``(n,)`` or ``(n, channels)``, and their rate per second: floating-point
            values in [-1, 1], or 16-bit integers, which count as shares of 32768.
        duration: seconds from the beginning; None for all of it.

    Raises:
        SceneError: If they are of another shape or type, silent, or not finite.
    """
    if not (isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[1], int)):
        raise SceneError("a sound must be a path, or (samples, samples per second)")
    samples, rate = numbers(data[0], "a sound"), data[1]
    if samples.ndim not in (1, 2) or samples.dtype not in (np.float32, np.int16) or rate < 1:
        raise SceneError(
            "a sound must be (n,) or (n, channels) samples of float or int16, and a rate of 1 or "
            f"more; got {samples.dtype} {samples.shape} and {rate}"
        )
    values = samples / np.float32(1 << 15) if samples.dtype == np.int16 else samples
    columns = torch.from_numpy(values).reshape(len(values), -1)
    return _shortened(Sound("sound", "sound in memory", columns, rate), duration)


def _shortened(sound: Sound, duration: float | None, *, may_be_silent: bool = False) -> Sound:
    """The beginning of a sound, checked."""
    samples, source = sound.samples, sound.source
    length = len(samples) if duration is None else max(1, round(duration * sound.rate))
    samples = samples[:length]
    if len(samples) < 64:
        raise SceneError(f"{source} has {len(samples)} samples to fit; 64 are needed")
    if not bool(samples.isfinite().all()):
        raise SceneError(f"{source} has samples that are not finite; export it again")
    if float(samples.abs().max()) == 0 and not may_be_silent:
        raise SceneError(f"{source} is silent; there is nothing to fit")
    return replace(sound, samples=samples)


def synthesized_phrase() -> Float[Tensor, "samples 1"]:
    """Eight notes of a plucked string: partials that decay, the higher the faster.

    It is the same on every machine up to rounding, and free of any licence.
    """
    seconds = sum(beats for _, beats in _NOTES) * _BEAT_SECONDS
    time = torch.arange(round(seconds * _RATE), dtype=torch.float64) / _RATE
    partials = torch.arange(1, _NUM_PARTIALS + 1, dtype=torch.float64)
    sound, start = torch.zeros_like(time), 0.0
    for semitones, beats in _NOTES:
        since = (time - start).clamp(min=0)[:, None]
        # The partials of a stiff string are a little sharp.
        hertz = 220 * 2 ** (semitones / 12) * partials * (1 + 4e-4 * partials**2).sqrt()
        is_heard = hertz < 0.45 * _RATE
        # Of each partial the sine, which begins at 0 with the note.
        waves = sincos(since, 2 * math.pi * hertz)[:, ::2]
        decays = torch.exp(-(1 + 0.8 * partials) * since) / partials
        sound += (waves * decays * is_heard).sum(-1)
        start += beats * _BEAT_SECONDS
    return (0.8 * sound / sound.abs().max()).float()[:, None]
