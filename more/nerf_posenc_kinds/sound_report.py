"""Sounds of a report: WAV files, and what the page shows and plays of them."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.report.figures import save_grid
from nerf_posenc_app.report.images import color_mapped, run_file, webp_url
from nerf_posenc_app.report.page import SECTIONS, Section
from nerf_posenc_app.report.sections import styles
from nerf_posenc_app.report.template import own_template
from nerf_posenc_app.values.blocks import Block
from nerf_posenc_app.values.names import block_files
from nerf_posenc_app.values.results import Result
from nerf_posenc_kinds.data.sounds import Sound as OpenedSound
from nerf_posenc_kinds.data.sounds import open_sound
from nerf_posenc_kinds.spectrogram import spectrogram


@dataclass(frozen=True)
class Sound:
    """A block of the report: a sound beside its reconstruction, to be listened to.

    Attributes:
        title: heading of the block.
        original: values in [-1, 1]; None for a fit that is rendered without it.
        reconstruction: values in [-1, 1].
        rate: samples per second.
    """

    title: str
    original: Float[Tensor, "samples channels"] | None
    reconstruction: Float[Tensor, "samples channels"]
    rate: int


# Maximum samples of a sound on the page, over all channels; 15 s of mono.
_PAGE_SAMPLES = 15 * 44_100


def wav_bytes(samples: Float[Tensor, "samples channels"], rate: int) -> bytes:
    """A WAV file of 16 bits; of 32-bit floats where samples lie beyond [-1, 1], which they keep."""
    # Imported here since scipy takes 90 ms.
    from scipy.io import wavfile

    values = samples.float().cpu().numpy()
    if np.abs(values).max(initial=0) <= 1:
        values = np.rint(values * 32767).astype(np.int16)
    buffer = io.BytesIO()
    wavfile.write(buffer, rate, values)
    return buffer.getvalue()


def shown_sounds(results: Sequence[Result], styles: dict[str, int]) -> list[dict[str, Any]]:
    """Sounds by title: players, spectrograms and errors of the original and of every fit.

    Players clip what is beyond full scale: all of one title are made softer alike.
    """
    sounds = [(result.label, each) for result in results for each in result.blocks(Sound)]
    groups = []
    for title in dict.fromkeys(each.title for _, each in sounds):
        same = [(name, each) for name, each in sounds if each.title == title]
        original, rate = same[0][1].original, same[0][1].rate
        louder = max(1.0, float(original.abs().max()))
        count = min(len(original), _PAGE_SAMPLES // original.shape[1])
        of_original = spectrogram(original[:count], rate)
        entries = [_entry("original", original[:count] / louder, rate, of_original, None, None)]
        for name, each in same:
            image = spectrogram(each.reconstruction[:count], rate)
            error = (image - of_original).abs()
            part = each.reconstruction[:count]
            entries.append(_entry(name, part / louder, rate, image, error, styles[name]))
        groups.append(
            {
                "title": title,
                "seconds": count / rate,
                "is_part": count < len(original),
                "highest": f"{rate / 2:,.0f}",
                "entries": entries,
            }
        )
    return groups


def _entry(
    name: str, samples: Tensor, rate: int, image: Tensor, error: Tensor | None, color: int | None
) -> dict[str, Any]:
    data = base64.b64encode(wav_bytes(samples, rate)).decode()
    return {
        "name": name,
        "color": color,
        "url": f"data:audio/wav;base64,{data}",
        "spectrogram": webp_url(color_mapped(image, "magma"), 85),
        "error": None if error is None else webp_url(color_mapped(error, "magma"), 80),
    }


def write_sounds(folder: Path, results: Sequence[Result]) -> None:
    """Write the original and every reconstruction as WAV files, and their spectrograms."""
    for i, result in enumerate(results):
        sounds = result.blocks(Sound)
        for sound, (original, pattern) in zip(
            sounds, block_files(len(sounds), ".wav"), strict=True
        ):
            if i == 0 and sound.original is not None:
                (folder / original).parent.mkdir(exist_ok=True)
                (folder / original).write_bytes(wav_bytes(sound.original, sound.rate))
            file = folder / pattern.format(result.name.stem)
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(wav_bytes(sound.reconstruction, sound.rate))
    named_sounds = [(result.label, sound) for result in results for sound in result.blocks(Sound)]
    rows = [
        ("original", named_sounds[0][1].original),
        *((n, s.reconstruction) for n, s in named_sounds),
    ]
    images = [
        [(name, color_mapped(spectrogram(samples, named_sounds[0][1].rate), "magma"))]
        for name, samples in rows
    ]
    save_grid(folder / "comparison.png", images)


def read_sounds(folder: Path, fit: Result, titles: Sequence[str]) -> list[Block]:
    """Read the sounds of a fit back.

    Raises:
        ValueError: If one is missing or damaged.
    """
    sounds: list[Block] = []
    for title, (original, pattern) in zip(titles, block_files(len(titles), ".wav"), strict=True):
        file = pattern.format(fit.name.stem)
        truth, found = (_read_sound(folder, name) for name in (original, file))
        if truth.samples.shape != found.samples.shape or truth.rate != found.rate:
            raise ValueError(f"{file} and {original} differ in length or rate")
        sounds.append(Sound(title, truth.samples, found.samples, truth.rate))
    return sounds


def _read_sound(folder: Path, name: str) -> OpenedSound:
    file = run_file(folder, name)
    if file is None:
        raise ValueError(f"it has no {name}")
    try:
        return open_sound(str(file), may_be_silent=True)
    except SceneError as error:
        raise ValueError(str(error)) from None


SECTIONS["sound"] = Section(
    Sound,
    own_template((Path(__file__).parent / "templates" / "sound.html.j2").read_text("utf-8")),
    lambda results: shown_sounds(results, styles(results)),
    leads=True,
    write=write_sounds,
    read=read_sounds,
)
