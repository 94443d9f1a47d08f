"""The model of an image: an encoding of its coordinates and a network."""

from dataclasses import dataclass

import torch
from torch import nn

from nerf_posenc.core.encoder import Encoder
from nerf_posenc.networks import NETWORKS
from nerf_posenc.training import recipes


@dataclass(frozen=True)
class ImageModel:
    """Which model fits an image.

    Attributes:
        encoding: of the coordinates.
        network: after the encoding.
        width: units per hidden layer.
        depth: hidden layers.
        num_bands: frequency bands of ``"fourier"``.
        sigma: of ``"gaussian"``; None for its default.
    """

    encoding: str
    network: recipes.NetworkName = "relu"
    width: int = 256
    depth: int = 4
    num_bands: int = 10
    sigma: float | None = None


def make_image_model(
    options: ImageModel, resolution: int, *, generator: torch.Generator | None = None
) -> tuple[Encoder, nn.Module]:
    """Build the encoder of an image's coordinates and the network from its features to RGB.

    Args:
        options: which.
        resolution: fitted pixels along the longer side.
        generator: random number generator of frequencies and initial weights.

    Raises:
        ValueError: If a name is unknown or a number out of its range.

    Examples:
        >>> encoder, network = make_image_model(ImageModel("fourier", num_bands=8), 512)
        >>> network(encoder(torch.zeros(5, 2))).shape
        torch.Size([5, 3])
    """
    if options.network not in NETWORKS:
        raise ValueError(f"no network {options.network!r}; known are {', '.join(NETWORKS)}")
    encoder = recipes.make_encoder(
        options.encoding,
        2,
        resolution=resolution,
        num_bands=options.num_bands,
        sigma=options.sigma,
        generator=generator,
    )
    network = NETWORKS[options.network](
        encoder.out_dim, 3, width=options.width, depth=options.depth, generator=generator
    )
    return encoder, network
