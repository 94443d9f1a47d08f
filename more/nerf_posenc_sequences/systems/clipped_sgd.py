"""Stochastic gradient descent with clipped gradients."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


class ClippedSGD(torch.optim.SGD):
    """SGD without momentum that clips the gradient norm of each model by itself.

    Args:
        members: models, each a group of parameters.
        lr: learning rate.
        max_norm: limit of the norm of all gradients of a model, above 0.
        loss_scale: factor of the gradients before they are clipped: the batch size, where
            ``lr`` and ``max_norm`` are for a loss summed over the batch and the loss is a mean.

    Raises:
        ValueError: If the limit or the factor is not above 0.
    """

    def __init__(
        self,
        members: Sequence[nn.Module],
        *,
        lr: int | float,
        max_norm: int | float,
        loss_scale: int | float = 1,
    ) -> None:
        if max_norm <= 0 or loss_scale <= 0:
            raise ValueError(
                f"max_norm and loss_scale must be above 0; got {max_norm} and {loss_scale}"
            )
        super().__init__([{"params": list(member.parameters())} for member in members], lr=lr)
        self.max_norm = max_norm
        self.loss_scale = loss_scale

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take one step."""
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            gradients = [p.grad for p in parameters]
            norm = torch.stack(torch._foreach_norm(gradients)).norm() * self.loss_scale
            factor = self.loss_scale * (self.max_norm / norm.clamp(min=1e-12)).clamp(max=1)
            torch._foreach_mul_(gradients, factor)
            torch._foreach_add_(parameters, gradients, alpha=-group["lr"])
