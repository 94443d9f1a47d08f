"""How radiance fields are trained: optimizers, batches, losses, and what happens between steps."""

import copy
from bisect import bisect
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

from nerf_posenc.radiance.build import STRIDES, FieldName, FieldOptions, Renderer, fields_of
from nerf_posenc.radiance.evaluation import render
from nerf_posenc.radiance.packed import PackedRenderer
from nerf_posenc.radiance.proposals import KNOWN_SHARE, ProposalRenderer
from nerf_posenc.radiance.ray_batches import RayBatch, RayBatches, object_pixels, occupied_pixels
from nerf_posenc.radiance.rays import Rays
from nerf_posenc.radiance.refinement import REFINEMENT, RESTART, SEARCH, PoseRefinement
from nerf_posenc.radiance.renderers import GridRenderer, photometric_loss
from nerf_posenc.radiance.views import Background, Views
from nerf_posenc.radiance.volume_rendering import Rendering
from nerf_posenc.training import recipes
from nerf_posenc.training.devices import autocast
from nerf_posenc.training.loop import FitState, ShownLoss
from nerf_posenc.training.optimizers import OptimizerGroup
from nerf_posenc.training.schedules import cosine_decay

FIELD_LRS: Mapping[str, float] = MappingProxyType({"muon": 0.02, "adam": 5e-4})
"""Peak learning rate of a field by optimizer."""

# No update of the occupancy grid before this step: the densities of an untrained field would shut
# out cells of the scene.
_GRID_START = 100
# By renderer, the steps between updates, and the share of the cells that each one evaluates.
_GRID_UPDATES = {"grid": (32, 0.25), "packed": (16, 0.125)}

# Shares of the fit after which a factored field gets its next stride, in a box: early, since the
# visual hull carves it from the start.
_REFINE_AT_IN_BOX = (0.13, 0.27)
# The same in other spaces: late, since coarse grids must first find the surfaces.
_REFINE_AT = (0.4, 0.8)

# Of Adam on the grids of a proposal field, beside Muon.
_PROPOSAL_ADAM_LR = 0.02

# Of Adam on a factored field's grids beside Muon, where no box bounds the scene: more leaves fog.
_UNBOUNDED_ADAM_LR = 0.01


def field_lr(field: FieldName, optimizer: str) -> float:
    """Default peak learning rate of a field."""
    lrs = recipes.get_recipe("vector-matrix").lrs if field == "factored" else None
    return (lrs or FIELD_LRS).get(optimizer, recipes.get_optimizer(optimizer).lr)


def _is_boxed(renderer: nn.Module) -> bool:
    """Whether the renderer's cube is the scene's own box."""
    return not isinstance(renderer, PackedRenderer) or renderer.space.is_box


def make_field_optimizer(
    renderer: nn.Module, optimizer: str, lr: float | None = None
) -> OptimizerGroup:
    """Build the optimizer of a renderer's fields.

    Args:
        renderer: renderer that `make_renderer` gave.
        optimizer: one of ``recipes.OPTIMIZERS``.
        lr: peak learning rate; None for `field_lr`.
    """
    is_factored = isinstance(renderer, PackedRenderer)
    adam_lr = None if _is_boxed(renderer) else _UNBOUNDED_ADAM_LR
    if isinstance(renderer, ProposalRenderer):
        adam_lr = _PROPOSAL_ADAM_LR
    return recipes.make_optimizer(
        renderer,
        optimizer,
        field_lr("factored" if is_factored else "mlp", optimizer) if lr is None else lr,
        encoding="vector-matrix" if is_factored else "none",
        adam_lr=adam_lr,
        matrices=[m for field in fields_of(renderer) for m in field.hidden_matrices()],
    )


def make_batches(
    renderer: nn.Module,
    views: Views,
    batch_size: int,
    *,
    seed: int,
    background: Background = "white",
    device: torch.device | str = "cpu",
) -> RayBatches:
    """Draw rays of all views: with an occupancy grid, those that meet an occupied cell.

    With a proposal and transparent views they are those of `object_pixels`.

    While poses are searched for, the background is random: a white wall before each camera would
    explain a white one at any pose.
    """
    poses = renderer.poses if isinstance(renderer, ProposalRenderer) else None
    grid = getattr(renderer, "grid", None)
    live = None if grid is None or not _is_boxed(renderer) else occupied_pixels(grid, views)
    if isinstance(renderer, ProposalRenderer) and not views.is_opaque:
        live = object_pixels(views)
    return RayBatches(
        views,
        batch_size,
        seed=seed,
        background=background
        if poses is None
        else lambda: "random" if poses.stage == SEARCH else background,
        live=live,
        known_share=KNOWN_SHARE if isinstance(renderer, ProposalRenderer) else 0.0,
        device=device,
    )


def update_renderer(
    renderer: nn.Module,
    batches: RayBatches | None = None,
    *,
    autocast_dtype: torch.dtype | None = None,
) -> Callable[[FitState], None]:
    """Make the callback that updates a renderer after training steps.

    It updates an occupancy grid, steps the poses that are refined and restarts their field once
    they are found, and makes a factored field finer after fixed shares of the fit, later where no
    box bounds the scene.

    Args:
        renderer: without a grid and poses, the callback does nothing.
        batches: rays by which outliers among the refined poses are relocalized; None to
            relocalize none.
        autocast_dtype: type of autocast, as for the fit.
    """
    every, share = _GRID_UPDATES["packed" if isinstance(renderer, PackedRenderer) else "grid"]
    poses = renderer.poses if isinstance(renderer, ProposalRenderer) else None
    initial = {} if poses is None else copy.deepcopy(renderer.state_dict())

    def shown(rays: Rays) -> Tensor:
        # Autocast here alone: it would round the poses of the rays to 8 bits.
        with autocast(rays.origins.device, autocast_dtype):
            return render(renderer, rays).rgb

    def update_poses(state: FitState, poses: PoseRefinement) -> None:
        progress = state.step / state.num_steps
        stage = poses.enter(progress)
        if stage == RESTART:
            if batches is not None:
                poses.leave_out(poses.outliers(shown, batches.of_view))
            # The field has learned from wrong poses: it begins anew with those that were found.
            renderer.load_state_dict({**initial, **poses.state_dict(prefix="poses.")})
            state.optimizer.reset()
            initial.clear()
        if stage == REFINEMENT and batches is not None:
            poses.relocalize_outliers(shown, batches.of_view)
        poses.update(progress)

    def update(state: FitState) -> None:
        if poses is not None:
            update_poses(state, poses)
        if not isinstance(renderer, GridRenderer | PackedRenderer) or renderer.grid is None:
            return
        if isinstance(renderer, PackedRenderer):
            shares = _REFINE_AT_IN_BOX if _is_boxed(renderer) else _REFINE_AT
            stride = STRIDES[bisect(shares, state.step / state.num_steps)]
            if stride < renderer.field.stride:
                renderer.field.refine(stride)
        if state.step >= _GRID_START and state.step % every == 0:
            with autocast(renderer.grid.density.device, autocast_dtype):
                renderer.grid.update(renderer.field.density, seed=state.step, share=share)

    return update


def schedule_for(renderer: Renderer) -> Callable[[float], float]:
    """Schedule of the learning rates; with poses that are refined, one for each of two fields."""
    poses = renderer.poses if isinstance(renderer, ProposalRenderer) else None
    return cosine_decay if poses is None else poses.schedule


def forward_for(renderer: Renderer) -> Callable[[RayBatch], Rendering]:
    """Make the forward pass of a training step; with exposures, those of the batch's views."""

    def forward(batch: RayBatch) -> Rendering:
        rendering: Rendering
        if isinstance(renderer, ProposalRenderer):
            rendering = renderer(
                batch.rays, batch.generator, views=batch.views, known=batch.distances
            )
        elif isinstance(renderer, PackedRenderer):
            rendering = renderer(batch.rays, batch.generator, views=batch.views)
        else:
            rendering = renderer(batch.rays, batch.generator)
        return rendering

    return forward


def make_loss(options: FieldOptions) -> Callable[[Rendering, Tensor], ShownLoss]:
    """Build the loss of a field, which shows the error of the colors alone.

    mip-NeRF weights its coarse pass by a tenth.
    """
    coarse_weight = 0.1 if options.field == "mip" else 1.0

    def loss(rendering: Rendering, target: Tensor) -> ShownLoss:
        whole = photometric_loss(rendering, target, coarse_weight=coarse_weight)
        return ShownLoss(whole, (rendering.rgb - target).square().mean())

    return loss
