"""The model of an image or of other data: an encoding of coordinates and a network."""

from dataclasses import KW_ONLY, dataclass

import torch
from torch import nn

from nerf_posenc.core.encoder import Encoder
from nerf_posenc.training import recipes
from nerf_posenc.training.encoding_recipe import EncoderDescription

# Width and depth of the network after an encoding that has no layers of its own.
_LAYERS = (256, 4)


@dataclass(frozen=True)
class CoordinateModel(EncoderDescription):
    """Description of the model of an image or of other data: an encoder and a network.

    Attributes:
        out_dim: number of outputs.
        width: units per hidden layer; None for those of the encoding's recipe.
        depth: hidden layers; None for those of the encoding's recipe.
    """

    _: KW_ONLY
    out_dim: int = 3
    width: int | None = None
    depth: int | None = None

    @property
    def layers(self) -> tuple[int, int]:
        """Width and depth of the network."""
        width, depth = recipes.get_recipe(self.encoding).layers or _LAYERS
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
    encoder = recipes.make_encoder(model, generator)
    build = recipes.get_network(recipes.get_recipe(model.encoding).network).build
    width, depth = model.layers
    network = build(encoder.out_dim, model.out_dim, width=width, depth=depth, generator=generator)
    return encoder, network
