"""The model of an image, a sound or a shape: an encoding of coordinates and a network."""

import bisect
import math
from dataclasses import KW_ONLY, dataclass, replace

import torch
from torch import nn

from nerf_posenc.core.encoder import Encoder
from nerf_posenc.networks import num_parameters
from nerf_posenc.training import recipes
from nerf_posenc.training.encoding_recipe import EncoderDescription

# The network takes at most this share of a small model with a grid.
_NETWORK_SHARE = 0.25


@dataclass(frozen=True)
class CoordinateModel(EncoderDescription):
    """Which model of an image, a sound or a shape is fitted: an encoder and a network.

    Attributes:
        out_dim: number of outputs.
        width: units per hidden layer; None for those of the encoding's recipe.
        depth: hidden layers; None for those of the encoding's recipe.
        num_parameters: the model is as large as it can be with at most this number: the tables of a
            grid, else the width of the network; None for the width and the tables' default size.
    """

    _: KW_ONLY
    out_dim: int = 3
    width: int | None = None
    depth: int | None = None
    num_parameters: int | None = None

    @property
    def layers(self) -> tuple[int, int]:
        """Width and depth of the network."""
        width, depth = recipes.get_recipe(self.encoding).layers
        return (
            width if self.width is None else self.width,
            depth if self.depth is None else self.depth,
        )


def make_coordinate_model(
    model: CoordinateModel, *, generator: torch.Generator | None = None
) -> tuple[Encoder, nn.Module]:
    """Build the encoder of coordinates in [-1, 1] and the network from its features to values.

    Args:
        model: description of the model.
        generator: random number generator of frequencies and initial weights.

    Raises:
        ValueError: If a name is unknown or a number out of its range.

    Examples:
        >>> encoder, network = make_coordinate_model(CoordinateModel("fourier", num_bands=8))
        >>> network(encoder(torch.zeros(5, 2))).shape
        torch.Size([5, 3])
    """
    if model.num_parameters is not None:
        model = _within(model, model.num_parameters)
    encoder = recipes.make_encoder(model, generator)
    return encoder, _network(model, encoder, model.layers[0], generator)


def _network(
    model: CoordinateModel, encoder: Encoder, width: int, generator: torch.Generator | None
) -> nn.Module:
    network = recipes.get_recipe(model.encoding).network
    build, depth = recipes.get_network(network).build, model.layers[1]
    return build(encoder.out_dim, model.out_dim, width=width, depth=depth, generator=generator)


def _within(model: CoordinateModel, most: int) -> CoordinateModel:
    """The largest model within a number of parameters, by its width and a grid's features.

    Raises:
        ValueError: If nothing is that small.
    """
    encoder = recipes.make_encoder(model, torch.Generator())

    def count(width: int) -> int:
        return num_parameters(_network(model, encoder, width, torch.Generator()))

    has_grid = num_parameters(encoder) > 0
    budget = int(most * _NETWORK_SHARE) if has_grid else most
    if count(1) > budget:
        needed = math.ceil(count(1) / _NETWORK_SHARE) if has_grid else count(1)
        raise ValueError(f"{model.encoding} needs {needed:,} parameters or more; got {most:,}")
    widest = model.layers[0] if has_grid else 2
    while not has_grid and count(widest) <= budget:
        widest *= 2
    # The number grows with the width.
    width = bisect.bisect_right(range(1, widest + 1), budget, key=count)
    return replace(model, width=width, num_features=most - count(width) if has_grid else None)
