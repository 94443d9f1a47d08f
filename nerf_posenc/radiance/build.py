"""The radiance fields by name: what each is built of, and what the program has to know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from nerf_posenc.core.checks import unknown_name
from nerf_posenc.core.encoder import Encoder, Identity
from nerf_posenc.encoders.hash_grid import HashGridEncoder
from nerf_posenc.encoders.spherical_harmonics import SphericalHarmonicsEncoder
from nerf_posenc.radiance.base_renderer import DEFAULT_RATES, FieldRates, Renderer
from nerf_posenc.radiance.fields import RadianceField, hash_field, nerf_field
from nerf_posenc.radiance.occupancy import OccupancyGrid, visual_hull
from nerf_posenc.radiance.proposals import ProposalRenderer
from nerf_posenc.radiance.renderers import GridRenderer, HierarchicalRenderer
from nerf_posenc.radiance.scene_spaces import BoxSpace, SpaceName, make_space
from nerf_posenc.radiance.views import Views
from nerf_posenc.training import recipes
from nerf_posenc.training.encoding_recipe import EncoderDescription, EncodingRecipe

if TYPE_CHECKING:
    from jaxtyping import Bool

# Bounds of the nodes per axis at the max resolution of the proposal field's hash grid.
_FEWEST_HASH_NODES = 256
_MOST_HASH_NODES = 1024


@dataclass(frozen=True)
class FieldOptions(EncoderDescription):
    """Options of a radiance field.

    Attributes:
        field: name of a row of ``FIELDS``.
        width: units per layer; None for those of the encoding's row, or of the field's.
        depth: layers of the trunk; None for those of the encoding's row, or of the field's.
        num_exposures: training views whose exposures are learned; 0 for none.
        num_poses: training views whose poses are refined; 0 for none.
        space: coordinates of the field: ``"box"``, ``"contracted"`` or ``"forward-facing"``.
        num_samples: samples along a ray; None for those of the row. NeRF has twice as many more in
            its fine pass.
    """

    _: KW_ONLY
    in_dim: int = 3
    field: str = "mlp"
    width: int | None = None
    depth: int | None = None
    num_samples: int | None = None
    space: SpaceName = "box"
    num_exposures: int = 0
    num_poses: int = 0

    @property
    def recipe(self) -> EncodingRecipe:
        """Row of the encoding: the field's own, or that of ``ENCODINGS``."""
        known = recipes.get_recipe(self.encoding)
        return replace(known, **get_field(self.field).changes.get(self.encoding, {}))

    @property
    def layers(self) -> tuple[int, int]:
        """Width and depth of the trunk."""
        width, depth = self.recipe.layers or get_field(self.field).layers
        return (
            width if self.width is None else self.width,
            depth if self.depth is None else self.depth,
        )

    @property
    def has_hull(self) -> bool:
        """Whether its occupancy grid starts as the visual hull: in a box, of poses that stay."""
        row = get_field(self.field)
        is_box = self.space == "box" or not row.takes_spaces
        return row.has_grid and is_box and not self.num_poses


class FieldParts(NamedTuple):
    """Arguments that a field is built with, beside its options.

    Attributes:
        generator: random number generator of the initial weights.
        num_samples: samples along a ray.
        space: space in which the cube of the field is the scene.
        hull: cells that may be occupied; None for all.
    """

    generator: torch.Generator
    num_samples: int
    space: BoxSpace
    hull: Bool[Tensor, " cells"] | None


@dataclass(frozen=True, kw_only=True)
class FieldRecipe:
    """One row of the table of radiance fields.

    Attributes:
        about: short description of the field for ``--help``.
        build: makes the field in its renderer.
        layers: default width and depth, unless the encoding's row has its own.
        changes: fields of an encoding's row that differ here, by the name of the encoding.
        num_samples: default number of samples along a ray.
        num_bands: number of frequency bands of positions that the program takes by default; None
            for that of an image of the views' size.
        encodings: function that lists the encodings that it takes.
        default_encodings: encodings that it is fitted with by default. The last one is the best.
        rates: learning rates.
        has_grid: whether it has an occupancy grid, which starts as the visual hull of the views.
        takes_spaces: whether it takes scenes outside of a box, in the space that suits the views.
        takes_exposures: whether it learns the exposures of the training views.
        takes_poses: whether it refines the poses of the training views.
        batch_size: default number of rays per step on a GPU.
    """

    about: str
    build: Callable[[FieldOptions, FieldParts], Renderer]
    layers: tuple[int, int] = (256, 8)
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    num_samples: int = 96
    num_bands: int | None = 10
    encodings: Callable[[], Sequence[str]] = lambda: list(recipes.ENCODINGS)
    default_encodings: tuple[str, ...] = ("none", "fourier")
    rates: FieldRates = DEFAULT_RATES
    has_grid: bool = False
    takes_spaces: bool = False
    takes_exposures: bool = False
    takes_poses: bool = False
    batch_size: int = 8192


def get_field(name: str) -> FieldRecipe:
    """Look up a field's row of the table.

    Raises:
        ValueError: If the name is unknown.
    """
    if name not in FIELDS:
        raise ValueError(unknown_name("field", name, FIELDS))
    return FIELDS[name]


def make_renderer(
    options: FieldOptions, views: Views | None = None, *, hull: Bool[Tensor, " cells"] | None = None
) -> Renderer:
    """Build a field and its renderer.

    Args:
        options: kind of field to build, and its sizes.
        views: the training views, which give the resolution; None for weights that were saved.
        hull: cells that may be occupied, of fields with an occupancy grid; None for those of the
            [visual_hull][nerf_posenc.radiance.occupancy.visual_hull] of the views.

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
    row = get_field(options.field)
    recipes.get_recipe(options.encoding)
    # An encoding of the user's own is one of coordinates, for fields that take all of those.
    is_own = isinstance(options.encoding, recipes.OwnEncoding) and options.encoding.recipe
    takes_own = is_own and {*recipes.ENCODINGS} <= {*row.encodings()}
    if not takes_own and options.encoding not in row.encodings():
        raise ValueError(
            f"the {options.field} field does not take the encoding {options.encoding!r}; use the "
            "mlp field"
        )
    space = options.space if row.takes_spaces else "box"
    if views is not None:
        options = replace(options, resolution=max(views.size))
        if options.has_hull and hull is None:
            hull = visual_hull(views)
    parts = FieldParts(
        torch.Generator().manual_seed(options.seed),
        row.num_samples if options.num_samples is None else options.num_samples,
        make_space(space, views),
        hull,
    )
    renderer = row.build(options, parts)
    renderer.rates = row.rates
    return renderer


def _in_grid(options: FieldOptions, parts: FieldParts) -> Renderer:
    grid = OccupancyGrid(possible=parts.hull)
    return GridRenderer(_mlp_field(options, parts), grid, num_samples=parts.num_samples)


def _mlp_field(options: FieldOptions, parts: FieldParts) -> RadianceField:
    width, depth = options.layers
    return RadianceField(
        options.recipe.encoder(options, parts.generator),
        Identity(3) if options.recipe.is_raw else SphericalHarmonicsEncoder(4),
        width=width,
        depth=depth,
        generator=parts.generator,
    )


def _hierarchical(options: FieldOptions, parts: FieldParts, *, cones: bool) -> Renderer:
    width, depth = options.layers
    make = partial(
        nerf_field,
        None if options.recipe.is_raw else options.num_bands,
        width=width,
        depth=depth,
        cones=cones,
        generator=parts.generator,
    )
    count = parts.num_samples
    if cones:
        return HierarchicalRenderer(make(), num_coarse=count, num_fine=count, cones=True)
    return HierarchicalRenderer(make(), make(), num_coarse=count, num_fine=2 * count)


def _hash_grid(options: EncoderDescription, generator: torch.Generator | None) -> Encoder:
    assert isinstance(options, FieldOptions)
    # Contracted space has half of the cube for what lies between the cameras. An object fills few
    # cells of its box: smaller tables are read faster and learn sooner.
    per_pixel, log2_table_size = (1.25, 15) if options.has_hull else (4, 17)
    nodes = min(max(round(per_pixel * options.resolution), _FEWEST_HASH_NODES), _MOST_HASH_NODES)
    return HashGridEncoder(
        3,
        8,
        features_per_level=4,
        log2_table_size=log2_table_size,
        growth=(nodes / 16) ** (1 / 7),
        generator=generator,
    )


def _proposal(options: FieldOptions, parts: FieldParts) -> Renderer:
    if options.recipe.is_grid:
        width, depth = options.layers
        encoder = options.recipe.encoder(options, parts.generator)
        field = hash_field(encoder, width=width, depth=depth, generator=parts.generator)
    else:
        field = _mlp_field(options, parts)
    return ProposalRenderer(
        field,
        parts.space,
        grid=OccupancyGrid(possible=parts.hull) if options.has_hull else None,
        num_samples=parts.num_samples,
        num_exposures=options.num_exposures,
        num_poses=options.num_poses,
        generator=parts.generator,
    )


FIELDS: dict[str, FieldRecipe] = {
    "mlp": FieldRecipe(
        about="with an occupancy grid",
        build=_in_grid,
        layers=(128, 4),
        changes={"hash": {"layers": None}},
        num_bands=None,
        has_grid=True,
    ),
    "nerf": FieldRecipe(
        about="the coarse and the fine network of the NeRF paper",
        build=partial(_hierarchical, cones=False),
        num_samples=64,
        encodings=lambda: ("none", "fourier"),
        batch_size=1024,
    ),
    "mip": FieldRecipe(
        about="mip-NeRF's cones",
        build=partial(_hierarchical, cones=True),
        num_samples=128,
        # Integrated encoding damps bands above a sample's resolution.
        num_bands=16,
        encodings=lambda: ("none", "fourier"),
        batch_size=1024,
    ),
    "proposal": FieldRecipe(
        about="mip-NeRF 360's sampling, also of what lies behind a scene",
        build=_proposal,
        layers=(128, 4),
        changes={"hash": {"build": _hash_grid, "layers": (64, 1)}},
        num_samples=16,
        default_encodings=("none", "fourier", "hash"),
        rates=FieldRates(adam=0.02),
        has_grid=True,
        takes_spaces=True,
        takes_exposures=True,
        takes_poses=True,
    ),
}
"""Radiance fields by name; one of your own is one row more."""
