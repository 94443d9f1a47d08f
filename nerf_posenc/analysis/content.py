"""What an image holds: its energy by octave of spatial frequency."""

import itertools
import math
from dataclasses import dataclass, field

from nerf_posenc.images import Image
from nerf_posenc.metrics.spectrum import energy_by_octave, nyquist_frequency


@dataclass(frozen=True)
class Spectrum:
    """Energy of an image by octave of spatial frequency, without its mean.

    Attributes:
        resolution: pixels along the longer side, which spans two units.
        energy: mean square of the values within octave k, from ``2^(k - 1/2)`` to
            ``2^(k + 1/2)`` pi rad per unit, for k = 0, 1, ...; their sum is the variance of the
            values about the mean color.
        share_below: share of that variance in octaves 0 to k, the reach of k + 1 frequency
            bands; NaN for an image of one color.
        nyquist: highest angular frequency along an axis, rad per unit.
        num_nyquist_bands: number of bands ``2^k pi`` up to ``nyquist``.
    """

    resolution: int
    energy: tuple[float, ...] = field(repr=False)
    share_below: tuple[float, ...]
    nyquist: float
    num_nyquist_bands: int

    @property
    def variance(self) -> float:
        """Mean square of the values about the mean color."""
        return math.fsum(self.energy)

    def octave_below(self, share: float) -> int:
        """Lowest octave at or below which at least this share of the energy lies.

        Args:
            share: share of the energy, in (0, 1].

        Raises:
            ValueError: If the share is out of its range.
        """
        if not 0 < share <= 1:
            raise ValueError(f"share must be above 0 and at most 1; got {share}")
        # Sums of floats may end a little below 1.
        reached = (k for k, below in enumerate(self.share_below) if below >= share - 1e-12)
        return next(reached, max(0, len(self.share_below) - 1))

    def __repr__(self) -> str:
        shares = ", ".join(f"{share:.1%}" for share in self.share_below)
        return (
            f"Spectrum(resolution={self.resolution}, num_nyquist_bands={self.num_nyquist_bands}, "
            f"share_below=[{shares}])"
        )


def spectrum(image: Image) -> Spectrum:
    """Measure how an image's energy is spread over octaves of spatial frequency.

    Args:
        image: its fitted pixels; those held out do not count.

    Examples:
        >>> import torch
        >>> x = (torch.arange(64) + 0.5) / 32 - 1
        >>> wave = 0.5 + 0.4 * torch.cos(8 * math.pi * x)
        >>> spectrum(Image.from_rgb(wave.expand(64, 64)[..., None].expand(64, 64, 3)))
        Spectrum(resolution=64, num_nyquist_bands=6, share_below=[0.0%, 0.0%, 0.0%, 100.0%, ...])
    """
    width, height = image.size
    # The first ring holds the mean alone: the lowest other frequency is pi rad per unit.
    energy = tuple(energy_by_octave(image.rgb)[1:])
    total = math.fsum(energy)
    shares = [part / total if total > 0 else math.nan for part in itertools.accumulate(energy)]
    nyquist = nyquist_frequency(height, width)
    return Spectrum(
        resolution=image.resolution,
        energy=energy,
        share_below=tuple(shares),
        nyquist=nyquist,
        num_nyquist_bands=1 + max(0, math.floor(math.log2(nyquist / math.pi))),
    )
