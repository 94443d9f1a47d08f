"""Hashed and dense grids and planes, against the papers' definitions written out."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

from nerf_posenc import DenseGridEncoder, HashGridEncoder, KPlanesEncoder
from nerf_posenc.encoders.hash_grid import grid_levels

PRIMES = (1, 2654435761, 805459861, 3674653429)


def by_the_book(
    params: torch.Tensor, x: list[float], *, base: int, growth: float, size: int, extra: int = 0
) -> list[float]:
    """tiny-cuda-nn's encoding of one point, in Python's integers; torch-ngp's has an extra node."""
    features: list[float] = []
    first = 0
    for level in range(4):
        power = np.exp2(np.float32(level) * np.log2(np.float32(growth)))
        scale = float(power * np.float32(base) - np.float32(1))
        nodes = math.ceil(scale) + 1 + extra
        rows = min(math.ceil(nodes ** len(x) / 8) * 8, size)
        position = [(v + 1) / 2 * scale + 0.5 for v in x]
        total = torch.zeros(params.shape[1])
        for corner in itertools.product((0, 1), repeat=len(x)):
            weight, node = 1.0, []
            for p, c in zip(position, corner, strict=True):
                fraction = p - math.floor(p)
                weight *= fraction if c else 1 - fraction
                node.append(math.floor(p) + c)
            row = sum(n * nodes**i for i, n in enumerate(node))
            if nodes ** len(x) > rows:
                row = 0
                for n, prime in zip(node, PRIMES, strict=False):
                    row ^= (n * prime) & 0xFFFFFFFF
            total += params[first + row % rows] * weight
        features += total.tolist()
        first += rows
    assert first == len(params)
    return features


@pytest.mark.parametrize("in_dim", [1, 2, 3, 4])
@pytest.mark.parametrize("base", [3, 20])
def test_a_tcnn_checkpoint_gives_its_numbers(in_dim: int, base: int) -> None:
    # 20 * 1.3572088**3 is 49.999999, and in float32 above 50: the last level has 51 nodes.
    growth = 1.7 if base == 3 else 1.3572088
    config = dict(
        otype="HashGrid", n_levels=4, log2_hashmap_size=11, base_resolution=base,
        per_level_scale=growth,
    )  # fmt: skip
    rows = sum(level.rows for level in grid_levels(in_dim, 4, 11, base, growth))
    params = torch.randn(rows, 2)
    encoder = HashGridEncoder.from_tcnn(in_dim, config, params.flatten(), bounds=(-1.0, 1.0))
    # The last half cell is where nodes are wrapped around.
    x = torch.cat([torch.rand(10, in_dim) * 2 - 1, 1 - 0.01 * torch.rand(5, in_dim)])
    expected = [
        by_the_book(params, row, base=base, growth=growth, size=2048) for row in x.double().tolist()
    ]
    found = encoder.double()(x.double()).detach().float()
    torch.testing.assert_close(found, torch.tensor(expected), atol=1e-4, rtol=0)
    with pytest.raises(ValueError, match="this grid has"):
        HashGridEncoder.from_tcnn(in_dim, config, params[1:].flatten())
    with pytest.raises(ValueError, match="type Hash or Dense"):
        HashGridEncoder.from_tcnn(in_dim, {"otype": "TiledGrid"}, params.flatten())


@pytest.mark.parametrize("padded", [True, False])
def test_a_torch_ngp_checkpoint_gives_its_numbers(padded: bool) -> None:
    growth = 1.7
    levels = grid_levels(3, 4, 10, 3, growth, "torch-ngp")
    table = torch.randn(sum(level.rows for level in levels), 2)
    parts = table.split([level.rows for level in levels])
    used = [part[: min(level.nodes**3, 1024)] for part, level in zip(parts, levels, strict=True)]
    encoder = HashGridEncoder.from_torch_ngp(
        3, table if padded else torch.cat(used), num_levels=4, base_resolution=3,
        per_level_scale=growth, log2_hashmap_size=10,
    )  # fmt: skip
    x = torch.cat([torch.rand(10, 3) * 2 - 1, torch.ones(1, 3)])
    expected = [
        by_the_book(table, row, base=3, growth=growth, size=1024, extra=1)
        for row in x.double().tolist()
    ]
    found = encoder.double()(x.double()).detach().float()
    torch.testing.assert_close(found, torch.tensor(expected), atol=1e-4, rtol=0)


@pytest.mark.parametrize("align_corners", [True, False])
def test_a_dense_grid_is_what_torch_samples(align_corners: bool) -> None:
    encoder = DenseGridEncoder(
        3, base_resolution=5, features_per_level=2, align_corners=align_corners
    )
    grid = torch.randn(2, 5, 5, 5)
    with torch.no_grad():
        encoder.table.copy_(grid.flatten(1).T)
    x = torch.cat([torch.rand(20, 3) * 2 - 1, torch.ones(1, 3), -torch.ones(1, 3)])
    expected = torch.nn.functional.grid_sample(
        grid[None], x[None, None, None], align_corners=align_corners
    )
    torch.testing.assert_close(encoder(x), expected[0, :, 0, 0].T, atol=1e-6, rtol=1e-5)


def test_levels_of_a_dense_grid_are_grids_of_one_level_each() -> None:
    encoder = DenseGridEncoder(3, 3, base_resolution=4, growth=1.5, features_per_level=2)
    torch.nn.init.normal_(encoder.table)
    x = torch.rand(11, 3) * 2 - 1
    parts = []
    for nodes, table in zip(encoder.resolutions, encoder.tables, strict=True):
        level = DenseGridEncoder(3, base_resolution=nodes, features_per_level=2)
        with torch.no_grad():
            level.table.copy_(table)
        parts.append(level(x))
    torch.testing.assert_close(encoder(x), torch.cat(parts, dim=-1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_corners_found_beforehand_give_the_same_features_and_gradients(dtype: torch.dtype) -> None:
    encoder = HashGridEncoder(2, 4, features_per_level=3, log2_table_size=8)
    x = torch.rand(3, 50, 2, dtype=dtype) * 2 - 1
    corners = encoder.corners(x)
    direct, looked_up = encoder(x), encoder.interpolate(corners)
    assert looked_up.dtype == direct.dtype
    assert torch.equal(direct.reshape(-1, encoder.out_dim), looked_up)
    toward = torch.randn_like(looked_up)
    (grad,) = torch.autograd.grad(looked_up, encoder.table, toward)
    # The table's gradient, one corner of one point in one level at a time.
    expected = torch.zeros(encoder.table.shape, dtype=torch.float64)
    by_point = zip(*(part.transpose(0, 1) for part in corners), strict=True)
    for point, (rows, weights) in enumerate(by_point):
        for level in range(4):
            part = toward[point, 3 * level : 3 * level + 3].double()
            for row, weight in zip(rows[level].tolist(), weights[level].double(), strict=True):
                expected[row] += weight * part
    torch.testing.assert_close(grad.double(), expected, atol=1e-5, rtol=1e-5)


def test_dense_levels_come_first_and_have_a_row_a_node() -> None:
    encoder = HashGridEncoder(2, 5, base_resolution=4, log2_table_size=8)
    assert encoder.resolutions == [4, 8, 16, 32, 64]
    assert [len(table) for table in encoder.tables] == [16, 64, 256, 256, 256]


def test_tables_start_uniform_within_a_ten_thousandth() -> None:
    # Instant-NGP (Müller et al. 2022), section 4: U(-1e-4, 1e-4).
    table = HashGridEncoder(2, 4, log2_table_size=12).table.detach() * 1e4
    assert -1 <= float(table.min()) < -0.99
    assert 0.99 < float(table.max()) <= 1
    # The standard error of the mean of about 15,000 values is 0.005.
    assert float(table.mean()) == pytest.approx(0, abs=0.025)
    assert float(table.var()) == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize("interpolation", ["linear", "smoothstep"])
def test_grids_are_continuous_and_meet_their_nodes(interpolation: str) -> None:
    encoder = DenseGridEncoder(
        1,
        base_resolution=5,
        features_per_level=1,
        interpolation=interpolation,  # type: ignore[arg-type]
    )
    torch.nn.init.normal_(encoder.table)
    x = torch.linspace(-1, 1, 5)
    expected = encoder.tables[0].detach()
    torch.testing.assert_close(encoder(x[:, None]).detach(), expected, atol=1e-5, rtol=0)
    line = encoder(torch.linspace(-1, 1, 20_001)[:, None]).detach()
    assert line.diff(dim=0).abs().max() < 2e-3


def test_smoothstep_has_derivatives_that_meet_at_the_nodes() -> None:
    for interpolation, meets in (("linear", False), ("smoothstep", True)):
        encoder = DenseGridEncoder(1, base_resolution=5, interpolation=interpolation).double()  # type: ignore[arg-type]
        torch.nn.init.normal_(encoder.table)
        node = 2 / 4 * 2 - 1
        x = torch.tensor([[node - 1e-9], [node + 1e-9]], dtype=torch.float64, requires_grad=True)
        (slopes,) = torch.autograd.grad(encoder(x).sum(), x)
        assert bool((slopes[0] - slopes[1]).abs() < 1e-5) == meets


def test_progress_lets_levels_in_from_coarse_to_fine() -> None:
    encoder = HashGridEncoder(2, 4, log2_table_size=8)
    x = torch.rand(5, 2)
    assert torch.equal(encoder(x, progress=1.0), encoder(x))
    half = encoder(x, progress=0.5)
    assert torch.equal(half[:, :4], encoder(x)[:, :4])
    assert not half[:, 4:].any()


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "product", "concat"])
def test_planes_are_sampled_bilinearly_and_combined(reduce: str, align_corners: bool) -> None:
    sizes = (4, 6, 5)
    encoder = KPlanesEncoder(
        3,
        3,
        resolution=sizes,
        reduce=reduce,  # type: ignore[arg-type]
        align_corners=align_corners,
    )
    x = torch.rand(20, 3) * 2 - 1
    samples = []
    for first, second in ((0, 1), (0, 2), (1, 2)):
        plane = torch.rand(3, sizes[second], sizes[first])
        encoder.set_plane((first, second), plane)
        at = x[None, None][..., [first, second]]
        sampled = torch.nn.functional.grid_sample(plane[None], at, align_corners=align_corners)
        samples.append(sampled[0, :, 0].T)
    expected = {
        "sum": sum(samples),
        "product": samples[0] * samples[1] * samples[2],
        "concat": torch.cat(samples, -1),
    }[reduce]
    assert isinstance(expected, torch.Tensor)
    torch.testing.assert_close(encoder(x).detach(), expected, atol=1e-5, rtol=0)


def test_coordinates_outside_are_taken_to_the_edge() -> None:
    for encoder in (HashGridEncoder(2, 3, log2_table_size=6), KPlanesEncoder(3, 2, resolution=4)):
        x = torch.full((1, encoder.in_dim), 1.0)
        assert torch.equal(encoder(x * 7), encoder(x))
        assert torch.equal(encoder(x * -7), encoder(-x))


@pytest.mark.parametrize("kind", [HashGridEncoder, DenseGridEncoder])
@pytest.mark.parametrize(("levels", "most"), [(4, 37), (7, 200), (2, 2048)])
def test_levels_reach_their_max_resolution(kind: Any, levels: int, most: int) -> None:
    encoder = kind(1, levels, base_resolution=3, max_resolution=most)
    assert encoder.resolutions[0] == 3
    assert encoder.resolutions[-1] == most
    listed = kind(1, resolutions=encoder.resolutions)
    assert listed.rows_per_level == encoder.rows_per_level


@pytest.mark.parametrize("convention", ["instant-ngp", "torch-ngp", "nerfstudio"])
def test_listed_resolutions_are_those_of_growth(convention: Any) -> None:
    grown = HashGridEncoder(2, 3, base_resolution=4, log2_table_size=6, convention=convention)
    listed = HashGridEncoder(2, resolutions=[4, 8, 16], log2_table_size=6, convention=convention)
    listed.load_state_dict(grown.state_dict())
    x = torch.rand(20, 2) * 2 - 1
    assert torch.equal(listed(x), grown(x))
    assert repr(listed) == repr(grown)


@pytest.mark.parametrize("kind", [HashGridEncoder, DenseGridEncoder])
def test_nodes_given_as_levels_are_named(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"in 64 levels. One level of N nodes .* resolutions="):
        kind(3, 64)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(in_dim=5), "in_dim must be 1 to 4"),
        (dict(num_levels=0), "num_levels must be 1 or more"),
        (dict(base_resolution=1), "a resolution of 2 or more.* got 1 in"),
        (dict(growth=0.5), "growth must be 1 or more"),
        (dict(growth=2.0, max_resolution=64), "give growth, max_resolution or resolutions"),
        (dict(num_levels=2, resolutions=[4, 8]), "give growth, max_resolution or resolutions"),
        (dict(resolutions=[4, 1]), "a resolution of 2 or more.* got 1 in"),
        (dict(max_resolution=8), "max_resolution must be base_resolution or more"),
        (dict(num_levels=1, max_resolution=32), "with one level the same"),
        (dict(resolutions=[4, 2**24 + 1]), "at most the 2[*][*]24 nodes"),
        (dict(log2_table_size=40), "log2_table_size must be 0 to 32"),
        (dict(convention="mine"), "convention must be"),
        (dict(bounds=(1.0, 1.0)), "bounds must be a lower and a higher"),
        (dict(interpolation="cubic"), "interpolation must be"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HashGridEncoder(**{"in_dim": 2, **arguments})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="reduce must be"):
        KPlanesEncoder(reduce="max")  # type: ignore[arg-type]


@pytest.mark.parametrize("reduce", ["sum", "concat"])
def test_planes_that_are_added_start_around_0(reduce: str) -> None:
    encoder = KPlanesEncoder(3, 8, resolution=64, reduce=reduce)  # type: ignore[arg-type]
    planes = torch.cat([plane.detach() for plane in encoder.planes])
    assert planes.mean().item() == pytest.approx(0, abs=3e-3)
    assert planes.std().item() == pytest.approx(0.1, rel=0.03)


def test_tables_have_0_to_32_bits() -> None:
    assert HashGridEncoder(2, 2, log2_table_size=0).rows_per_level == [1, 1]
    for bits in (-1, 33):
        with pytest.raises(ValueError, match="log2_table_size must be 0 to 32"):
            HashGridEncoder(2, 1, log2_table_size=bits)
