"""Images of known frequency, made by formula: they show which frequencies a fit recovers.

All are gray and square. Nyquist's frequency of N pixels across [-1, 1] is N / 4 cycles per unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc.core.grids import grid_positions
from nerf_posenc.core.sinusoids import sincos
from nerf_posenc.images import Image
from scenes.errors import SceneError

if TYPE_CHECKING:
    from jaxtyping import Float

_SPOKES = 48.0
_SHARE = 0.5
# With fewer pixels, more than half of the star would be gray.
_SIDES = 64, 8192


def siemens_star(side: int) -> Float[Tensor, "side side"]:
    """Spokes that are sines around the middle: at the radius r, 48 / (2 pi r) cycles per unit.

    Within the radius where that is Nyquist's frequency, and beyond 1, it is gray.
    """
    radius, angle = _polar(side)
    nyquist = side / 4
    inner = _SPOKES / (2 * math.pi * nyquist)
    is_shown = (radius >= inner) & (radius <= 1)
    return torch.where(is_shown, 0.5 + 0.5 * _cosine(angle, _SPOKES), 0.5)


def zone_plate(side: int) -> Float[Tensor, "side side"]:
    """Rings cos(c r^2) whose frequency, c r / pi, grows to Nyquist's at the radius 1; then gray."""
    radius, _ = _polar(side)
    nyquist = side / 4
    rings = 0.5 + 0.5 * _cosine(radius.square(), math.pi * nyquist)
    return torch.where(radius <= 1, rings, 0.5)


def bandlimited_noise(side: int, share: float) -> Float[Tensor, "side side"]:
    """Random waves of all frequencies up to a share of Nyquist's, and of none above it."""
    generator = torch.Generator().manual_seed(0)
    spectrum = torch.fft.fft2(torch.randn(side, side, generator=generator))
    # Cycles per pixel; the Nyquist frequency is 1/2.
    along = torch.fft.fftfreq(side)
    frequency = (along[:, None].square() + along.square()).sqrt()
    kept = (frequency > 0) & (frequency <= share / 2)
    waves: Tensor = torch.fft.ifft2(spectrum * kept).real
    return 0.5 + 0.5 / float(waves.abs().max()) * waves


PATTERNS: dict[str, Callable[[int], Float[Tensor, "side side"]]] = {
    "star": siemens_star,
    "zone-plate": zone_plate,
    "bandlimited": lambda side: bandlimited_noise(side, _SHARE),
}
"""Patterns by name."""


def open_pattern(name: str, side: int) -> Image | None:
    """Make a pattern.

    Args:
        name: one of ``PATTERNS``, or ``bandlimited:SHARE`` with a share above 0 and up to 1.
        side: its side in pixels.

    Returns:
        The image; None if the name is no pattern's.

    Raises:
        SceneError: If the side is not from 64 to 8,192, or the share is none.
    """
    kind, _, text = name.partition(":")
    if kind not in PATTERNS or (text and kind != "bandlimited"):
        return None
    if not _SIDES[0] <= side <= _SIDES[1]:
        raise SceneError(f"{name} needs a --size of {_SIDES[0]} to {_SIDES[1]:,}; got {side}")
    make = PATTERNS[kind]
    if text:
        try:
            share = float(text)
        except ValueError:
            share = 0.0
        if not 2 / side < share <= 1:
            raise SceneError(
                f"{name}: the share of Nyquist's frequency must be above {2 / side:.3g}, a single "
                "wave, and up to 1"
            )
        values = bandlimited_noise(side, share)
    else:
        values = make(side)
    rgb = values[..., None].expand(side, side, 3).contiguous()
    return Image.from_rgb(rgb, name=name.replace(":", "-"), source=f"{name}, made by formula")


def _cosine(x: Float[Tensor, "side side"], band: float) -> Float[Tensor, "side side"]:
    waves: Tensor = sincos(x[..., None], torch.tensor([band], dtype=torch.float64))
    return waves[..., 1]


def _polar(side: int) -> tuple[Float[Tensor, "side side"], Float[Tensor, "side side"]]:
    """Radius and angle of the pixel centers."""
    x, y = grid_positions((side, side), units="longer", xy=True).unbind(-1)
    return torch.hypot(x, y), torch.atan2(y, x)
