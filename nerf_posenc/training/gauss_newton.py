"""Gauss-Newton steps from gradients of batches: for few numbers that have very different effects.

Poses and warps are learned beside a field, from batches that hold a few residuals of each. Adam
moves each of their numbers at the same rate, also one that the residuals do not determine, and
needs some 100,000 steps (Lin et al. 2021, BARF). Here every group of numbers has the matrix of its
own step, a running mean over recent batches, from gradients that the backward pass gives anyway.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

# What is left of the sums over residuals from one batch to the next.
_DECAY = 0.95
# Damping by a share of each number's own curvature.
_OWN_DAMPING = 0.1
# A gradient that is more than this many times as long as 99 in 100 is shortened to it.
_STEEPEST = 3.0


class GaussNewton(nn.Module):
    """Sums over the residuals of each group, and the damped steps that they give.

    Args:
        num_groups: number of groups, such as views, 1 or more.
        dim: numbers that each group learns, 1 or more.
        longest: length of the longest step.
    """

    curvature: Tensor
    slope: Tensor

    def __init__(self, num_groups: int, dim: int, *, longest: float) -> None:
        super().__init__()
        self.longest = longest
        self.register_buffer("curvature", torch.zeros(num_groups, dim, dim))
        self.register_buffer("slope", torch.zeros(num_groups, dim))

    @torch.no_grad()
    def add(
        self,
        groups: Int[Tensor, " n"],
        gradient: Float[Tensor, "n dim"],
        by_output: Float[Tensor, "n channels"],
    ) -> None:
        """Add a batch whose loss is the mean of all squared residuals.

        A residual of several channels counts by its length, as the backward pass gives one gradient
        for all of them.

        Args:
            groups: group of each residual.
            gradient: gradient of the loss by the numbers of its group.
            by_output: gradient of the loss by what was compared with the target.
        """
        # Of the mean over n channels, the gradient by the output is 2 / n times the residual r, and
        # that by the numbers 2 / n times J^T r. The gradient of |r| is J^T r / |r|.
        length = by_output.norm(dim=-1)
        gradient = gradient / length.clamp(min=1e-12)[:, None]
        residual = length * (by_output.numel() / 2)
        size = gradient.norm(dim=-1)
        most = _STEEPEST * torch.quantile(size, 0.99)
        gradient = gradient * (most / size.clamp(min=1e-12)).clamp(max=1)[:, None]
        # Older batches count less and less.
        outer = gradient[:, :, None] * gradient[:, None, :]
        self.curvature.mul_(_DECAY).index_add_(0, groups, outer)
        self.slope.mul_(_DECAY).index_add_(0, groups, gradient * residual[:, None])

    @torch.no_grad()
    def step(self, damping: float) -> Float[Tensor, "groups dim"]:
        """Damped Gauss-Newton step of every group.

        Args:
            damping: share of the mean curvature that is added to that of every direction: a large
                one holds those back that the residuals hardly determine.
        """
        own = self.curvature.diagonal(dim1=-2, dim2=-1)
        added = _OWN_DAMPING * own + damping * own.mean(-1, keepdim=True) + 1e-6
        system = self.curvature + torch.diag_embed(added)
        step: Tensor = -torch.linalg.solve_ex(system, self.slope).result
        shorter: Tensor = self.longest / step.norm(dim=-1, keepdim=True).clamp(min=self.longest)
        return step * shorter
