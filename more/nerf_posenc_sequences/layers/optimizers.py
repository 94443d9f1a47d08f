"""Optimizers of the systems."""

from collections.abc import Sequence

from torch import nn

from nerf_posenc.training.optimizers import OptimizerGroup, muon


def muon_for_layers(
    members: Sequence[nn.Module], lr: float, *, adam_lr: float = 1e-2
) -> OptimizerGroup:
    """Muon on the matrices of all linear layers, Adam on everything else.

    Args:
        members: models that are trained together.
        lr: learning rate of Muon.
        adam_lr: learning rate of Adam.
    """
    matrices = [
        layer.weight
        for member in members
        for layer in member.modules()
        if isinstance(layer, nn.Linear)
    ]
    return muon(nn.ModuleList(members), matrices, lr=lr, adam_lr=adam_lr)
