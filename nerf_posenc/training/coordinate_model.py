"""The model of an image, a sound or a shape: an encoding of coordinates and a network."""

import bisect
import math
from dataclasses import dataclass

import torch
from torch import nn

from nerf_posenc.core.encoder import Encoder
from nerf_posenc.networks import num_parameters
from nerf_posenc.training import recipes

# Of a small model with a grid at most so much is its network.
_NETWORK_SHARE = 0.25


@dataclass(frozen=True)
class CoordinateModel:
    """Which model is fitted.

    Attributes:
        encoding: encoding of the coordinates.
        network: name of the network after the encoding.
        width: units per hidden layer.
        depth: hidden layers.
        num_bands: frequency bands of ``"fourier"``.
        sigma: standard deviation of ``"gaussian"``; None for its default.
        num_parameters: the model is as large as it can be with at most so many: the tables of a
            grid, else the width of the network; None for the width and the tables' default size.
        max_resolution: nodes per axis of a grid's last level; None for one per sample.
        in_dim: number of coordinates.
        out_dim: number of outputs.
    """

    encoding: str
    network: str = "relu"
    width: int = 256
    depth: int = 4
    num_bands: int = 10
    sigma: float | None = None
    num_parameters: int | None = None
    max_resolution: int | None = None
    in_dim: int = 2
    out_dim: int = 3


def make_coordinate_model(
    options: CoordinateModel, resolution: int, *, generator: torch.Generator | None = None
) -> tuple[Encoder, nn.Module]:
    """Build the encoder of coordinates in [-1, 1] and the network from its features to values.

    Args:
        options: kind of model to build, and its sizes.
        resolution: fitted samples along the longest axis.
        generator: random number generator of frequencies and initial weights.

    Raises:
        ValueError: If a name is unknown or a number out of its range.

    Examples:
        >>> encoder, network = make_coordinate_model(CoordinateModel("fourier", num_bands=8), 512)
        >>> network(encoder(torch.zeros(5, 2))).shape
        torch.Size([5, 3])
    """
    build = recipes.get_network(options.network).build
    width, num_features = options.width, None
    if options.num_parameters is not None:
        width, num_features = _sizes(options, resolution, options.num_parameters)
    encoder = _encoder(options, resolution, num_features, generator)
    network = build(
        encoder.out_dim, options.out_dim, width=width, depth=options.depth, generator=generator
    )
    return encoder, network


def _encoder(
    options: CoordinateModel,
    resolution: int,
    num_features: int | None,
    generator: torch.Generator | None = None,
) -> Encoder:
    wanted = recipes.EncoderOptions(
        in_dim=options.in_dim,
        resolution=resolution,
        num_bands=options.num_bands,
        sigma=options.sigma,
        num_parameters=num_features,
        max_resolution=options.max_resolution,
        generator=generator,
    )
    return recipes.make_encoder(options.encoding, wanted)


def _sizes(options: CoordinateModel, resolution: int, most: int) -> tuple[int, int | None]:
    """Width of the network and number of a grid's features within a number of parameters.

    Raises:
        ValueError: If nothing is that small.
    """
    encoder = _encoder(options, resolution, None, torch.Generator())

    def count(width: int) -> int:
        build = recipes.get_network(options.network).build
        generator = torch.Generator()
        return num_parameters(
            build(
                encoder.out_dim,
                options.out_dim,
                width=width,
                depth=options.depth,
                generator=generator,
            )
        )

    has_grid = num_parameters(encoder) > 0
    budget = int(most * _NETWORK_SHARE) if has_grid else most
    if count(1) > budget:
        needed = math.ceil(count(1) / _NETWORK_SHARE) if has_grid else count(1)
        raise ValueError(f"{options.encoding} needs {needed:,} parameters or more; got {most:,}")
    widest = options.width if has_grid else 2
    while not has_grid and count(widest) <= budget:
        widest *= 2
    # The number grows with the width.
    width = bisect.bisect_right(range(1, widest + 1), budget, key=count)
    return width, most - count(width) if has_grid else None
