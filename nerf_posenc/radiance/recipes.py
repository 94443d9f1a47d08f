"""From posed pictures to a fitted radiance field, and from that to new views."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from nerf_posenc.encoders.spherical_harmonics import SphericalHarmonicsEncoder
from nerf_posenc.radiance.fields import RadianceField, mip_field, nerf_field
from nerf_posenc.radiance.renderers import GridRenderer, HierarchicalRenderer, photometric_loss
from nerf_posenc.radiance.views import Background, RayBatches, Views, carve, live_pixels
from nerf_posenc.radiance.volume_rendering import OccupancyGrid, Rendering
from nerf_posenc.training import recipes
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.optimizers import OptimizerGroup, adam, muon

FieldName = Literal["small", "nerf", "mip"]

MUON_LR = 0.02
ADAM_LR = 5e-4

# Steps after which, and at which distance, the occupancy grid looks at the field again; and the
# share of its cells that it looks at each time.
_GRID_START, _GRID_EVERY, _GRID_SHARE = 100, 32, 0.25

# The integrated encoding damps what a sample cannot hold, so that mip-NeRF has bands to spare.
_MIP_SPARE_BANDS = 6


@dataclass(frozen=True)
class FieldOptions:
    """Which field to fit.

    Attributes:
        field: ``"small"``, seen through an occupancy grid; ``"nerf"``, the coarse and the
            fine network of the NeRF paper; or ``"mip"``, mip-NeRF's cones.
        encoding: of places; with ``"none"`` directions are raw too.
        num_bands: octaves of ``"fourier"``.
        sigma: of ``"gaussian"``; None for its default.
        width: units a layer; None for 128, in the other two 256.
        depth: layers of the trunk; None for 4, in the other two 8.
        num_samples: places along a ray; None for 96, in the other two 64 and 128 more.
        seed: of the first weights.
    """

    field: FieldName = "small"
    encoding: recipes.Encoding = "fourier"
    num_bands: int = 10
    sigma: float | None = None
    width: int | None = None
    depth: int | None = None
    num_samples: int | None = None
    seed: int = 0


def make_renderer(options: FieldOptions, views: Views) -> nn.Module:
    """Build the field and what looks at it.

    Args:
        options: which.
        views: the pictures to be fitted; the small field's grid starts as their visual hull.

    Raises:
        ValueError: where the field is unknown, or does not go with the encoding.

    Examples:
        >>> from nerf_posenc.radiance.rays import Camera
        >>> camera = Camera.from_angle(8, 8, 0.7)
        >>> blank = torch.ones(1, 8, 8, 3), torch.ones(1, 8, 8)
        >>> views = Views(*blank, [camera], torch.eye(4)[None], ["a"])
        >>> renderer = make_renderer(FieldOptions("nerf"), views)
        >>> sum(p.numel() for p in renderer.coarse.parameters())
        595844
    """
    torch.manual_seed(options.seed)
    if options.field == "small":
        field = _small_field(options, max(views.size))
        grid = OccupancyGrid()
        carve(grid, views)
        return GridRenderer(field, grid, num_samples=options.num_samples or 96)
    if options.field not in get_args(FieldName):
        raise ValueError(f"no field {options.field!r}; there are {', '.join(get_args(FieldName))}")
    if options.encoding not in ("none", "fourier"):
        raise ValueError(
            f"the {options.field} field is made for the encodings none and fourier; got "
            f"{options.encoding!r}; use the small field"
        )
    is_mip = options.field == "mip"
    bands = options.num_bands + (_MIP_SPARE_BANDS if is_mip else 0)
    make = partial(
        mip_field if is_mip else nerf_field,
        bands if options.encoding == "fourier" else None,
        width=options.width or 256,
        depth=options.depth or 8,
    )
    num_coarse = options.num_samples or (128 if is_mip else 64)
    if is_mip:
        return HierarchicalRenderer(make(), num_coarse=num_coarse, num_fine=num_coarse, cones=True)
    return HierarchicalRenderer(make(), make(), num_coarse=num_coarse, num_fine=2 * num_coarse)


def _small_field(options: FieldOptions, resolution: int) -> RadianceField:
    is_raw = options.encoding == "none"
    encoder = recipes.make_encoder(
        options.encoding,
        3,
        resolution=resolution,
        num_bands=options.num_bands,
        sigma=options.sigma,
        seed=options.seed,
    )
    return RadianceField(
        None if is_raw else encoder,
        None if is_raw else SphericalHarmonicsEncoder(4),
        width=options.width or 128,
        depth=options.depth or 4,
    )


def make_optimizer(
    renderer: nn.Module, optimizer: recipes.Optimizer, rate: float | None = None
) -> OptimizerGroup:
    """Build the optimizer of a renderer's fields.

    Args:
        renderer: from [make_renderer][nerf_posenc.radiance.recipes.make_renderer].
        optimizer: ``"muon"``, with Adam on the rest, or ``"adam"``.
        rate: peak learning rate; None for 0.02 and 5e-4.
    """
    if optimizer == "adam":
        return adam(renderer, lr=rate or ADAM_LR)
    fields = [m for m in renderer.modules() if isinstance(m, RadianceField)]
    matrices = [matrix for field in fields for matrix in field.hidden_matrices()]
    return muon(renderer, matrices, lr=rate or MUON_LR)


def make_batches(
    renderer: nn.Module,
    views: Views,
    batch_size: int,
    *,
    seed: int,
    background: Background = "white",
    device: torch.device | str = "cpu",
) -> RayBatches:
    """Rays of all views; with an occupancy grid, those that meet an occupied cell."""
    grid = getattr(renderer, "grid", None)
    live = None if grid is None else live_pixels(grid, views)
    return RayBatches(views, batch_size, seed=seed, background=background, live=live, device=device)


def grid_upkeep(
    renderer: nn.Module, *, autocast_dtype: torch.dtype | None = None
) -> Callable[[FitState], None]:
    """What keeps a renderer's occupancy grid up to date while its field is fitted.

    Args:
        renderer: with a grid or without; without, there is nothing to do.
        autocast_dtype: as for the fit.

    Returns:
        A function to be called after each step.
    """

    def look_again(state: FitState) -> None:
        due = state.step >= _GRID_START and state.step % _GRID_EVERY == 0
        if not due or not isinstance(renderer, GridRenderer) or renderer.grid is None:
            return
        device = renderer.grid.density.device.type
        autocast = (
            nullcontext() if autocast_dtype is None else torch.autocast(device, autocast_dtype)
        )
        with autocast:
            renderer.grid.update(renderer.field.density, seed=state.step, share=_GRID_SHARE)

    return look_again


def loss_of(options: FieldOptions) -> Callable[[Rendering, Tensor], Tensor]:
    """Loss of a field: mip-NeRF counts its coarse pass a tenth."""
    return partial(photometric_loss, coarse_weight=0.1 if options.field == "mip" else 1.0)


def without_pruning(renderer: GridRenderer) -> GridRenderer:
    """The same field, asked everywhere in the visual hull: what pruning saves, and what it hides.

    Outside the hull the field was never fitted and may hold anything.
    """
    hull = None
    if renderer.grid is not None:
        hull = OccupancyGrid(renderer.grid.resolution)
        hull = hull.to(renderer.grid.density.device)
        hull.carve(~renderer.grid.possible)
    return GridRenderer(renderer.field, hull, num_samples=renderer.num_samples)
