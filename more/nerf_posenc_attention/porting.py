"""Port weights of attention between the pairings of rotary embeddings."""

import copy

import torch
from torch import nn


def port_rotary(
    layer: nn.Linear, num_heads: int, *, to: str, rotary_dim: int | None = None
) -> nn.Linear:
    """Port a query's or key's projection between interleaved and half pairing.

    With both ported, ``RotaryEncoder(dim, pairing="half")`` gives the scores that
    ``"interleaved"`` gave before: Llama's own weights and those in transformers differ so.

    Args:
        layer: projection whose outputs are the columns of one head after the other; it is not
            changed. With a bias, that is put in order too.
        num_heads: number of heads (of keys, in grouped attention).
        to: ``"half"`` or ``"interleaved"``; the layer has the other one.
        rotary_dim: columns of a head that are rotated, from the first on; None is all.

    Returns:
        A new layer.

    Raises:
        TypeError: If it is no linear layer.
        ValueError: If the heads do not fit the layer, or an argument is out of its range.

    Examples:
        >>> port_rotary(nn.Linear(32, 64), num_heads=4, to="half").out_features
        64
    """
    if not isinstance(layer, nn.Linear):
        raise TypeError(f"layer must be an nn.Linear; got a {type(layer).__name__}")
    if to not in ("half", "interleaved"):
        raise ValueError(f"to must be 'half' or 'interleaved'; got {to!r}")
    if num_heads < 1 or layer.out_features % num_heads:
        raise ValueError(f"{num_heads} heads do not divide {layer.out_features} outputs")
    dim = layer.out_features // num_heads
    rotary_dim = dim if rotary_dim is None else rotary_dim
    if not 2 <= rotary_dim <= dim or rotary_dim % 2:
        raise ValueError(
            f"rotary_dim must be an even number of 2 to {dim}, the width of a head of "
            f"{layer.out_features} outputs and {num_heads} heads; got {rotary_dim}"
        )
    order = torch.arange(dim)
    shape = (-1, 2) if to == "half" else (2, -1)
    order[:rotary_dim] = order[:rotary_dim].reshape(shape).T.flatten()
    rows = (torch.arange(num_heads)[:, None] * dim + order).flatten()
    ported = copy.deepcopy(layer)
    rows = rows.to(layer.weight.device)
    with torch.no_grad():
        ported.weight.copy_(layer.weight[rows])
        if ported.bias is not None:
            ported.bias.copy_(layer.bias[rows])
    return ported
