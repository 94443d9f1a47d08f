"""Patterns of known frequency, by their closed forms."""

import math

import pytest
import torch

from scenes import SceneError, open_image


def test_spokes_are_sines_of_the_angle_down_to_the_frequency_of_nyquist() -> None:
    image = open_image("star", pattern_size=256)
    x, y = image.coordinates.unbind(-1)
    radius = torch.hypot(x, y)
    # 48 cycles around: at Nyquist's 64 cycles per unit the circle is 0.75 long.
    shown = (radius > 0.75 / (2 * math.pi) + 1e-4) & (radius < 1)
    expected = 0.5 + 0.5 * torch.cos(48 * torch.atan2(y, x))
    torch.testing.assert_close(image.rgb[..., 0][shown], expected[shown])
    assert bool((image.rgb[(radius < 0.11) | (radius > 1)] == 0.5).all())


def test_rings_reach_the_frequency_of_nyquist_at_the_edge() -> None:
    image = open_image("zone-plate", pattern_size=512)
    # Along the row beside the middle the sign of a wave of Nyquist's frequency changes with each
    # pixel; halfway there with every second.
    row = image.rgb[256, :, 0] - 0.5
    signs = row[:-1] * row[1:] < 0
    assert float(signs[-20:].float().mean()) > 0.9
    assert float(signs[374:394].float().mean()) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(("name", "share"), [("bandlimited", 0.5), ("bandlimited:0.25", 0.25)])
def test_noise_has_no_frequency_above_its_share(name: str, share: float) -> None:
    image = open_image(name, pattern_size=64)
    power = torch.fft.fft2(image.rgb[..., 0].double() - 0.5).abs()
    along = torch.fft.fftfreq(64, dtype=torch.float64)
    frequency = (along[:, None].square() + along.square()).sqrt()
    above, below = frequency > share / 2, (frequency > 0) & (frequency <= share / 2)
    assert float(power[above].max()) < 1e-3
    assert float(power[below].mean()) > 1
    assert 0 <= float(image.rgb.min()) <= float(image.rgb.max()) <= 1


@pytest.mark.parametrize("name", ["bandlimited:2", "bandlimited:x", "bandlimited:0.01", "star:3"])
def test_what_is_no_pattern_is_refused(name: str) -> None:
    with pytest.raises(SceneError, match=r"must be above|no image at"):
        open_image(name, pattern_size=64)
    with pytest.raises(SceneError, match="--size of 64"):
        open_image("star", pattern_size=32)
