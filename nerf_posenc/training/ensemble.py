"""Batched ensembles: several models of one architecture, trained as one, each as if alone."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils import _pytree as pytree

from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.loop import Loss


class Ensemble(nn.Module):
    """Run several models of one architecture, each on its own batch.

    The weights and buffers of the members are stacked in every pass: a layer of all of them is one
    batched product, which fills a GPU that a single small model does not. The parameters remain
    those of the members, so that an optimizer treats each as if it were alone.

    Args:
        members: models of one architecture, 1 or more.
        is_stackable: False runs the members one after the other: for models that ``torch.vmap``
            cannot run, such as LSTMs.

    Raises:
        ValueError: If there are no members, or their weights differ in shape.

    Examples:
        >>> ensemble = Ensemble([nn.Linear(2, 3) for _ in range(5)])
        >>> ensemble(torch.rand(5, 8, 2)).shape
        torch.Size([5, 8, 3])
    """

    def __init__(self, members: Sequence[nn.Module], *, is_stackable: bool = True) -> None:
        super().__init__()
        if not members:
            raise ValueError("an ensemble needs 1 member or more")
        shapes = [{name: p.shape for name, p in m.named_parameters()} for m in members]
        if any(other != shapes[0] for other in shapes):
            raise ValueError("the members of an ensemble must have weights of the same shapes")
        self.members = nn.ModuleList(members)
        self.is_stackable = is_stackable

    def forward(self, inputs: Any) -> Any:
        """Run each member on its own inputs.

        Args:
            inputs: a tensor, or nested tuples of tensors, with a first dimension over members.

        Returns:
            What the members return, stacked.
        """
        own = [pytree.tree_map(lambda t, i=i: t[i], inputs) for i in range(len(self.members))]
        if len(self.members) == 1 or not self.is_stackable:
            outputs = [member(x) for member, x in zip(self.members, own, strict=True)]
            return pytree.tree_map(lambda *parts: torch.stack(parts), *outputs)
        states = [_named_tensors(member) for member in self.members]
        weights = {name: torch.stack([state[name] for state in states]) for name in states[0]}
        stacked = pytree.tree_map(lambda *parts: torch.stack(parts), *own)
        # Through a closure, so that the first member is the template of all.
        first = self.members[0]
        return torch.vmap(lambda state, x: functional_call(first, state, (x,), tie_weights=False))(
            weights, stacked
        )


def _named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers: of a module that stands in several places once.

    ``functional_call`` with tied weights would replace such a module's tensors twice, and at the
    end put the replacement of the first time back.
    """
    return {
        name: tensor
        for prefix, part in module.named_modules()
        for name, tensor in (
            *part.named_parameters(prefix, recurse=False),
            *part.named_buffers(prefix, recurse=False),
        )
    }


def member_losses(loss_fn: Loss) -> Loss:
    """Make the loss of each member of an ensemble, whose first dimensions are over members.

    Args:
        loss_fn: function from one member's prediction and targets to a scalar.
    """

    def losses(predictions: Any, targets: Tensor) -> Tensor:
        own = (pytree.tree_map(lambda t, i=i: t[i], predictions) for i in range(len(targets)))
        return torch.stack([loss_fn(*each) for each in zip(own, targets, strict=True)])

    return losses


def stacked_draws(draws: Sequence[DrawBatch]) -> DrawBatch:
    """Stack the batches of several members, whose shapes must be equal."""

    def draw_batch(step: int) -> tuple[Any, Tensor]:
        inputs, targets = zip(*(draw(step) for draw in draws), strict=True)
        stacked = pytree.tree_map(lambda *parts: torch.stack(parts), *inputs)
        return stacked, torch.stack(targets)

    return draw_batch
