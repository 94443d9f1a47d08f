"""Which frequencies an encoding and a network can express, and how many numbers they have."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc.core.encoder import Encoder, Identity
from nerf_posenc.encoders.hash_grid import HashGridEncoder
from nerf_posenc.encoders.random_fourier import GaussianEncoder
from nerf_posenc.images import Image
from nerf_posenc.networks.mlp import num_parameters


@dataclass(frozen=True)
class Expressible:
    """What features and a network can express, to first order.

    Attributes:
        highest: highest angular frequency of the features along an axis, rad per unit; 0 for raw
            coordinates, Nyquist of the finest level for a hash grid.
        highest_product: highest along an axis of what the network makes of them, if each
            nonlinearity multiplies two features; ``highest`` for a hash grid, whose
            interpolation and not whose network sets it.
        parameters: trainable parameters of both.
        values: numbers of the image; None without one.
    """

    highest: float
    highest_product: float
    parameters: int
    values: int | None = None

    @property
    def parameters_per_value(self) -> float | None:
        """Parameters for each number of the image: from 1 on the model can store it."""
        return None if self.values is None else self.parameters / self.values

    def __repr__(self) -> str:
        ratio = self.parameters_per_value
        tail = "" if ratio is None else f", {ratio:.3g} per value of the image"
        return (
            f"Expressible(highest={self.highest / math.pi:.4g} pi, "
            f"highest_product={self.highest_product / math.pi:.4g} pi rad per unit, "
            f"parameters={self.parameters:,}{tail})"
        )


def expressible(encoder: Encoder, network: nn.Module, image: Image | None = None) -> Expressible:
    r"""Estimate which frequencies an encoder and the network after it can express.

    A network of sinusoids expresses the frequencies $\sum_t s_t \omega_t$ with whole
    $s_t$, $\sum_t |s_t| \le K^n$ for $n$ nonlinearities that are polynomials of degree $K$ (Yüce et
    al. 2022, theorem 1). Here $K = 2$, to first order: a ReLU makes all products, but weak ones.
    `product_frequencies` lists them along one axis.

    Args:
        encoder: raw coordinates, sinusoids of fixed bands, Gaussian features or a hash grid.
        network: takes its features.
        image: image whose values are counted; None to count none.

    Raises:
        ValueError: If the frequencies of such an encoder are not known.

    Examples:
        >>> from nerf_posenc import FourierEncoder
        >>> from nerf_posenc.networks import MLP
        >>> expressible(FourierEncoder(2, num_bands=8), MLP(32, 3, width=64, depth=2))
        Expressible(highest=128 pi, highest_product=512 pi rad per unit, parameters=6,467)
    """
    is_grid = isinstance(encoder, HashGridEncoder)
    highest = _highest(encoder)
    factor = 1 if is_grid else 2 ** num_nonlinearities(network)
    return Expressible(
        highest=highest,
        highest_product=factor * highest,
        parameters=num_parameters(encoder) + num_parameters(network),
        values=None if image is None else 3 * image.num_pixels,
    )


def product_frequencies(
    bands: Float[Tensor, " num_bands"], order: int = 2
) -> Float[Tensor, " num_frequencies"]:
    r"""Angular frequencies of all products of up to ``order`` sinusoids.

    $|\sum_t s_t \omega_t|$ with whole $s_t$ and $\sum_t |s_t| \le$ ``order``.

    Args:
        bands: bands along one axis, rad per unit.
        order: number of factors, 1 or more: 2 for one product, $2^n$ after n nonlinearities.

    Returns:
        Rising, from 0 on, float64; equal to 9 digits is equal.

    Raises:
        ValueError: If the order is below 1.

    Examples:
        >>> product_frequencies(torch.tensor([1.0, 4.0]))
        tensor([0., 1., 2., 3., 4., 5., 8.], dtype=torch.float64)
    """
    if order < 1:
        raise ValueError(f"order must be 1 or more; got {order}")
    one = torch.cat((bands.double().abs(), -bands.double().abs(), torch.zeros(1).double()))
    scale = float(one.max()) or 1.0
    sums = torch.zeros(1, dtype=torch.float64)
    for _ in range(order):
        sums = (sums[:, None] + one).flatten()
        # The sign of a sum does not matter, since the negative of every band is a band too.
        sums = ((sums.abs() / scale * 1e9).round() / 1e9).unique() * scale
    return sums


def num_nonlinearities(network: nn.Module) -> int:
    """Number of nonlinear layers between the features and the last linear layer."""
    linears = [module for module in network.modules() if isinstance(module, nn.Linear)]
    return max(0, len(linears) - 1)


def _highest(encoder: Encoder) -> float:
    """Highest angular frequency of an encoder's features along an axis, rad per unit."""
    if isinstance(encoder, Identity):
        return 0.0
    if isinstance(encoder, HashGridEncoder):
        low, high = encoder.bounds
        return math.pi * max(encoder.scales) / (high - low)
    if isinstance(encoder, GaussianEncoder):
        return 2 * math.pi * float(encoder.matrix.detach().abs().max())
    bands = encoder.frequency_bands
    if bands is None:
        raise ValueError(
            f"the frequencies of {type(encoder).__name__} are not known; give a FourierEncoder, "
            "GaussianEncoder, HashGridEncoder or Identity"
        )
    return float(bands.abs().max()) if bands.numel() else 0.0
