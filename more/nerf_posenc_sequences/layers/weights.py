"""Initial weights from a generator, so that a seed gives one model whatever ran before."""

import torch
from torch import nn


@torch.no_grad()
def initialize(module: nn.Module, generator: torch.Generator) -> None:
    """Draw the weights of all linear, convolution and embedding layers anew.

    Linear and convolution layers are Xavier-uniform (Glorot and Bengio 2010) with zero biases.
    Embeddings are normal with variance 1 / width, which the factor sqrt(width) of the Transformer
    makes 1.

    Args:
        module: its layers are changed in place; other parameters are left as they are.
        generator: random number generator.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv1d):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.Embedding):
            width = layer.embedding_dim
            nn.init.normal_(layer.weight, std=width**-0.5, generator=generator)
            if layer.padding_idx is not None:
                layer.weight[layer.padding_idx] = 0
