"""Camera poses that are refined beside the field, by Gauss-Newton on the rays of each batch."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nerf_posenc.radiance.poses import exp_se3
from nerf_posenc.radiance.rays import Rays
from nerf_posenc.training.gauss_newton import GaussNewton
from nerf_posenc.training.schedules import cosine_decay

# Share of a Gauss-Newton step that is taken, times the schedule of learning rates, and the longest
# step in radians and in units of the scene.
_SHARE, _LONGEST = 0.15, 0.1
_DAMPING = 0.5
# Share of the fit after which all bands are open and colors depend on the direction.
_OPEN_AT = 0.6
# Shares of the fit for which poses stand still, while the field is fog, and of the bands that are
# open from the start. What lies between the cameras is small in the cube of an endless space: the
# coarsest bands alone would blur it beyond recognition.
_STILL_IN_BOX, _OPEN_IN_BOX = 0.05, 0.0
_STILL, _OPEN = 0.15, 0.25


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
        is_boxed: whether the field's cube is the scene's own box.

    Attributes:
        corrections: rigid transforms, one for each view; the identity at first.
        progress: how far the bands of the field's encoding are open, from 0 to 1.
    """

    corrections: Tensor
    progress: Tensor

    def __init__(self, num_views: int, *, is_boxed: bool = True) -> None:
        super().__init__()
        self._still, self._open = (_STILL_IN_BOX, _OPEN_IN_BOX) if is_boxed else (_STILL, _OPEN)
        self.register_buffer("corrections", torch.eye(4).repeat(num_views, 1, 1))
        self.register_buffer("progress", torch.zeros(()))
        self.steps = GaussNewton(num_views, 6, longest=_LONGEST)
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
        self.progress.fill_(min(1.0, self._open + (1 - self._open) * progress / _OPEN_AT))
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
        # By the twist of the camera about the origin: its rotation w moves both vectors of a ray,
        # o' = o + w x o and d' = d + w x d, its translation the first.
        torque = torch.linalg.cross(drawn.origins, by_origin) + torch.linalg.cross(
            drawn.directions, by_direction
        )
        self.steps.add(drawn.views, torch.cat([torque, by_origin], dim=-1), by_color)
        if progress >= self._still:
            twist = _SHARE * cosine_decay(progress) * self.steps.step(_DAMPING)
            self.corrections.copy_(exp_se3(twist) @ self.corrections)
