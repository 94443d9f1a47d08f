"""Batched ensembles: several models of one architecture, trained as one, each as if alone."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils import _pytree as pytree

from nerf_posenc.training.batches import DrawBatch


class Ensemble(nn.Module):
    """Run several models of one architecture, each on its own batch.

    The weights and buffers of the members are stacked in every pass: a layer of all of them is one
    batched product, which fills a GPU that a single small model does not. The parameters remain
    those of the members, so that an optimizer treats each as if it were alone.

    Args:
        members: models of one architecture, 1 or more.
        encoders: what each member's inputs pass first, one after the other, such as encoders with
            buffers of their own; None for nothing.
        is_stackable: False runs the members one after the other: for models that ``torch.vmap``
            cannot run, such as LSTMs.

    Raises:
        ValueError: If there are no members, as many encoders as members are not given, or the
            members' weights differ in shape.

    Examples:
        >>> ensemble = Ensemble([nn.Linear(2, 3) for _ in range(5)])
        >>> ensemble(torch.rand(5, 8, 2)).shape
        torch.Size([5, 8, 3])
    """

    def __init__(
        self,
        members: Sequence[nn.Module],
        encoders: Sequence[nn.Module] | None = None,
        *,
        is_stackable: bool = True,
    ) -> None:
        super().__init__()
        if not members or (encoders is not None and len(encoders) != len(members)):
            raise ValueError(
                "an ensemble needs 1 member or more, and as many encoders if any; got "
                f"{len(members)} members and {encoders and len(encoders)} encoders"
            )
        shapes = [{name: p.shape for name, p in m.named_parameters()} for m in members]
        if any(other != shapes[0] for other in shapes):
            raise ValueError("the members of an ensemble must have weights of the same shapes")
        self.members = nn.ModuleList(members)
        self.encoders = None if encoders is None else nn.ModuleList(encoders)
        self.is_stackable = is_stackable

    def forward(self, inputs: Any) -> Any:
        """Run each member on its own inputs.

        Args:
            inputs: a tensor, or nested tuples of tensors, with a first dimension over members.

        Returns:
            What the members return, stacked.
        """
        own = [pytree.tree_map(lambda t, i=i: t[i], inputs) for i in range(len(self.members))]
        if self.encoders is not None:
            own = [encoder(x) for encoder, x in zip(self.encoders, own, strict=True)]
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


class MemberLosses:
    """Loss of an ensemble, which keeps the loss of each member for its history.

    The gradient is that of the sum of the members' losses, so that each member's is its own; the
    value is their mean.

    Args:
        loss_fn: function from one member's prediction and targets to a scalar.

    Attributes:
        histories: mean loss of each member at every record.
    """

    def __init__(self, loss_fn: Callable[[Any, Tensor], Tensor]) -> None:
        self._loss_fn = loss_fn
        self._recent: list[Tensor] = []
        self.histories: list[list[float]] = []

    def __call__(self, predictions: Any, targets: Tensor) -> Tensor:
        """Loss of all members, whose first dimension is over members."""
        losses = torch.stack(
            [
                self._loss_fn(pytree.tree_map(lambda t, i=i: t[i], predictions), targets[i])
                for i in range(len(targets))
            ]
        )
        self._recent.append(losses.detach())
        total = losses.sum()
        return total + (losses.mean() - total).detach()

    def record(self) -> None:
        """Note the mean loss of each member since the previous record."""
        # Losses that a checkpoint gave back may lie on another device than those since.
        device = self._recent[-1].device
        recent = torch.stack([losses.to(device) for losses in self._recent])
        self.histories.append(recent.mean(0).tolist())
        self._recent = []

    def state_dict(self) -> dict[str, Any]:
        """Return plain containers and tensors."""
        return {"losses": self.histories, "recent": list(self._recent)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what was saved."""
        self.histories = [[float(loss) for loss in each] for each in state["losses"]]
        self._recent = list(state["recent"])


def stacked_draws(draws: Sequence[DrawBatch]) -> DrawBatch:
    """Stack the batches of several members, whose shapes must be equal."""

    def draw_batch(step: int) -> tuple[Any, Tensor]:
        inputs, targets = zip(*(draw(step) for draw in draws), strict=True)
        stacked = pytree.tree_map(lambda *parts: torch.stack(parts), *inputs)
        return stacked, torch.stack(targets)

    return draw_batch
