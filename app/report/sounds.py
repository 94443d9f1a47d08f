"""Sounds of a report: WAV files, and what the page shows and plays of them."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from app.blocks import Sound
from app.kinds.kind import Result
from app.report.canvas import new_figure
from app.report.images import color_mapped, webp_url
from app.report.palette import unmathematical
from nerf_posenc.metrics.sound import spectrogram

# Of a longer sound a page holds the beginning, of all channels together; 15 s of mono.
_PAGE_SAMPLES = 15 * 44_100


def wav_bytes(samples: Float[Tensor, "samples channels"], rate: int) -> bytes:
    """A WAV file of 16 bits; of 32-bit floats where samples lie beyond [-1, 1], which they keep."""
    # Not at import: it brings 90 ms of scipy.
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
    found = [(result.label, each) for result in results for each in result.blocks(Sound)]
    shown = []
    for title in dict.fromkeys(each.title for _, each in found):
        same = [(name, each) for name, each in found if each.title == title]
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
        shown.append(
            {
                "title": title,
                "seconds": count / rate,
                "is_part": count < len(original),
                "highest": f"{rate / 2:,.0f}",
                "entries": entries,
            }
        )
    return shown


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


def save_spectrograms(path: Path, results: Sequence[Result]) -> None:
    """Draw the spectrogram of the original and of every fit, one below the other, for print."""
    found = [(result.label, each) for result in results for each in result.blocks(Sound)]
    sound = found[0][1]
    rows = [("original", sound.original), *((name, each.reconstruction) for name, each in found)]
    figure = new_figure(figsize=(7, 1.7 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), 1, squeeze=False, sharex=True)[:, 0]
    seconds, highest = len(sound.original) / sound.rate, sound.rate / 2
    for axis, (name, samples) in zip(axes, rows, strict=True):
        image = spectrogram(samples, sound.rate).numpy()
        # Rows are equal steps of the logarithm of the frequency.
        axis.imshow(image, cmap="magma", aspect="auto", vmin=0, vmax=1, extent=(0, seconds, 0, 1))
        ticks = [hertz for hertz in (100, 1000, 10_000) if hertz < highest]
        axis.set_yticks([np.log(t / 40) / np.log(highest / 40) for t in ticks], map(str, ticks))
        axis.set_title(unmathematical(name), fontsize=10, loc="left")
    axes[len(axes) // 2].set_ylabel("frequency (Hz)")
    axes[-1].set_xlabel("time (s)")
    figure.savefig(path, dpi=150)
