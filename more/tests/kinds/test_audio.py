"""Sounds: files against independent readers, scores against closed forms, runs to page and WAV."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from scipy.io import wavfile

import train_fit
from nerf_posenc_app.data import SceneError
from nerf_posenc_kinds.audio import AudioKind, AudioOptions
from nerf_posenc_kinds.data.sounds import open_sound
from nerf_posenc_kinds.spectrogram import octaves, snr, snr_by_octave, spectrogram
from tests.browsers import browser as browser
from tests.browsers import needs_chromium

pytestmark = pytest.mark.usefixtures("own_folder")

RATE = 8000
QUICK = ["--steps", "12", "--batch-size", "256", "--width", "16", "--video", "0", "--quiet"]


def tone(hertz: float, seconds: float = 0.5, rate: int = RATE) -> np.ndarray:
    return 0.5 * np.sin(2 * math.pi * hertz * np.arange(round(seconds * rate)) / rate)


def column(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values).float()[:, None]


@pytest.mark.parametrize("decibels", [3.0, 20.0, 60.0])
def test_ratio_is_that_of_noise_of_known_energy(decibels: float) -> None:
    original, noise = column(tone(440)), column(tone(1000))
    # Both have equal energy over full periods.
    fit = original + noise * 10 ** (-decibels / 20)
    assert snr(fit, original) == pytest.approx(decibels, abs=1e-3)
    assert snr(torch.zeros_like(original), original) == pytest.approx(0)
    assert snr(original, original) == math.inf
    assert math.isnan(snr(noise, torch.zeros_like(noise)))


def test_an_octave_has_the_error_that_lies_within_it() -> None:
    original = column(tone(300) + tone(1500))
    fit = original + 0.1 * column(tone(1600))
    found = dict(snr_by_octave(fit, original, RATE))
    by_octave = {low: ratio for (low, _), ratio in zip(octaves(RATE), found.values(), strict=True)}
    assert by_octave[1000.0] == pytest.approx(20, abs=0.01)
    assert by_octave[250.0] > 100


@pytest.mark.parametrize("hertz", [120.0, 700.0, 3000.0])
def test_a_spectrogram_is_brightest_at_the_pitch_that_sounds(hertz: float) -> None:
    image = spectrogram(column(2 * tone(hertz)), RATE, width=50, height=100)
    row = float(image[:, 10:40].mean(-1).argmax())
    expected = 99 - 99 * math.log(hertz / 40) / math.log(RATE / 2 / 40)
    assert row == pytest.approx(expected, abs=5)
    assert float(image[:, 25].amax()) == pytest.approx(1, abs=0.02)
    assert float(spectrogram(torch.zeros(500, 1), RATE).amax()) == 0


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("channels", [1, 2])
def test_wav_files_are_read_as_another_reader_does(kind: type, channels: int) -> None:
    values = np.stack([tone(300), tone(500)][:channels], axis=-1)
    scaled: Any = values
    if kind is np.uint8:
        scaled = (values * 127 + 128).astype(kind)
    elif np.issubdtype(kind, np.integer):
        scaled = (values * np.iinfo(kind).max).astype(kind)
    wavfile.write("a.wav", RATE, scaled.astype(kind))
    sound = open_sound("a.wav")
    theirs, rate = soundfile.read("a.wav", dtype="float32", always_2d=True)
    assert sound.rate == rate == RATE
    np.testing.assert_allclose(sound.samples.numpy(), theirs, atol=1e-7)


@pytest.mark.parametrize("name", ["a.flac", "a.ogg", "b.wav"])
def test_other_formats_and_24_bits_are_read_as_another_reader_does(name: str) -> None:
    soundfile.write(name, tone(440), RATE, subtype="PCM_24" if name == "b.wav" else None)
    theirs, _ = soundfile.read(name, dtype="float32", always_2d=True)
    np.testing.assert_allclose(open_sound(name).samples.numpy(), theirs, atol=2e-7)


def test_a_fit_is_rendered_at_another_rate_between_its_own_samples() -> None:
    wavfile.write("a.wav", RATE, tone(200).astype(np.float32))
    data = ["--audio", "a.wav", "--encodings", "fourier", "--bands", "8", "--steps", "40"]
    assert train_fit.main([*data, "--width", "64", "--video", "0", "--quiet", "--out", "run"]) == 0
    assert train_fit.main(["render", "run", "--quiet", "--rate", str(3 * RATE)]) == 0
    assert train_fit.main(["render", "run", "--quiet", "--out", "own.wav"]) == 0
    _, own = wavfile.read("own.wav")
    rate, more = wavfile.read(next(Path("run/renders").iterdir()))
    assert (rate, len(more)) == (3 * RATE, 3 * len(own))
    # The middle of three samples is at the moment of the one of the file.
    np.testing.assert_allclose(more[1::3].astype(float), own.astype(float), atol=2)
    assert train_fit.main(["render", "run", "--size", "8"]) == 2


def test_bands_reach_the_frequency_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    wavfile.write("a.wav", RATE, tone(200, seconds=1.0).astype(np.float32))
    kind = AudioKind.open(AudioOptions(audio="a.wav"))
    # sin(2^k pi t) has 2^k / 2 cycles per unit, of which the second of sound is two.
    assert kind.hertz(1) == 1
    assert kind.hertz(kind.enough_bands) >= RATE / 2 > kind.hertz(kind.enough_bands - 1)


def test_a_long_sound_is_refused_without_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nerf_posenc_kinds.data.sounds.MAX_SAMPLES", 1000)
    wavfile.write("a.wav", RATE, tone(200).astype(np.float32))
    with pytest.raises(SceneError, match="has 4,000 samples, over 1,000; add --duration"):
        open_sound("a.wav")
    assert len(open_sound("a.wav", duration=0.1).samples) == 800


@needs_chromium
def test_the_page_plays_zooms_and_keeps_the_moment(browser: Any) -> None:
    assert train_fit.main(["--audio", "phrase", "--duration", "0.5", *QUICK, "--out", "run"]) == 0
    page = browser.new_page(viewport={"width": 900, "height": 900})
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(Path("run/report.html").resolve().as_uri())
    assert page.locator("audio").count() == 4
    assert page.locator(".span").inner_text() == "0.0 to 0.5 s"
    page.locator(".nearer").click()
    assert page.locator(".span").inner_text() in ("0.1 to 0.4 s", "0.1 to 0.38 s")
    # Something is drawn in every waveform.
    drawn = "(c) => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v)"
    assert all(canvas.evaluate(drawn) for canvas in page.locator("canvas").all())
    page.evaluate("document.querySelectorAll('audio')[0].currentTime = 0.2")
    page.evaluate("document.querySelectorAll('audio').forEach((a) => { a.muted = true; })")
    page.evaluate("document.querySelectorAll('audio')[0].play()")
    page.evaluate("document.querySelectorAll('audio')[2].play()")
    assert page.evaluate("document.querySelectorAll('audio')[0].paused")
    assert page.evaluate("document.querySelectorAll('audio')[2].currentTime") >= 0.19
    assert not messages
    page.close()
