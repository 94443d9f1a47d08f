"""How hard the detail of an image is to fit, beside how much of it there is."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nerf_posenc.images import Image

_BLOCK = 8
# Degrees from an axis within which a frequency lies along it, and the frequencies that count, as
# shares of Nyquist.
_ALONG, _RING = 7.0, (0.125, 0.25)


@dataclass(frozen=True)
class Detail:
    """Two measures of an image's detail that tell how fast a network fits it.

    Attributes:
        coherence: how far, from 0 to 1, gradients within a block of 8 x 8 pixels point one way.
            Edges are coherent, grain is not, and a network fits edges first.
        alignment: share, from 0 to 1, of the detail's energy at frequencies within 7 degrees of an
            axis, which the bands of positional encoding lie along.
    """

    coherence: float
    alignment: float


def detail(image: Image) -> Detail:
    r"""Measure how hard an image's detail is to fit.

    The coherence of a block is
    $\sqrt{(J_{xx} - J_{yy})^2 + 4 J_{xy}^2} / (J_{xx} + J_{yy})$ with the structure tensor $J$ of
    the gray values (Bigün and Granlund 1987); blocks are weighted by their energy. The alignment
    is that of frequencies between an eighth and a quarter of Nyquist.

    Args:
        image: its fitted pixels; without detail both measures are 0.

    Examples:
        >>> stripes = torch.tensor([0.2, 0.4, 0.6, 0.8] * 8)[:, None].expand(32, 32)
        >>> detail(Image.from_rgb(stripes[..., None].expand(32, 32, 3))).coherence
        1.0
    """
    gray = image.rgb.double().mean(-1)
    if min(gray.shape) < 2:
        return Detail(0.0, 0.0)
    return Detail(_coherence(gray), _alignment(gray))


def _coherence(gray: Tensor) -> float:
    """Coherence of gradients, the mean over blocks by their energy."""
    y, x = (gray[1:] - gray[:-1])[:, :-1], (gray[:, 1:] - gray[:, :-1])[:-1]
    xx, yy, xy = (_block_means(product) for product in (x * x, y * y, x * y))
    energy = float((xx + yy).sum())
    if energy == 0:
        return 0.0
    return float(((xx - yy).square() + 4 * xy.square()).sqrt().sum()) / energy


def _alignment(gray: Tensor) -> float:
    """Share of the energy of a ring of frequencies that lies along an axis."""
    power = torch.fft.fft2(gray).abs().square()
    y, x = (2 * torch.fft.fftfreq(side, dtype=torch.float64).abs() for side in gray.shape)
    y, x = torch.meshgrid(y, x, indexing="ij")
    radius, least = torch.hypot(y, x), torch.minimum(y, x)
    ring = (radius >= _RING[0]) & (radius < _RING[1])
    along = ring & (least <= math.sin(math.radians(_ALONG)) * radius)
    total = float(power[ring].sum())
    return float(power[along].sum()) / total if total > 0 else 0.0


def _block_means(values: Tensor) -> Tensor:
    """Means over whole blocks; over everything if a side is shorter than a block."""
    height, width = (side // _BLOCK * _BLOCK for side in values.shape)
    if min(height, width) == 0:
        return values.mean()[None]
    blocks = values[:height, :width].reshape(height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK)
    return blocks.mean((1, 3))
