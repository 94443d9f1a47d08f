"""Fits from Python to sounds, slices and volumes in memory."""

from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from nerf_posenc_app import fit
from nerf_posenc_kinds.data.sounds import open_sound, sound_in_memory

FEW: dict[str, Any] = dict(steps=3, width=8, depth=1, batch_size=64, video=0, quiet=True)

pytestmark = pytest.mark.usefixtures("own_folder")


def test_sounds_and_scans_of_memory_are_fitted() -> None:
    wave = np.sin(np.arange(4000) / 20).astype(np.float32)
    run = fit(audio=(wave, 8000), encodings=["fourier"], **FEW)
    np.testing.assert_allclose(run.original()[:, 0], wave, atol=1e-4)
    assert run.reconstruction("fourier").shape == (4000, 1)
    soundfile.write("wave.wav", wave, 8000, subtype="FLOAT")
    of_file = open_sound("wave.wav").samples
    torch.testing.assert_close(sound_in_memory((wave, 8000)).samples, of_file, rtol=0, atol=0)
    volume = np.random.default_rng(2).uniform(0, 1, (3, 16, 16))
    assert fit(scan=volume, encodings=["none"], **FEW).scores["none"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (dict(audio=np.zeros(100)), r"\(samples, samples per second\)"),
        (dict(scan=np.full((8, 8), 2.0)), r"must hold values in \[0, 1\]"),
        (dict(shape=np.zeros((8, 3))), "shape must be a text; it is"),
    ],
)
def test_a_mistake_is_one_error_of_python(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fit(**options, quiet=True)
