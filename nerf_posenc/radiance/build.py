"""The fields by name: their renderers, optimizers, batches and losses."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor, nn

from nerf_posenc.core.encoder import Identity
from nerf_posenc.encoders.spherical_harmonics import SphericalHarmonicsEncoder
from nerf_posenc.radiance.factored_field import FactoredField
from nerf_posenc.radiance.fields import RadianceField, hash_field, mip_field, nerf_field
from nerf_posenc.radiance.occupancy import OccupancyGrid, visual_hull
from nerf_posenc.radiance.packed import PackedRenderer
from nerf_posenc.radiance.poses import is_one_pose
from nerf_posenc.radiance.proposals import ProposalRenderer
from nerf_posenc.radiance.refinement import SEARCH_FROM_ONE
from nerf_posenc.radiance.renderers import GridRenderer, HierarchicalRenderer
from nerf_posenc.radiance.scene_spaces import SpaceName, make_space
from nerf_posenc.radiance.views import Views
from nerf_posenc.training import recipes
from nerf_posenc.training.encoding_recipe import EncoderDescription

if TYPE_CHECKING:
    from jaxtyping import Bool

FieldName = Literal["mlp", "nerf", "mip", "factored", "proposal"]
WITH_OCCUPANCY: tuple[FieldName, ...] = ("mlp", "factored")
"""Fields that are rendered in the occupied cells of a grid."""
Renderer = GridRenderer | HierarchicalRenderer | PackedRenderer | ProposalRenderer

# Nodes of the factored field along each axis, per pixel of a view's longer side.
_NODES_PER_PIXEL = 0.4
# Fewest and most of these nodes, whatever the size of the views.
_FEWEST_NODES = 64
_MOST_NODES = 512
# Opacity along a cell's diagonal below which a cell of the scene's box is empty.
_THRESHOLD_IN_BOX = 0.01
# The same in other spaces: a fit of all space starts full of fog, which must not count.
_THRESHOLD = 0.08
# Bounds of the nodes per axis at the max resolution of the proposal field's hash grid.
_FEWEST_HASH_NODES = 256
_MOST_HASH_NODES = 1024
STRIDES = (4, 2, 1)
"""Of the factored field, from one node in use to the next: at first, and as it is refined."""

# Integrated encoding damps bands above a sample's resolution, so that mip-NeRF can have more.
_MIP_EXTRA_BANDS = 6


@dataclass(frozen=True)
class FieldOptions(EncoderDescription):
    """Which field to fit; with the encoding ``"none"`` directions are raw too.

    Attributes:
        field: ``"mlp"``, with an occupancy grid; ``"nerf"``, the coarse and the fine network of
            the NeRF paper; ``"mip"``, mip-NeRF's cones; ``"factored"``, TensoRF's grids, which
            has an encoding of its own, ``"vector-matrix"``; or ``"proposal"``, mip-NeRF 360's
            sampling with any encoding.
        width: units per layer; None for 128 in the MLP and the proposal field, 64 in the factored
            and after a grid, and 256 in the others.
        depth: layers of the trunk, or hidden layers of the factored field's color; None for 4 in
            the MLP and the proposal field, 2 in the factored, 1 after a grid and 8 in the
            others.
        num_exposures: training views whose exposures the last two fields learn; 0 for none.
        num_poses: training views whose poses the last field refines; 0 for none.
        space: coordinates of the last two fields: ``"box"``, ``"contracted"`` or
            ``"forward-facing"``.
        num_samples: samples along a ray; None for 96 in the MLP field, 64 and 128 more in NeRF,
            and twice 128 in mip-NeRF, 16 after 48 of the proposal. The factored field has one per
            cell.
        seed: random seed of the initial weights.
    """

    _: KW_ONLY
    in_dim: int = 3
    field: FieldName = "mlp"
    width: int | None = None
    depth: int | None = None
    num_samples: int | None = None
    seed: int = 0
    space: SpaceName = "box"
    num_exposures: int = 0
    num_poses: int = 0

    @property
    def layers(self) -> tuple[int, int]:
        """Width and depth of the trunk."""
        # A small network reads a grid.
        proposal = (64, 1) if self.encoding in ("hash", "vector-matrix") else (128, 4)
        width, depth = {"mlp": (128, 4), "factored": (64, 2), "proposal": proposal}.get(
            self.field, (256, 8)
        )
        return (
            width if self.width is None else self.width,
            depth if self.depth is None else self.depth,
        )


def make_renderer(
    options: FieldOptions, views: Views, *, hull: Bool[Tensor, " cells"] | None = None
) -> Renderer:
    """Build a field and its renderer.

    Args:
        options: kind of field to build, and its sizes.
        views: the training views; the occupancy grid of the MLP and of the factored field
            starts as their visual hull.
        hull: what [visual_hull][nerf_posenc.radiance.occupancy.visual_hull] returned for the
            views, to compute it once for several fields.

    Raises:
        ValueError: If the field or encoding is unknown, or they do not fit together.

    Examples:
        >>> from nerf_posenc.radiance.cameras import Camera
        >>> camera = Camera.from_angle(8, 8, 0.7)
        >>> views = Views(torch.ones(1, 8, 8, 3), [camera], torch.eye(4)[None], ["a"])
        >>> renderer = make_renderer(FieldOptions(field="nerf"), views)
        >>> sum(p.numel() for p in renderer.coarse.parameters())
        595844
    """
    if options.space == "box" and options.field in WITH_OCCUPANCY and hull is None:
        hull = visual_hull(views)
    options = replace(options, resolution=max(views.size))
    renderer = renderer_for(options, hull)
    if isinstance(renderer, PackedRenderer):
        renderer.space = make_space(options.space, views)
    if isinstance(renderer, ProposalRenderer):
        renderer.space = make_space(options.space, views, by_disparity=True)
        if renderer.poses is not None and is_one_pose(views.world_from_camera):
            renderer.poses.search = SEARCH_FROM_ONE
    return renderer


def renderer_for(options: FieldOptions, hull: Bool[Tensor, " cells"] | None = None) -> Renderer:
    """Build a field and its renderer without views, as for weights that were saved.

    Args:
        options: kind of field to build, and its sizes; its resolution is the longer side of the
            training views in pixels.
        hull: cells that may be occupied, of fields with an occupancy grid; None for all.

    Raises:
        ValueError: If the field or encoding is unknown, or they do not fit together.
    """
    if options.field not in get_args(FieldName):
        raise ValueError(f"no field {options.field!r}; known are {', '.join(get_args(FieldName))}")
    if options.field not in recipes.get_recipe(options.encoding).fields:
        raise ValueError(
            f"the {options.field} field does not take the encoding {options.encoding!r}; use the "
            f"{(recipes.get_recipe(options.encoding).fields or ('mlp',))[0]} field"
        )
    width, depth = options.layers
    generator = torch.Generator().manual_seed(options.seed)
    if options.field == "mlp":
        field = _mlp_field(options, generator)
        grid = OccupancyGrid(possible=hull)
        num_samples = 96 if options.num_samples is None else options.num_samples
        return GridRenderer(field, grid, num_samples=num_samples)
    if options.field == "factored":
        return _packed_renderer(options, hull, generator)
    if options.field == "proposal":
        return _proposal_renderer(options, generator)
    is_mip = options.field == "mip"
    bands = options.num_bands + (_MIP_EXTRA_BANDS if is_mip else 0)
    make = partial(
        mip_field if is_mip else nerf_field,
        None if options.encoding == "none" else bands,
        width=width,
        depth=depth,
        generator=generator,
    )
    num_coarse = options.num_samples
    if num_coarse is None:
        num_coarse = 128 if is_mip else 64
    if is_mip:
        return HierarchicalRenderer(make(), num_coarse=num_coarse, num_fine=num_coarse, cones=True)
    return HierarchicalRenderer(make(), make(), num_coarse=num_coarse, num_fine=2 * num_coarse)


def _mlp_field(options: FieldOptions, generator: torch.Generator) -> RadianceField:
    encoder = recipes.make_encoder(options, generator)
    is_raw = options.encoding == "none"
    width, depth = options.layers
    return RadianceField(
        encoder,
        Identity(3) if is_raw else SphericalHarmonicsEncoder(4),
        width=width,
        depth=depth,
        generator=generator,
    )


def _packed_renderer(
    options: FieldOptions, hull: Bool[Tensor, " cells"] | None, generator: torch.Generator
) -> PackedRenderer:
    threshold = _THRESHOLD_IN_BOX if options.space == "box" else _THRESHOLD
    grid = OccupancyGrid(threshold=threshold, possible=hull)
    width, depth = options.layers
    nodes = _NODES_PER_PIXEL * options.resolution
    nodes = min(max(nodes, _FEWEST_NODES), _MOST_NODES)
    field = FactoredField(
        resolution=STRIDES[0] * round(nodes / STRIDES[0]) + 1,
        stride=STRIDES[0],
        width=width,
        depth=depth,
        box=grid.occupied_box(),
        generator=generator,
    )
    space = make_space(options.space)
    return PackedRenderer(field, grid, space, num_exposures=options.num_exposures)


def _proposal_renderer(options: FieldOptions, generator: torch.Generator) -> ProposalRenderer:
    if options.encoding == "hash":
        # Contracted space has half of the cube for what lies between the cameras.
        max_resolution = min(max(4 * options.resolution, _FEWEST_HASH_NODES), _MOST_HASH_NODES)
        field = hash_field(
            num_levels=8,
            features_per_level=4,
            log2_table_size=17,
            max_resolution=max_resolution,
            width=options.layers[0],
            depth=options.layers[1],
            generator=generator,
        )
    else:
        field = _mlp_field(options, generator)
    return ProposalRenderer(
        field,
        make_space(options.space, by_disparity=True),
        num_samples=16 if options.num_samples is None else options.num_samples,
        num_exposures=options.num_exposures,
        num_poses=options.num_poses,
        generator=generator,
    )


def fields_of(renderer: nn.Module) -> list[RadianceField | FactoredField]:
    """Radiance fields of a renderer: a coarse and a fine one, or one."""
    return [m for m in renderer.modules() if isinstance(m, RadianceField | FactoredField)]
