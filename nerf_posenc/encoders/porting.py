"""Port weights trained with one column order to another."""

import torch
from torch import Tensor, nn

from nerf_posenc.encoders.fourier import FourierEncoder


def column_order(source: FourierEncoder, target: FourierEncoder) -> Tensor:
    """Index in ``source`` of each column of ``target``.

    ``source(x)[..., column_order(source, target)]`` equals ``target(x)`` to the bit.

    Args:
        source: the encoder that the columns come from.
        target: the encoder with the wanted order: the same bands, in any convention.

    Returns:
        Indices, int64, ``(target.out_dim,)``.

    Raises:
        ValueError: If the encoders differ in coordinates, bands or basis, or ``target`` has a
            raw input that ``source`` lacks.
    """
    same_basis = (source.basis is None) == (target.basis is None) and (
        source.basis is None or torch.equal(source.basis, target.basis)  # type: ignore[arg-type]
    )
    if not (
        source.in_dim == target.in_dim
        and torch.equal(source.sincos.bands, target.sincos.bands)
        and same_basis
    ):
        raise ValueError(
            "the encoders have different coordinates, bands or directions; only the order of "
            "columns can be changed, so give both the same (base, min_octave, num_bands)"
        )
    place = {column: i for i, column in enumerate(source.columns)}
    missing = [column for column in target.columns if column not in place]
    if missing:
        raise ValueError(
            f"the source has no column for {missing[0]} (band, phase, axis), which the target has"
        )
    return torch.tensor([place[column] for column in target.columns], dtype=torch.long)


def port_linear(linear: nn.Linear, source: FourierEncoder, target: FourierEncoder) -> nn.Linear:
    """Port a first linear layer from one column order to another.

    ``port_linear(linear, source, target)(target(x))`` equals ``linear(source(x))`` but for
    the order of the sums, so that a checkpoint of one library runs on the encoder of another.

    Args:
        linear: the layer after ``source``; it is not changed.
        source: the encoder it was trained with.
        target: the encoder it is to follow.

    Returns:
        A new layer.

    Raises:
        ValueError: If the encoders differ in more than the order of their columns, or the
            layer does not fit ``source``.
    """
    if linear.in_features != source.out_dim:
        raise ValueError(
            f"the layer takes {linear.in_features} features and the source gives {source.out_dim}"
        )
    order = column_order(source, target)
    if len(order) != source.out_dim:
        raise ValueError("the target lacks columns of the source, whose weights would be lost")
    ported = nn.Linear(
        target.out_dim,
        linear.out_features,
        bias=linear.bias is not None,
        device=linear.weight.device,
        dtype=linear.weight.dtype,
    )
    with torch.no_grad():
        ported.weight.copy_(linear.weight[:, order.to(linear.weight.device)])
        if linear.bias is not None:
            ported.bias.copy_(linear.bias)
    return ported
