"""Models of one system from several seeds, trained side by side, each as if alone."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nerf_posenc.training.batches import DrawBatch


class Ensemble(nn.Module):
    """Run several models, each on its own inputs.

    Args:
        members: models, 1 or more.
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, inputs: Sequence[Any]) -> list[Any]:
        """Outputs of each member for its own inputs."""
        return [member(x) for member, x in zip(self.members, inputs, strict=True)]


def member_losses(loss_fn: Callable[[Any, Any], Tensor]) -> Callable[[Any, Any], Tensor]:
    """Make the loss of each member: a vector, from the outputs and the targets of all.

    Args:
        loss_fn: function from one member's prediction and targets to a scalar.
    """

    def losses(predictions: Any, targets: Any) -> Tensor:
        return torch.stack([loss_fn(*each) for each in zip(predictions, targets, strict=True)])

    return losses


def member_batches(draws: Sequence[DrawBatch]) -> DrawBatch:
    """Draw the batches of all members: inputs and targets, each with one part per member."""

    def draw_batch(step: int) -> tuple[Any, Any]:
        inputs, targets = zip(*(draw(step) for draw in draws), strict=True)
        return inputs, targets

    return draw_batch
