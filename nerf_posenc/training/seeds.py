"""Several seeds of one model trained as one, each as if it were alone."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils import _pytree as pytree

from nerf_posenc.training.batches import DrawBatch


class SeedEnsemble(nn.Module):
    """Run several models of one architecture, each on its own batch.

    The weights and buffers of the members are stacked in every pass and the members run as one
    batched model, which on small models costs little more than one of them. The parameters remain
    those of the members.

    Args:
        members: models of one architecture, 1 or more.
        is_stackable: False runs them one after the other: for models that ``torch.vmap`` cannot
            run, such as LSTMs.

    Raises:
        ValueError: If there are none, or their weights differ in shape.

    Examples:
        >>> ensemble = SeedEnsemble([nn.Linear(2, 3) for _ in range(5)])
        >>> ensemble(torch.rand(5, 8, 2)).shape
        torch.Size([5, 8, 3])
    """

    def __init__(self, members: Sequence[nn.Module], *, is_stackable: bool = True) -> None:
        super().__init__()
        if not members:
            raise ValueError("an ensemble needs one model or more")
        shapes = [{name: p.shape for name, p in m.named_parameters()} for m in members]
        if any(other != shapes[0] for other in shapes):
            raise ValueError("the models of an ensemble must have weights of the same shapes")
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
            outputs = [m(x) for m, x in zip(self.members, own, strict=True)]
            return pytree.tree_map(lambda *parts: torch.stack(parts), *outputs)
        names = {
            **dict(self.members[0].named_parameters()),
            **dict(self.members[0].named_buffers()),
        }
        states = [{**dict(m.named_parameters()), **dict(m.named_buffers())} for m in self.members]
        stacked = {name: torch.stack([state[name] for state in states]) for name in names}
        # Through a closure, so that the first member is the template of all.
        first = self.members[0]
        return torch.vmap(lambda state, x: functional_call(first, state, (x,)))(stacked, inputs)


class SeedLoss:
    """Sum of the members' losses, so that each member's gradient is its own.

    The value is the mean over members; the losses of each are kept for its history.

    Args:
        loss_fn: from one member's prediction and targets to a scalar.
    """

    def __init__(self, loss_fn: Callable[[Any, Tensor], Tensor]) -> None:
        self._loss_fn = loss_fn
        self._recent: list[Tensor] = []
        self.histories: list[list[float]] = []

    def __call__(
        self, predictions: Any, targets: Float[Tensor, "members *batch"] | Tensor
    ) -> Tensor:
        """Losses of all members."""
        num_members = len(targets)
        losses = torch.stack(
            [
                self._loss_fn(pytree.tree_map(lambda t, i=i: t[i], predictions), targets[i])
                for i in range(num_members)
            ]
        )
        self._recent.append(losses.detach())
        total = losses.sum()
        return total + (losses.mean() - total).detach()

    def record(self) -> None:
        """Note the mean loss of each member since the previous record."""
        self.histories.append(torch.stack(self._recent).mean(0).tolist())
        self._recent = []

    def state_dict(self) -> dict[str, Any]:
        """Return plain containers and tensors."""
        return {"losses": self.histories, "recent": list(self._recent)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what was saved."""
        self.histories = [[float(loss) for loss in each] for each in state["losses"]]
        self._recent = list(state["recent"])


def stacked_draws(draws: Sequence[DrawBatch]) -> DrawBatch:
    """Stack the batches of several seeds, whose shapes must be equal."""

    def draw_batch(step: int) -> tuple[Any, Tensor]:
        inputs, targets = zip(*(draw(step) for draw in draws), strict=True)
        stacked = pytree.tree_map(lambda *parts: torch.stack(parts), *inputs)
        return stacked, torch.stack(targets)

    return draw_batch
