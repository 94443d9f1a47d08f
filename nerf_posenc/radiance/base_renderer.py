"""Base class of renderers: from rays to pixels, and the training of the field in between."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from nerf_posenc.radiance.fields import RadianceField
from nerf_posenc.radiance.occupancy import OccupancyGrid
from nerf_posenc.radiance.ray_batches import RayBatch, RayBatches, occupied_pixels
from nerf_posenc.radiance.rays import Rays
from nerf_posenc.radiance.refinement import REFINEMENT, RESTART, SEARCH, PoseRefinement
from nerf_posenc.radiance.scene_spaces import BoxSpace
from nerf_posenc.radiance.views import Background, Views
from nerf_posenc.radiance.volume_rendering import Rendering
from nerf_posenc.training import recipes
from nerf_posenc.training.devices import autocast
from nerf_posenc.training.loop import FitState, ShownLoss
from nerf_posenc.training.optimizers import MUON_ADAM_LR, OptimizerGroup
from nerf_posenc.training.schedules import cosine_decay

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

OPAQUE = 7.0
"""Optical depth behind which samples are skipped: less than 1/1000 of the light passes it."""

PADDED_ROWS = 512
"""Rows of a query are padded to a multiple of this: a CPU's matrix library sets up every new number
of rows, which takes longer than the product itself."""

# The occupancy grid is not updated before this step: the densities of an untrained field would mark
# cells of the scene as empty.
_GRID_START = 100
# Steps between two updates of the occupancy grid, and the share of its cells in each.
_GRID_EVERY, _GRID_SHARE = 32, 0.25


class FieldRates(NamedTuple):
    """Peak learning rates of a field.

    Attributes:
        lrs: learning rate by optimizer; others have their own default.
        adam: learning rate of Adam beside Muon, for all but the hidden matrices.
    """

    lrs: Mapping[str, float] = MappingProxyType({"muon": 0.02, "adam": 5e-4})
    adam: float = MUON_ADAM_LR


DEFAULT_RATES = FieldRates()


class Renderer(nn.Module):
    """Base of the renderers: called with rays and a random number generator, gives a `Rendering`.

    A subclass has a ``field``, and may have a ``grid`` and ``poses``: both are then kept up to date
    by `after_step`. The other methods say how the field is trained.

    Args:
        space: space in which the cube [-1, 1]^3 of the field is the scene; None for the scene's own
            box.
        num_exposures: training views whose exposures are learned, a gain for each color channel;
            0 for none.
    """

    field: Any
    grid: OccupancyGrid | None
    poses: PoseRefinement | None
    space: BoxSpace

    chunk_size = 4096
    """Rays to render at once on a CPU: few enough for its cache."""
    coarse_weight = 1.0
    """Weight of the coarse pass in the loss."""
    known_share = 0.0
    """Share of a batch's rays that show points whose distances are known, if there are any."""

    def __init__(self, space: BoxSpace | None = None, *, num_exposures: int = 0) -> None:
        super().__init__()
        self.grid = None
        self.poses = None
        self.space = BoxSpace() if space is None else space
        self.log_gains = nn.Parameter(torch.zeros(num_exposures, 3)) if num_exposures else None
        self.rates = DEFAULT_RATES

    @property
    def fields(self) -> list[RadianceField]:
        """Fields that are trained: a coarse and a fine one, or one. The last one is shown."""
        return [self.field]

    @property
    def has_fixed_shapes(self) -> bool:
        """Whether every training step does the same operations, so that it can be captured.

        With an occupancy grid the number of samples varies; poses that are refined open the
        encoding from coarse to fine and restart the field.
        """
        return self.grid is None and self.poses is None

    def default_lr(self, optimizer: str) -> float:
        """Peak learning rate by the name of the optimizer."""
        return self.rates.lrs.get(optimizer, recipes.get_optimizer(optimizer).lr)

    def make_optimizer(self, optimizer: str, lr: float | None = None) -> OptimizerGroup:
        """Build the optimizer of the fields.

        Args:
            optimizer: one of ``recipes.OPTIMIZERS``.
            lr: peak learning rate; None for `default_lr`.
        """
        return recipes.make_optimizer(
            self,
            optimizer,
            self.default_lr(optimizer) if lr is None else lr,
            adam_lr=self.rates.adam,
            matrices=[m for field in self.fields for m in field.hidden_matrices()],
        )

    def live_pixels(self, views: Views) -> Iterable[Bool[Tensor, "height width"]] | None:
        """Pixels of each view to draw rays from: those that meet an occupied cell; None for all."""
        if self.grid is None or not self.space.is_box:
            return None
        return occupied_pixels(self.grid, views)

    def batches(
        self,
        views: Views,
        batch_size: int,
        *,
        seed: int,
        background: Background = "white",
        device: torch.device | str = "cpu",
    ) -> RayBatches:
        """Draw rays from the `live_pixels` of all views.

        While poses are searched for, the background is random: with a white one, a white wall right
        in front of each camera would explain the images at any pose.
        """
        poses = self.poses
        return RayBatches(
            views,
            batch_size,
            seed=seed,
            background=background
            if poses is None
            else lambda: "random" if poses.stage == SEARCH else background,
            live=self.live_pixels(views),
            known_share=self.known_share,
            device=device,
        )

    def render_batch(self, batch: RayBatch) -> Rendering:
        """Forward pass of a training step."""
        rendering: Rendering = self(batch.rays, batch.generator)
        return rendering

    def loss(self, rendering: Rendering, target: Float[Tensor, "n 3"]) -> ShownLoss:
        """Squared error of the colors, which is shown, plus that of a coarse pass and a penalty."""
        loss = shown = (rendering.rgb - target).square().mean()
        if rendering.coarse_rgb is not None:
            coarse = (rendering.coarse_rgb - target).square().mean()
            loss = loss + self.coarse_weight * coarse
        if rendering.penalty is not None:
            loss = loss + rendering.penalty
        return ShownLoss(loss, shown)

    @property
    def schedule(self) -> Callable[[float], float]:
        """Function from the share of the fit in [0, 1) to the factor of the learning rates."""
        return cosine_decay if self.poses is None else self.poses.schedule

    def after_step(
        self, batches: RayBatches | None = None, *, autocast_dtype: torch.dtype | None = None
    ) -> Callable[[FitState], None]:
        """Make the callback after a training step: it updates poses and occupancy grid.

        Args:
            batches: rays by which outliers among the refined poses are relocalized; None to
                relocalize none.
            autocast_dtype: type of autocast, as for the fit.
        """
        update_poses = self._pose_updates(batches, autocast_dtype)

        def update(state: FitState) -> None:
            update_poses(state)
            is_due = state.step >= _GRID_START and state.step % _GRID_EVERY == 0
            if self.grid is not None and is_due:
                with autocast(self.grid.density.device, autocast_dtype):
                    self.grid.update(self.field.density, seed=state.step, share=_GRID_SHARE)

        return update

    def _pose_updates(
        self, batches: RayBatches | None, autocast_dtype: torch.dtype | None
    ) -> Callable[[FitState], None]:
        """Callback that steps the refined poses and, once they are found, restarts the field."""
        poses = self.poses
        if poses is None:
            return lambda state: None
        initial = copy.deepcopy(self.state_dict())

        def shown(rays: Rays) -> Tensor:
            # Autocast here alone: it would round the poses of the rays to 8 bits.
            with autocast(rays.origins.device, autocast_dtype):
                return render(self, rays).rgb

        def update(state: FitState) -> None:
            progress = state.step / state.num_steps
            stage = poses.enter(progress)
            if stage == RESTART:
                if batches is not None:
                    poses.leave_out(poses.outliers(shown, batches.of_view))
                # The field was trained with wrong poses: it restarts with those that were found.
                self.load_state_dict({**initial, **poses.state_dict(prefix="poses.")})
                state.optimizer.reset()
                initial.clear()
            if stage == REFINEMENT and batches is not None:
                poses.relocalize_outliers(shown, batches.of_view)
            poses.update(progress)

        return update

    def found_poses(self, given: Float[Tensor, "views 4 4"]) -> Float[Tensor, "views 4 4"]:
        """Poses of the training views as refined, on the CPU; the given ones if they are not."""
        return given if self.poses is None else self.poses.corrections.cpu() @ given


@torch.no_grad()
def render(
    renderer: Callable[[Rays], Rendering], rays: Rays, *, chunk_size: int = 4096
) -> Rendering:
    """Render any number of rays, in chunks.

    Args:
        renderer: module from rays to a rendering.
        rays: any number.
        chunk_size: rays in a chunk.
    """
    starts = range(0, max(1, len(rays.origins)), chunk_size)
    chunks = [renderer(rays.rows(slice(start, start + chunk_size))) for start in starts]
    return Rendering(*(torch.cat(parts) for parts in list(zip(*chunks, strict=True))[:3]))
