"""Camera poses that are refined beside the field, by Gauss-Newton on the rays of each batch.

Adam steps all parameters of a pose at the same rate, also those that the rays hardly determine, and
needs some 100,000 steps (Lin et al. 2021, BARF). Here every view has a Gauss-Newton matrix of its
own: a running mean over recent batches, of gradients that the backward pass computes anyway.

A fit has three stages:

1. ``SEARCH``: poses are refined while the bands of the field's encoding open from coarse to fine.
2. ``RESTART``: the field is initialized again, with all bands open, since a field that was trained
   with wrong poses stays blurred. Poses are frozen until the new field is sharp. Views whose poses
   are outliers are left out, so that the field does not fit them.
3. ``REFINEMENT``: the poses of the outliers are searched for, and all poses are refined to the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from nerf_posenc.radiance.poses import exp_se3
from nerf_posenc.radiance.rays import Rays
from nerf_posenc.training.schedules import cosine_decay

if TYPE_CHECKING:
    from jaxtyping import Float, Int

# Decay of the sums over rays, per batch.
_DECAY = 0.95
# Damping of each of the six numbers of a step, as a share of its own curvature, and as a share of
# the mean curvature of all six: while the bands open, which shortens steps in directions that a
# coarse field hardly determines, and once all are open.
_OWN_DAMPING, _COARSE_DAMPING, _FINE_DAMPING = 0.1, 0.5, 0.05
# Gradients of single rays are clipped at this multiple of the 99th percentile of their lengths.
_STEEPEST = 3.0
# Share of a Gauss-Newton step that is taken, times the schedule of learning rates. A whole step
# would overshoot, since the field is trained at the same time.
_SHARE = 0.15
# Longest step, in radians and in units of the scene: where a blurred field has little curvature, a
# Gauss-Newton step would leave the scene.
_LONGEST = 0.1
# A view is an outlier if its error is this many times the median of all views.
_OUTLIER = 3.0
# Rays of each view by which its error is measured.
_CHECKED = 512
# Largest share of the views that are outliers, the worst first: each takes half a minute to
# relocalize.
_MOST_OUTLIERS = 0.1
# Candidate poses in each round of the search for an outlier's pose (cross-entropy method).
_CANDIDATES = 256
# Rounds of the search; each draws around the best candidates of those before.
_ROUNDS = 16
# Best candidates of a round, and the weight of their mean and covariance in those of the next
# draw: with fewer candidates, or a larger weight, the search converges before it finds the pose.
_KEPT, _NEW = 32, 0.7
# Rays that a candidate is judged by.
_RAYS = 128
# Standard deviation of the first round, in radians and in units of the scene.
_SPREAD = 0.2


class Search(NamedTuple):
    """How poses are searched for.

    Attributes:
        restart: share of the fit after which the search ends and the field restarts.
        sharp: share of the fit after which the field is sharp enough to refine poses by.
        open: share of the bands that are open from the start.
        still: share of the search for which poses are frozen, while the field is fog.
    """

    restart: float
    sharp: float
    open: float
    still: float


SEARCH_IN_BOX = Search(restart=0.4, sharp=0.52, open=0.0, still=0.05)
"""For poses that are roughly known, of a scene in its own box."""

# What lies between the cameras takes little of the cube of an endless space: with the coarsest
# bands alone it would be a single blur.
SEARCH_IN_SPACE = SEARCH_IN_BOX._replace(open=0.25, still=0.25)
"""For poses that are roughly known, in all of space."""

SEARCH, RESTART, REFINEMENT = range(3)
"""Stages of a fit with poses that are refined."""

DrawOfView = Callable[[int, int, int], tuple[Rays, Tensor]]
"""From a view, a number of rays and a seed to rays from its pose as given, and their colors."""


class PoseRefinement(nn.Module):
    """Corrections of the poses of views, learned from the gradients by their rays.

    A pose ``world_from_camera`` is corrected to ``corrections @ world_from_camera``. The order of
    a training step: `forward` on the batch's rays, rendering, `watch`, the backward pass of a loss
    with the mean squared error of the colors, `enter`, `update`.

    Args:
        num_views: number of views, 1 or more.
        search: settings of the search for poses.

    Attributes:
        corrections: rigid transforms, one for each view; the identity at first.
        progress: open share of the bands of the field's encoding, from 0 to 1.
        stage: ``SEARCH``, ``RESTART`` or ``REFINEMENT``, saved with the tensors.
        left_out: views from which the field learns nothing, saved with the stage.
    """

    corrections: Tensor
    progress: Tensor
    curvature: Tensor
    slope: Tensor
    _is_left_out: Tensor

    def __init__(self, num_views: int, search: Search = SEARCH_IN_BOX) -> None:
        super().__init__()
        self.search = search
        self.register_buffer("corrections", torch.eye(4).repeat(num_views, 1, 1))
        self.register_buffer("progress", torch.zeros(()))
        # Sums over the rays of each view, from which its step is solved.
        self.register_buffer("curvature", torch.zeros(num_views, 6, 6))
        self.register_buffer("slope", torch.zeros(num_views, 6))
        self.register_buffer(
            "_is_left_out", torch.zeros(num_views, dtype=torch.bool), persistent=False
        )
        self._rays: tuple[Tensor, Tensor, Tensor] | None = None
        self._rgb: Tensor | None = None
        # Plain numbers: to read a tensor, the host would wait for the device.
        self.stage = SEARCH
        self.left_out: list[int] = []

    def forward(self, rays: Rays, views: Int[Tensor, " n"]) -> Rays:
        """Rays from the corrected poses.

        Args:
            rays: rays from the poses as they were given.
            views: view of each ray.
        """
        with torch.no_grad():
            moved = _moved(rays, self.corrections[views])
        if torch.is_grad_enabled():
            self._rays = views, moved.origins.requires_grad_(), moved.directions.requires_grad_()
        return moved

    def watch(self, rgb: Float[Tensor, "n 3"]) -> None:
        """Keep the gradient of the colors that the rays of the last call were rendered to.

        Colors of views that are left out have none.
        """
        if self._rays is not None and rgb.requires_grad:
            is_taken = ~self._is_left_out[self._rays[0]][:, None]
            rgb.register_hook(lambda by_color: by_color * is_taken)
            rgb.retain_grad()
            self._rgb = rgb

    def get_extra_state(self) -> Tensor:
        """The stage and the views that are left out, for ``state_dict``."""
        return torch.tensor([self.stage, *self.left_out])

    def set_extra_state(self, state: Tensor) -> None:
        """Load the stage and the views that are left out; earlier versions have a number."""
        self.stage, *left_out = state.flatten().tolist()
        self.leave_out(left_out)

    def enter(self, progress: float) -> int | None:
        """Stage that the fit enters at this progress; None if it is in it already.

        No stage is left out or entered twice, although progress is an estimate in a fit of seconds.
        """
        if (progress >= self.search.restart) + (progress >= self.search.sharp) <= self.stage:
            return None
        self.stage += 1
        return self.stage

    def schedule(self, progress: float) -> float:
        """Factor of the learning rates, and of the steps of poses: `cosine_decay` for each field.

        Args:
            progress: share of the fit in [0, 1).
        """
        restart = self.search.restart
        if progress < restart:
            return cosine_decay(progress / restart)
        return cosine_decay((progress - restart) / (1 - restart))

    def leave_out(self, views: list[int]) -> None:
        """Let the field learn from all views but these.

        Args:
            views: their numbers.
        """
        self.left_out = views
        self._is_left_out.zero_()
        if views:
            self._is_left_out[views] = True

    @torch.no_grad()
    def relocalize_outliers(self, render: Callable[[Rays], Tensor], draw: DrawOfView) -> None:
        """Take all views again, and search for the poses of those with errors far above the median.

        Gauss-Newton steps end in the nearest minimum, which may be a wrong one if a pose begins 30
        degrees off. The cross-entropy method (Rubinstein 1999) draws many poses, and then others
        around the best of them, more and more closely: twice around the pose that was given, and
        if none is found, around the present one. A pose whose error is less than half of the
        present one's is taken.

        Args:
            render: function from rays to colors.
            draw: rays of a view.
        """
        self.leave_out([])
        given = torch.eye(4).to(self.corrections)
        for view in self.outliers(render, draw):
            for seed, start in enumerate((given, given, self.corrections[view])):
                if self._relocalize(view, start, render, draw, seed):
                    break

    @torch.no_grad()
    def outliers(self, render: Callable[[Rays], Tensor], draw: DrawOfView) -> list[int]:
        """Views whose errors are far above the median, the worst first, a tenth of all at most.

        Args:
            render: function from rays to colors.
            draw: rays of a view.
        """
        views = range(len(self.corrections))
        errors = torch.cat(
            [_errors(render, draw(i, _CHECKED, 0), self.corrections[i : i + 1]) for i in views]
        )
        ratios = (errors / errors.median()).tolist()
        worst = sorted(views, key=lambda view: -ratios[view])
        most = math.ceil(_MOST_OUTLIERS * len(ratios))
        return [view for view in worst[:most] if ratios[view] > _OUTLIER]

    def _relocalize(
        self,
        view: int,
        start: Tensor,
        render: Callable[[Rays], Tensor],
        draw: DrawOfView,
        seed: int,
    ) -> bool:
        """Search around a correction; whether a better one is found and taken."""
        present = self.corrections[view]
        generator = torch.Generator(present.device).manual_seed(len(self.corrections) * seed + view)
        # Cross-entropy method: draw twists, keep the best, draw around them with their covariance,
        # since a rotation and a translation that undoes it belong together.
        mean, identity = present.new_zeros(6), torch.eye(6).to(present)
        covariance = _SPREAD**2 * identity
        for round_number in range(1, _ROUNDS + 1):
            drawn = torch.randn(_CANDIDATES, 6, generator=generator, device=present.device)
            # Rounding may leave a negative variance in a direction that has converged.
            twists = mean + drawn @ torch.linalg.cholesky(covariance + 1e-9 * identity).mT
            rays = draw(view, _RAYS, round_number)
            best = twists[_errors(render, rays, exp_se3(twists) @ start).argsort()[:_KEPT]]
            mean = torch.lerp(mean, best.mean(0), _NEW)
            covariance = torch.lerp(covariance, best.mT.cov(), _NEW)
        # Compared on rays drawn anew.
        both = torch.stack([present, exp_se3(mean) @ start])
        before, after = _errors(render, draw(view, _CHECKED, _ROUNDS + 1), both)
        is_found = bool(after < before / 2)
        if is_found:
            self.corrections[view] = both[1]
            # The sums of Gauss-Newton belong to the pose that is left.
            self.curvature[view] = 0
            self.slope[view] = 0
        return is_found

    @torch.no_grad()
    def update(self, progress: float) -> None:
        """Step the poses by the gradients of the last backward pass.

        Args:
            progress: progress of the fit, from 0 to 1.
        """
        searched = progress / self.search.restart if self.stage == SEARCH else 1.0
        first = self.search.open
        self.progress.fill_(first + (1 - first) * searched)
        is_still = self.stage == RESTART or searched < self.search.still
        self.step(0.0 if is_still else self.schedule(progress))

    @torch.no_grad()
    def step(self, share: float) -> None:
        """Take a share of the Gauss-Newton steps by the gradients of the last backward pass.

        Args:
            share: share of the usual step, from 0 to 1; at 0 gradients are accumulated, and the
                poses stay.
        """
        if self._rays is None or self._rgb is None:
            return
        (views, origins, directions), rgb = self._rays, self._rgb
        self._rays = self._rgb = None
        by_origin, by_direction, by_color = origins.grad, directions.grad, rgb.grad
        assert by_origin is not None
        assert by_direction is not None
        assert by_color is not None
        # By the twist of the camera about the origin: its rotation w moves both vectors of a ray,
        # o' = o + w x o and d' = d + w x d, its translation the first.
        torque = torch.linalg.cross(origins, by_origin)
        torque += torch.linalg.cross(directions, by_direction)
        self._add(views, torch.cat([torque, by_origin], dim=-1), by_color)
        if share > 0:
            twists = _SHARE * share * self._twists()
            self.corrections.copy_(exp_se3(twists) @ self.corrections)
            # Thousands of products in float32 would stretch the rotations: a step of Newton's
            # iteration to the nearest orthogonal matrix.
            rotations = self.corrections[:, :3, :3]
            rotations.copy_(1.5 * rotations - 0.5 * rotations @ rotations.mT @ rotations)

    def _add(self, views: Tensor, by_twist: Tensor, by_color: Tensor) -> None:
        """Add the rays of a batch, by the gradients of its loss."""
        # Of the mean of n squares the gradient by the colors is 2 / n times the residual r, and by
        # the twist 2 / n times J^T r. The backward pass gives one gradient for all three colors, so
        # that a ray counts by the length |r|, whose gradient is J^T r / |r|.
        length = by_color.norm(dim=-1)
        gradient = by_twist / length.clamp(min=1e-12)[:, None]
        residual = length * (by_color.numel() / 2)
        size = gradient.norm(dim=-1)
        most = _STEEPEST * torch.quantile(size, 0.99)
        gradient = gradient * (most / size.clamp(min=1e-12)).clamp(max=1)[:, None]
        # Older batches count less and less.
        outer = gradient[:, :, None] * gradient[:, None, :]
        self.curvature.mul_(_DECAY).index_add_(0, views, outer)
        self.slope.mul_(_DECAY).index_add_(0, views, gradient * residual[:, None])

    def _twists(self) -> Float[Tensor, "views 6"]:
        """Damped Gauss-Newton step of every view, with a limit to its length."""
        # Levenberg-Marquardt: each direction's own curvature, and a share of the mean one for
        # directions that nothing determines.
        own = self.curvature.diagonal(dim1=-2, dim2=-1)
        share = torch.where(self.progress < 1, _COARSE_DAMPING, _FINE_DAMPING)
        damping = _OWN_DAMPING * own + share * own.mean(-1, keepdim=True) + 1e-6
        system = self.curvature + torch.diag_embed(damping)
        twist: Tensor = -torch.linalg.solve_ex(system, self.slope).result
        limit: Tensor = _LONGEST / twist.norm(dim=-1, keepdim=True).clamp(min=_LONGEST)
        return twist * limit


def _moved(rays: Rays, poses: Float[Tensor, "*n 4 4"]) -> Rays:
    """Rays moved by rigid transforms; no matrix products, which autocast would round."""
    origins = (rays.origins[..., None, :] * poses[..., :3, :3]).sum(-1) + poses[..., :3, 3]
    directions = (rays.directions[..., None, :] * poses[..., :3, :3]).sum(-1)
    return rays._replace(origins=origins, directions=directions)


def _errors(
    render: Callable[[Rays], Tensor], drawn: tuple[Rays, Tensor], poses: Float[Tensor, "n 4 4"]
) -> Float[Tensor, " n"]:
    """Mean squared error of the same rays at each of several poses."""
    rays, rgb = drawn
    count = len(poses)
    many = Rays(*(part.repeat(count, *[1] * (part.ndim - 1)) for part in rays))
    renderings = render(_moved(many, poses.repeat_interleave(len(rgb), dim=0)))
    return (renderings.view(count, *rgb.shape) - rgb).square().mean((1, 2))
