"""Activations, initial weights and sizes of the fields, and the recipes that build them."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc import FourierEncoder, HashGridEncoder, SphericalHarmonicsEncoder
from nerf_posenc.core.encoder import Identity
from nerf_posenc.radiance.build import FieldOptions, get_field, make_renderer
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.fields import Density, RadianceField, hash_field, nerf_field
from nerf_posenc.radiance.occupancy import OccupancyGrid
from nerf_posenc.radiance.proposals import ProposalRenderer
from nerf_posenc.radiance.renderers import GridRenderer, HierarchicalRenderer
from nerf_posenc.radiance.views import Views
from nerf_posenc.radiance.volume_rendering import Rendering
from nerf_posenc.training.loop import FitState


def with_outputs(field: RadianceField, density: float, rgb: float) -> RadianceField:
    """The field with constants before its activations."""
    for layer, value in ((field.density_output, density), (field.rgb_output, rgb)):
        nn.init.zeros_(layer.weight)
        nn.init.constant_(layer.bias, value)
    return field


def matrix_shapes(module: nn.Module) -> list[tuple[int, ...]]:
    return [tuple(p.shape) for p in module.parameters() if p.ndim == 2]


@pytest.mark.parametrize("value", [-3.0, 0.0, 0.7, 4.0])
@pytest.mark.parametrize(
    ("density", "expected"),
    [
        ("relu", lambda v: max(0.0, v)),
        # mip-NeRF (Barron et al. 2021), section 3.1: a softplus of the value shifted by -1.
        ("softplus", lambda v: math.log1p(math.exp(v - 1))),
        ("exp", math.exp),
    ],
    ids=["relu", "softplus", "exp"],
)
def test_densities_have_the_activations_of_their_papers(  # type: ignore[no-untyped-def]
    density: Density, expected, value: float
) -> None:
    field = RadianceField(Identity(3), Identity(3), width=2, depth=1, density=density)
    found = with_outputs(field, value, 0.0).density(torch.rand(2, 3))
    assert found.tolist() == pytest.approx([expected(value)] * 2, rel=1e-5)


def test_an_exponential_density_is_bounded() -> None:
    field = RadianceField(Identity(3), Identity(3), width=2, depth=1, density="exp")
    found = with_outputs(field, 500.0, 0.0).density(torch.rand(2, 3))
    assert found.tolist() == pytest.approx([math.exp(15)] * 2, rel=1e-4)


def test_colors_exceed_the_unit_range_by_their_padding() -> None:
    x = torch.rand(2, 3)
    for value, bound in ((-50.0, -0.25), (0.0, 0.5), (50.0, 1.25)):
        field = RadianceField(Identity(3), Identity(3), width=2, depth=1, rgb_padding=0.25)
        assert with_outputs(field, 0.0, value)(x, x)[1].flatten().tolist() == [bound] * 6
    # mip-NeRF, the authors' code: rgb_padding 0.001; NeRF has none.
    white = with_outputs(nerf_field(2, 2, width=4, depth=1, cones=True), 0.0, 50.0)
    assert white(x, x)[1].flatten().tolist() == pytest.approx([1.001] * 6)
    assert nerf_field(2, 2, width=4, depth=1).rgb_padding == 0


def test_a_field_without_hidden_layers_in_its_head_colors_by_one_product() -> None:
    field = RadianceField(Identity(3), Identity(3), width=4, depth=2, feature_dim=5, head_depth=0)
    x, toward = torch.rand(2, 6, 3)
    hidden = F.relu(field.trunk[1](F.relu(field.trunk[0](x))))
    joined = torch.cat([field.feature(hidden), toward], dim=-1)
    torch.testing.assert_close(field(x, toward)[1], torch.sigmoid(field.rgb_output(joined)))


@pytest.mark.parametrize(("depth", "skip"), [(1, None), (2, 1), (4, 3), (6, 4), (8, 5), (9, 5)])
def test_the_skip_connection_joins_after_the_middle(depth: int, skip: int | None) -> None:
    # NeRF, section 5.3: into the fifth layer's activation, of eight.
    for cones in (False, True):
        field = nerf_field(1, 1, width=4, depth=depth, cones=cones)
        encoded = field.position_encoder.out_dim
        widths = [columns for _, columns in matrix_shapes(field.trunk)]
        expected = [encoded, *([4] * (depth - 1))]
        if skip is not None:
            expected[skip] += encoded
        assert widths == expected


def test_the_hidden_layers_start_as_he_et_al_have_it_and_without_a_bias() -> None:
    field = nerf_field(10, 4, width=64, generator=torch.Generator().manual_seed(0))
    for layer in [*field.trunk, *field.head]:
        # He et al. 2015: variance 2 / inputs; the uniform distribution of it ends at sqrt(3) of it.
        bound = math.sqrt(6 / layer.weight.shape[1])
        assert float(layer.weight.detach().abs().max()) == pytest.approx(bound, rel=0.02)
        assert not layer.bias.any()


def test_a_hash_field_goes_from_16_nodes_to_its_finest_in_16_levels() -> None:
    # Instant-NGP (Müller et al. 2022), table 1 and section 5.4: degree 4 spherical harmonics.
    with torch.device("meta"):
        field = hash_field()
    grid, sphere = field.position_encoder, field.direction_encoder
    assert isinstance(grid, HashGridEncoder)
    assert isinstance(sphere, SphericalHarmonicsEncoder)
    assert (grid.num_levels, grid.resolutions[0], sphere.out_dim) == (16, 16, 16)
    # Rounding of the growth may add one.
    assert grid.resolutions[-1] in (2048, 2049)
    assert (field.feature.out_features, field.density_activation) == (15, "exp")


@pytest.mark.parametrize(
    ("field", "expected"), [("nerf", (10, 4, 64, 128)), ("mip", (16, 4, 128, 128))]
)
def test_the_papers_fields_have_their_bands_and_samples(
    field: str, expected: tuple[int, int, int, int]
) -> None:
    # mip-NeRF, the authors' code: max_deg_point 16, 6 more than NeRF.
    num_bands = get_field(field).num_bands
    assert num_bands is not None
    options = FieldOptions(field=field, width=4, depth=1, resolution=8, num_bands=num_bands)
    renderer = make_renderer(options)
    assert isinstance(renderer, HierarchicalRenderer)
    bands = []
    for encoder in (renderer.coarse.position_encoder, renderer.coarse.direction_encoder):
        assert isinstance(encoder, FourierEncoder)
        bands.append(encoder.sincos.num_bands)
    assert (*bands, renderer.num_coarse, renderer.num_fine) == expected
    assert (renderer.fine is None) == (field == "mip")
    few = make_renderer(FieldOptions(field=field, width=4, depth=1, num_samples=5, resolution=8))
    assert isinstance(few, HierarchicalRenderer)
    assert (few.num_coarse, few.num_fine) == ((5, 10) if field == "nerf" else (5, 5))


@pytest.mark.parametrize(
    ("options", "resolution", "nodes", "rows"),
    [
        ({}, 400, 500, 1 << 15),
        # Bounds of the nodes, whatever the size of the views.
        ({}, 8, 256, 1 << 15),
        ({}, 4000, 1024, 1 << 15),
        ({"space": "contracted"}, 100, 400, 1 << 17),
        # No hull is known of poses that are refined.
        ({"num_poses": 3}, 100, 400, 1 << 17),
    ],
)
def test_the_grid_of_an_object_is_smaller_than_that_of_a_capture(
    options: dict[str, Any], resolution: int, nodes: int, rows: int
) -> None:
    renderer = make_renderer(
        FieldOptions("hash", field="proposal", resolution=resolution, **options)
    )
    assert isinstance(renderer, ProposalRenderer)
    grid = renderer.field.position_encoder
    assert isinstance(grid, HashGridEncoder)
    # Rounding of the growth may add one.
    assert grid.resolutions[-1] in (nodes, nodes + 1)
    assert grid.rows_per_level[-1] == rows
    assert (grid.num_levels, grid.features_per_level) == (8, 4)
    assert matrix_shapes(renderer.field.trunk) == [(64, 32)]
    assert renderer.num_samples == 16
    # Saved fits of the small field are loaded with its own layers.
    assert FieldOptions("hash", field="mlp").layers == (128, 4)


def test_a_seed_gives_the_same_weights_and_the_two_passes_of_nerf_differ() -> None:
    weights = []
    for seed in (1, 1, 2):
        renderer = make_renderer(
            FieldOptions(field="nerf", width=4, depth=1, seed=seed, resolution=8)
        )
        assert isinstance(renderer, HierarchicalRenderer)
        assert renderer.fine is not None
        coarse, fine = (
            next(field.trunk.parameters()) for field in (renderer.coarse, renderer.fine)
        )
        assert not torch.equal(coarse, fine)
        weights.append(coarse)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.usefixtures("unchecked")
def test_a_field_without_a_name_in_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no field 'large'; there are mip, mlp, nerf, proposal"):
        make_renderer(FieldOptions(field="large", resolution=8))


def test_muon_steps_the_hidden_matrices_of_every_field() -> None:
    renderer = make_renderer(FieldOptions(field="nerf", width=4, depth=2, resolution=8))
    group = renderer.make_optimizer("muon")
    matrices, rest = (part.param_groups[0] for part in group.optimizers)
    # Two layers of the trunk, the feature vector and the head, in both fields.
    assert len(matrices["params"]) == 2 * 4
    assert len(rest["params"]) == len(list(renderer.parameters())) - 8
    assert (matrices["lr"], rest["lr"]) == (0.02, 0.01)
    assert renderer.make_optimizer("adam").optimizers[0].param_groups[0]["lr"] == 5e-4
    assert renderer.make_optimizer("adam", 0.3).optimizers[0].param_groups[0]["lr"] == 0.3


def test_only_mip_nerf_weights_its_coarse_pass() -> None:
    # Barron et al. 2021, equation 17: lambda = 0.1.
    target, none = torch.zeros(1, 3), torch.zeros(1)
    rendering = Rendering(target, none, none, torch.ones(1, 3))
    fields = [FieldOptions(field=name, width=4, depth=1) for name in ("nerf", "mip")]
    losses = [make_renderer(field).loss(rendering, target) for field in fields]
    assert [float(each.loss) for each in losses] == pytest.approx([1.0, 0.1])
    # What is shown is the error of the colors alone.
    assert [float(each.shown) for each in losses] == [0.0, 0.0]


class Recorded(OccupancyGrid):
    """Records when it is updated and which share of it."""

    def __init__(self) -> None:
        super().__init__(4)
        self.calls: list[tuple[int, float]] = []

    def update(self, density_at, *, seed: int, share: float = 1.0) -> None:  # type: ignore[no-untyped-def]
        self.calls.append((seed, share))


def test_the_grid_is_updated_every_32_steps_from_step_100_on_by_quarters() -> None:
    renderer = make_renderer(FieldOptions(width=4, depth=1, resolution=8))
    assert isinstance(renderer, GridRenderer)
    grid = Recorded()
    renderer.grid = grid
    state = FitState(renderer, renderer.make_optimizer("adam"), 300)
    update = renderer.after_step()
    for state.step in range(200):
        update(state)
    assert grid.calls == [(128, 0.25), (160, 0.25), (192, 0.25)]
    renderer.grid = None
    update(state)


def test_rays_are_drawn_of_the_pixels_that_meet_an_occupied_cell() -> None:
    camera = Camera.from_angle(4, 4, 0.3)
    pose = torch.eye(4)
    pose[2, 3] = 4.0
    rgb: Tensor = torch.arange(16.0).view(1, 4, 4, 1).expand(1, 4, 4, 3) / 16
    views = Views(rgb, [camera], pose[None], ["a"])
    renderer = make_renderer(FieldOptions(width=4, depth=1, resolution=8))
    assert isinstance(renderer, GridRenderer)
    assert renderer.grid is not None
    # Only the right half of the cube is occupied.
    renderer.grid.occupied.copy_(renderer.grid.centers()[:, 0] > 0)
    _, drawn = renderer.batches(views, 100, seed=0)(0)
    found = set((drawn[:, 0] * 16).long().tolist())
    assert found >= {2, 3, 6, 7, 10, 11, 14, 15}
    # A cell may cover the next pixel, but no more than that.
    assert not found & {0, 4, 8, 12}
    renderer.grid = None
    _, drawn = renderer.batches(views, 300, seed=0)(0)
    assert len(drawn[:, 0].unique()) == 16
