"""Camera poses that are refined beside the field: Gauss-Newton on the rays of each batch.

Gradient descent on poses needs some 100,000 steps (Lin et al. 2021, BARF): a camera's six numbers
have gradients of very different sizes. Here each view has the 6 x 6 matrix of its own Gauss-Newton
step, a running mean over the rays that recent batches drew of it, at no further backward pass.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nerf_posenc.radiance.poses import exp_se3
from nerf_posenc.radiance.rays import Rays
from nerf_posenc.training.schedules import cosine_decay

# What is left of the sums over rays from one step to the next.
_DECAY = 0.95
# Share of a Gauss-Newton step that is taken, times the schedule of learning rates.
_SHARE = 0.1
# Longest Gauss-Newton step, in radians and in units of the scene.
_LONGEST = 0.1
# Damping: shares of a direction's own curvature, and of the mean curvature of all six.
_OWN_DAMPING, _MEAN_DAMPING = 0.1, 0.1
# Rays whose color depends on the pose more than this many times as much as that of 99 in 100 are
# scaled down.
_STEEPEST = 3.0
# Shares of the fit: poses stand still until the first, while the field is fog; bands open from
# coarse to fine, and colors do not depend on the direction, until the second.
_POSES_FROM, _OPEN_AT = 0.08, 0.7


class _Drawn(NamedTuple):
    """What the backward pass leaves the gradients in."""

    views: Int[Tensor, " n"]
    origins: Float[Tensor, "n 3"]
    directions: Float[Tensor, "n 3"]
    rgb: Float[Tensor, "n 3"]


class PoseRefinement(nn.Module):
    """Corrections of the poses of views, learned from the gradients by their rays.

    A pose ``world_from_camera`` is corrected to ``corrections @ world_from_camera``. The order of
    a training step: `forward` on the batch's rays, rendering, `watch`, the backward pass of a loss
    with the mean squared error of the colors, `update`.

    Args:
        num_views: number of views, 1 or more.

    Attributes:
        corrections: rigid transforms, one for each view; the identity at first.
        progress: how far the bands of the field's encoding are open, from 0 to 1.
    """

    corrections: Tensor
    curvature: Tensor
    slope: Tensor
    progress: Tensor

    def __init__(self, num_views: int) -> None:
        super().__init__()
        self.register_buffer("corrections", torch.eye(4).repeat(num_views, 1, 1))
        self.register_buffer("curvature", torch.zeros(num_views, 6, 6))
        self.register_buffer("slope", torch.zeros(num_views, 6))
        self.register_buffer("progress", torch.zeros(()))
        self._drawn: _Drawn | None = None
        self._moved: tuple[Tensor, Tensor, Tensor] | None = None

    def forward(self, rays: Rays, views: Int[Tensor, " n"]) -> Rays:
        """Rays from the corrected poses.

        Args:
            rays: rays from the poses as they were given.
            views: view of each ray.
        """
        with torch.no_grad():
            poses = self.corrections[views]
            # No matrix products, which autocast would round to half precision.
            origins = (rays.origins[:, None] * poses[:, :3, :3]).sum(-1) + poses[:, :3, 3]
            directions = (rays.directions[:, None] * poses[:, :3, :3]).sum(-1)
        if torch.is_grad_enabled():
            origins.requires_grad_()
            directions.requires_grad_()
            self._moved = views, origins, directions
        return rays._replace(origins=origins, directions=directions)

    def watch(self, rgb: Float[Tensor, "n 3"]) -> None:
        """Keep the gradient of the colors that the rays of the last call were rendered to."""
        if self._moved is not None and rgb.requires_grad:
            rgb.retain_grad()
            self._drawn = _Drawn(*self._moved, rgb)
        self._moved = None

    @torch.no_grad()
    def update(self, progress: float) -> None:
        """Step the poses by the gradients of the last backward pass.

        Args:
            progress: progress of the fit, from 0 to 1.
        """
        self.progress.fill_(min(1.0, progress / _OPEN_AT))
        drawn, self._drawn = self._drawn, None
        if drawn is None:
            return
        by_origin, by_direction, by_color = (
            drawn.origins.grad,
            drawn.directions.grad,
            drawn.rgb.grad,
        )
        assert by_origin is not None
        assert by_direction is not None
        assert by_color is not None
        # Gradient of half a ray's squared error by the twist of its camera about the origin: its
        # rotation moves both vectors, o' = o + w x o and d' = d + w x d, its translation the first.
        torque = torch.linalg.cross(drawn.origins, by_origin) + torch.linalg.cross(
            drawn.directions, by_direction
        )
        gradient = torch.cat([torque, by_origin], dim=-1)
        # That of the length |r| of its residual is J^T r / |r|. The gradient by the color is r
        # times the same factor as in J^T r, which cancels: 2 / (3 n) of the mean squared error.
        length = by_color.norm(dim=-1)
        gradient = gradient / length.clamp(min=1e-12)[:, None]
        residual = length * (drawn.rgb.numel() / 2)
        size = gradient.norm(dim=-1)
        most = _STEEPEST * torch.quantile(size, 0.99)
        gradient = gradient * (most / size.clamp(min=1e-12)).clamp(max=1)[:, None]
        # Sums over the rays of each view, of which older ones count less and less.
        outer = gradient[:, :, None] * gradient[:, None, :]
        self.curvature.mul_(_DECAY).index_add_(0, drawn.views, outer)
        self.slope.mul_(_DECAY).index_add_(0, drawn.views, gradient * residual[:, None])
        if progress >= _POSES_FROM:
            self._step(_SHARE * cosine_decay(progress))

    def _step(self, share: float) -> None:
        """Take a share of each view's damped Gauss-Newton step."""
        own = self.curvature.diagonal(dim1=-2, dim2=-1)
        damping = _OWN_DAMPING * own + _MEAN_DAMPING * own.mean(-1, keepdim=True) + 1e-6
        system = self.curvature + torch.diag_embed(damping)
        twist = -torch.linalg.solve_ex(system, self.slope).result
        twist = twist * (_LONGEST / twist.norm(dim=-1, keepdim=True).clamp(min=_LONGEST))
        self.corrections.copy_(exp_se3(share * twist) @ self.corrections)
