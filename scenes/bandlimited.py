"""Random waves of all frequencies up to a share of Nyquist's, and of none above it."""

import torch
from torch import Tensor

SHARE = 0.5


def image(size: int = 512, share: float = SHARE) -> Tensor:
    """Noise of ``size`` pixels per side; its spectrum ends at ``share`` of Nyquist's frequency."""
    generator = torch.Generator().manual_seed(0)
    spectrum = torch.fft.fft2(torch.randn(size, size, generator=generator))
    # Cycles per pixel; the frequency of Nyquist is 1/2.
    along = torch.fft.fftfreq(size)
    frequency = (along[:, None].square() + along.square()).sqrt()
    is_kept = (frequency > 0) & (frequency <= share / 2)
    waves = torch.fft.ifft2(spectrum * is_kept).real
    return 0.5 + 0.5 / float(waves.abs().max()) * waves
