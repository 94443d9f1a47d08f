"""Refined poses: motions and alignment in closed form, steps against finite differences."""

import copy
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from nerf_posenc.core.encoder import Identity
from nerf_posenc.encoders.hash_grid import HashGridEncoder
from nerf_posenc.radiance.build import FieldOptions, make_renderer
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.evaluation import with_refined_poses
from nerf_posenc.radiance.fields import RadianceField
from nerf_posenc.radiance.poses import align_poses, exp_se3, look_at, pose_difference
from nerf_posenc.radiance.proposals import ProposalRenderer
from nerf_posenc.radiance.ray_batches import RayBatches
from nerf_posenc.radiance.rays import Rays
from nerf_posenc.radiance.refinement import REFINEMENT, RESTART, SEARCH, PoseRefinement
from nerf_posenc.radiance.views import Views
from nerf_posenc.radiance.volume_rendering import Rendering
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.schedules import cosine_decay


def random_poses(count: int, seed: int = 0) -> Tensor:
    """Cameras around the origin that look about at it."""
    generator = torch.Generator().manual_seed(seed)
    positions = 3 * nn.functional.normalize(torch.randn(count, 3, generator=generator), dim=-1)
    targets = 0.2 * torch.randn(count, 3, generator=generator)
    up = torch.tensor([0.1, 0.2, 1.0])
    pairs = zip(positions.double(), targets.double(), strict=True)
    return torch.stack([look_at(*pair, up.double()) for pair in pairs])


@pytest.mark.parametrize("angle", [1e-4, 0.3, 3.0])
def test_twists_rotate_as_rodrigues_says(angle: float) -> None:
    axis = nn.functional.normalize(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64), dim=0)
    velocity = torch.tensor([0.3, 0.1, -0.7], dtype=torch.float64)
    found = exp_se3(torch.cat([angle * axis, velocity]))
    x = torch.tensor([0.2, 0.9, -0.4], dtype=torch.float64)
    along = axis * (axis @ x)
    across = torch.linalg.cross(axis, x)
    rotated = along + math.cos(angle) * (x - along) + math.sin(angle) * across
    torch.testing.assert_close(found[:3, :3] @ x, rotated)
    # The integral of the rotated velocity over the motion, by the trapezoidal rule.
    times = torch.linspace(0, 1, 2001, dtype=torch.float64)[:, None]
    moving = exp_se3(times * torch.cat([angle * axis, 0 * axis]))[:, :3, :3] @ velocity
    torch.testing.assert_close(
        found[:3, 3], torch.trapezoid(moving, times, dim=0), rtol=1e-5, atol=1e-7
    )


def test_poses_that_differ_by_a_similarity_are_the_same() -> None:
    poses = random_poses(7)
    moved = exp_se3(torch.tensor([0.4, 1.0, -0.3, 2.0, 0.0, 1.0], dtype=torch.float64)) @ poses
    moved[:, :3, 3] *= 3
    torch.testing.assert_close(align_poses(poses, moved)(poses), moved)
    difference = pose_difference(poses, moved)
    assert float(difference.degrees.max()) < 1e-4
    assert float(difference.distances.max()) < 1e-9
    # Cameras on all sides that roll in their places: opposite ones roll in opposite ways.
    sides = torch.cat([torch.eye(3), -torch.eye(3)]).double()
    poses = torch.stack([look_at(3 * side, 0 * side, side.roll(1)) for side in sides])
    rolled = poses @ exp_se3(torch.tensor([0.0, 0.0, 0.2, 0.0, 0.0, 0.0], dtype=torch.float64))
    torch.testing.assert_close(
        pose_difference(rolled, poses).degrees, torch.full((6,), math.degrees(0.2)).double()
    )


def test_cameras_on_a_line_are_aligned_by_their_axes() -> None:
    poses = random_poses(1).repeat(4, 1, 1)
    poses[:, :3, 3] += torch.arange(4.0).double()[:, None] * torch.tensor([0.3, 0.1, 0.2])
    # About the line that they stand on.
    line = nn.functional.normalize(torch.tensor([0.3, 0.1, 0.2], dtype=torch.float64), dim=0)
    moved = exp_se3(torch.cat([1.3 * line, 0 * line])) @ poses
    torch.testing.assert_close(align_poses(poses, moved)(poses), moved)


def test_positions_that_disagree_with_the_axes_are_not_mirrored() -> None:
    poses = torch.eye(4, dtype=torch.float64).repeat(6, 1, 1)
    poses[:, :3, 3] = torch.cat([torch.eye(3), -torch.eye(3)])
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        found = poses.clone()
        found[:, :3, 3] *= -0.2
        found[:, :3, 3] += 0.1 * torch.randn(6, 3, generator=generator)
        align, ahead = align_poses(found, poses), found.clone()
        ahead[:, :3, 3] -= found[:, :3, 2]
        step = align(ahead)[:, :3, 3] - align(found)[:, :3, 3]
        # A camera that moves ahead does so once aligned, or stays.
        assert float((step * -align(found)[:, :3, 2]).sum(-1).min()) >= 0
    # Poses that are all at one position have no scale.
    alone = random_poses(1)
    away = exp_se3(torch.tensor([0.3, 0.0, 0.0, 1.0, 0.0, 0.0], dtype=torch.float64))
    torch.testing.assert_close(align_poses(alone, away @ alone)(poses), away @ poses)


def test_aligned_cameras_are_not_mirrored_where_their_positions_are() -> None:
    poses = torch.eye(4, dtype=torch.float64).repeat(5, 1, 1)
    poses[:, 0, 3] = torch.linspace(-2, 2, 5)
    poses[:, 1, 3] = torch.tensor([0.1, -0.2, 0.0, 0.2, 0.1])
    found = poses.clone()
    found[:, 0, 3] *= -1
    axes = align_poses(found, poses)(found)[:, :3, :3]
    torch.testing.assert_close(torch.linalg.det(axes), torch.ones(5, dtype=torch.float64))


class Waves(nn.Module):
    """Colors that change smoothly from ray to ray, without samples along them."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.matrix = nn.Parameter(torch.randn(6, 3, generator=generator))

    def forward(self, rays: Rays, generator: torch.Generator | None = None) -> Rendering:
        # The nearest point to the origin tells where a ray is, whatever point of it is given.
        nearest = rays.origins - rays.directions * (rays.origins * rays.directions).sum(
            -1, keepdim=True
        )
        rgb = 0.5 + 0.4 * torch.tanh(torch.cat([nearest, rays.directions], -1) @ self.matrix)
        return Rendering(rgb, rgb[:, 0], rgb[:, 0])


def some_rays(count: int) -> Rays:
    generator = torch.Generator().manual_seed(1)
    origins, directions = torch.randn(2, count, 3, generator=generator)
    return Rays(
        origins,
        nn.functional.normalize(directions, dim=-1),
        torch.full((count,), 1e-3),
        torch.zeros(count, 3),
    )


def test_slope_and_curvature_are_those_of_the_squared_error_by_twists() -> None:
    rays, renderer, refinement = some_rays(40), Waves(), PoseRefinement(2)
    views = torch.arange(40) % 2
    target = torch.rand(40, 3, generator=torch.Generator().manual_seed(2))
    rendering = renderer(refinement(rays, views))
    refinement.watch(rendering.rgb)
    (rendering.rgb - target).square().mean().backward()
    refinement.update(0.0)

    def lengths(twists: Tensor) -> Tensor:
        poses = exp_se3(twists)[views]
        origins = (poses[:, :3, :3] @ rays.origins[..., None])[..., 0] + poses[:, :3, 3]
        directions = (poses[:, :3, :3] @ rays.directions[..., None])[..., 0]
        moved = rays._replace(origins=origins, directions=directions)
        length: Tensor = (renderer(moved).rgb - target).norm(dim=-1)
        return length

    jacobian = torch.autograd.functional.jacobian(lengths, torch.zeros(2, 6))
    assert isinstance(jacobian, Tensor)
    residual = lengths(torch.zeros(2, 6))
    for view in range(2):
        rows = jacobian[:, view]
        torch.testing.assert_close(refinement.slope[view], rows.T @ residual)
        torch.testing.assert_close(refinement.curvature[view], rows.T @ rows)


def test_views_are_brought_to_where_the_field_shows_them() -> None:
    renderer, poses = Waves(), random_poses(3).float()
    camera = Camera.from_angle(24, 24, 0.9)
    blank = Views(torch.zeros(3, 24, 24, 3), [camera] * 3, poses, ["a", "b", "c"])
    with torch.no_grad():
        pixels = [renderer(blank.rays(view)).rgb.view(24, 24, 3) for view in range(3)]
    noise = 0.1 * torch.randn(3, 6, generator=torch.Generator().manual_seed(3))
    views = Views(torch.stack(pixels), [camera] * 3, exp_se3(noise) @ poses, ["a", "b", "c"])
    found = with_refined_poses(renderer, views, steps=400).world_from_camera
    start = (views.world_from_camera - poses).abs().max()
    assert float((found - poses).abs().max()) < 0.03 * float(start)
    rotations = (found @ torch.linalg.inv(views.world_from_camera))[:, :3, :3]
    torch.testing.assert_close(rotations @ rotations.mT, torch.eye(3).expand(3, 3, 3))
    assert all(p.requires_grad and p.grad is None for p in renderer.parameters())


class Ball(nn.Module):
    """A hard ball, whose density has no slope, in colors of the position."""

    def forward(self, positions: Tensor, directions: Tensor, **_: Tensor) -> tuple[Tensor, Tensor]:
        density = 50.0 * (positions.detach().norm(dim=-1) < 0.7)
        return density, torch.sigmoid(3 * positions)


def test_poses_learn_from_the_colors_alone_and_not_from_the_penalty() -> None:
    renderer = ProposalRenderer(Ball(), num_poses=1, generator=torch.Generator().manual_seed(0))
    refinement = renderer.poses
    assert refinement is not None
    views = torch.zeros(16, dtype=torch.long)
    origins = torch.tensor([0.0, 0.0, 3.0]).repeat(16, 1)
    aims = 0.4 * torch.randn(16, 3, generator=torch.Generator().manual_seed(1))
    directions = nn.functional.normalize(aims - origins, dim=-1)
    rays = Rays(origins, directions, torch.full((16,), 1e-3), torch.zeros(16, 3))
    gradients = []
    for weight in (0.0, 1.0):
        rendering = renderer(rays, torch.Generator().manual_seed(2), views=views)
        assert rendering.penalty is not None
        (rendering.rgb.square().mean() + weight * rendering.penalty).backward()
        assert refinement._rays is not None
        gradients.append(refinement._rays[1].grad)
    torch.testing.assert_close(*gradients)
    assert float(gradients[0].abs().max()) > 1e-3  # type: ignore[union-attr]


def test_bands_open_from_coarse_to_fine_and_directions_come_last() -> None:
    generator = torch.Generator().manual_seed(0)
    field = RadianceField(
        HashGridEncoder(3, 4, log2_table_size=8, generator=generator),
        Identity(3),
        width=16,
        depth=1,
        generator=generator,
    )
    nn.init.normal_(next(field.position_encoder.parameters()), generator=generator)
    x, d = torch.rand(2, 9, 3, generator=generator)
    toward, away = (field(x, s * d, progress=torch.tensor(0.9))[1] for s in (1, -1))
    torch.testing.assert_close(toward, away)
    torch.testing.assert_close(field(x, d, progress=torch.tensor(1.0)), field(x, d))
    assert float((field(x, d)[1] - field(x, -d)[1]).detach().abs().max()) > 1e-3
    constant, _ = field(x, d, progress=torch.tensor(0.0))
    torch.testing.assert_close(constant, constant[:1].expand(9))


def test_a_renderer_refines_poses_of_its_training_views_alone() -> None:
    camera = Camera.from_angle(8, 8, 0.7)
    views = Views(torch.ones(2, 8, 8, 3), [camera] * 2, random_poses(2).float(), ["a", "b"])
    renderer = make_renderer(FieldOptions("hash", field="proposal", num_poses=2), views)
    assert isinstance(renderer, ProposalRenderer)
    assert renderer.poses is not None
    rays = views.rays(0)
    with torch.no_grad():
        plain = renderer(rays).rgb
        renderer.poses.corrections[1] = exp_se3(torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 5.0]))
        moved = renderer(rays, views=torch.ones(64, dtype=torch.long)).rgb
        torch.testing.assert_close(renderer(rays).rgb, plain)
    # Moved away, the camera sees the background.
    torch.testing.assert_close(moved, torch.ones(64, 3))
    assert float((plain - moved).abs().max()) > 0.01


def test_the_field_restarts_once_its_poses_are_found_resumed_or_not() -> None:
    camera = Camera.from_angle(8, 8, 0.7)
    views = Views(torch.rand(3, 8, 8, 4), [camera] * 3, random_poses(3).float(), ["a", "b", "c"])
    states, num_steps = [], 20

    def begin() -> tuple[FitState, RayBatches, Callable[[FitState], None]]:
        renderer = make_renderer(FieldOptions("hash", field="proposal", num_poses=3), views)
        batches = renderer.batches(views, 16, seed=0, background="white")
        state = FitState(renderer, renderer.make_optimizer("adam"), num_steps)
        return state, batches, renderer.after_step(batches)

    def whites(batches: RayBatches) -> bool:
        return bool((batches(0)[0].rays.background == 1).all())

    state, batches, update = begin()
    initial = copy.deepcopy(state.model.state_dict())
    for step in range(1, num_steps + 1):
        for parameter in state.model.parameters():
            parameter.grad = torch.ones_like(parameter)
        state.optimizer.step()
        state.step = step
        update(state)
        weights = state.model.state_dict()
        same = [torch.equal(weights[k], initial[k]) for k in weights if "poses." not in k]
        # Two fifths of 20 steps.
        assert all(same) == (step == 8)
        assert (not any(o.state for o in state.optimizer.optimizers)) == (step == 8)
        assert whites(batches) == (step >= 8)
        assert bool(weights["poses.progress"] == 1) == (step >= 8)
        states.append(copy.deepcopy(state.state_dict()))
    for step in (3, 8, 10, 15):
        resumed, batches, update = begin()
        resumed.load_state_dict(states[step - 1])
        assert whites(batches) == (step >= 8)
        before = copy.deepcopy(resumed.model.state_dict())
        if step >= 8:
            resumed.step = 19
            update(resumed)
            after = resumed.model.state_dict()
            assert all(torch.equal(before[k], after[k]) for k in after if "poses." not in k)


def test_no_stage_is_left_out_or_entered_twice_where_progress_is_an_estimate() -> None:
    refinement = PoseRefinement(1)
    entered = [refinement.enter(progress) for progress in (0.1, 0.9, 0.2, 0.6, 0.3, 0.9)]
    assert entered == [None, RESTART, None, REFINEMENT, None, None]


def test_both_fields_learn_by_a_whole_decay_of_the_learning_rate() -> None:
    refinement = PoseRefinement(1)
    restart = refinement.search.restart
    for start, end in ((0.0, restart), (restart, 1.0)):
        rates = [refinement.schedule(start + i / 50 * (end - start)) for i in range(50)]
        assert rates == pytest.approx([cosine_decay(i / 50) for i in range(50)])


def test_outliers_are_the_worst_views_with_errors_far_above_the_median() -> None:
    # Sharp and blurred views differ by a factor of two; a wrong pose is one of ten.
    errors = torch.ones(21)
    errors[::2] = 0.5
    errors[[3, 8]] = 2.0

    def draw(view: int, count: int, seed: int) -> tuple[Rays, Tensor]:
        rays = Rays(
            torch.zeros(count, 3), torch.ones(count, 3), torch.ones(count), torch.zeros(count, 3)
        )
        return rays, errors[view].sqrt().expand(count, 3)

    refinement = PoseRefinement(21)
    assert refinement.outliers(lambda rays: rays.background, draw) == []
    errors[[5, 11]] = torch.tensor([10.0, 20.0])
    assert refinement.outliers(lambda rays: rays.background, draw) == [11, 5]
    # A tenth of the views at most.
    errors[12:18] = 15.0
    errors[19] = 40.0
    assert refinement.outliers(lambda rays: rays.background, draw)[:2] == [19, 11]
    assert len(refinement.outliers(lambda rays: rays.background, draw)) == 3


@pytest.mark.parametrize("found_from", ["the given pose", "the present pose"])
def test_an_outlier_among_the_views_is_relocalized_and_others_stay(found_from: str) -> None:
    renderer, poses = Waves(), random_poses(4).float()
    camera = Camera.from_angle(24, 24, 0.9)
    blank = Views(torch.zeros(4, 24, 24, 3), [camera] * 4, poses, ["a", "b", "c", "d"])
    with torch.no_grad():
        pixels = [renderer(blank.rays(view)).rgb.view(24, 24, 3) for view in range(4)]
    # One search reaches a pose that is `near`, none one that is `far`.
    near = exp_se3(torch.tensor([[0.1, -0.05, 0.1, 0.05, 0.0, -0.05]]))
    far = exp_se3(torch.tensor([[0.9, 1.2, -0.8, 2.0, 1.0, -2.0]]))
    is_given = found_from == "the given pose"
    given = poses.clone()
    given[2:3] = (near if is_given else far) @ poses[2:3]
    present = exp_se3(0.002 * torch.randn(4, 6, generator=torch.Generator().manual_seed(3)))
    present[2:3] = (far if is_given else near) @ poses[2:3] @ torch.linalg.inv(given[2:3])
    views = replace(blank, pixels=torch.stack(pixels), world_from_camera=given)
    batches = RayBatches(views, 8, seed=0)
    refinement = PoseRefinement(4)
    refinement.corrections.copy_(present)
    refinement.leave_out(refinement.outliers(lambda rays: renderer(rays).rgb, batches.of_view))
    restored = PoseRefinement(4)
    restored.load_state_dict(refinement.state_dict())
    assert restored.left_out == [2]
    refinement.relocalize_outliers(lambda rays: renderer(rays).rgb, batches.of_view)
    assert refinement.left_out == []
    found = refinement.corrections
    torch.testing.assert_close(found[[0, 1, 3]], present[[0, 1, 3]], rtol=0, atol=0)
    off = (found[2] @ given[2] - poses[2]).norm()
    assert float(off) < 0.2 * float((near[0] @ poses[2] - poses[2]).norm())


def test_an_outlier_that_no_pose_explains_stays_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A short search.
    monkeypatch.setattr("nerf_posenc.radiance.refinement._ROUNDS", 4)
    renderer, poses = Waves(), random_poses(3).float()
    camera = Camera.from_angle(16, 16, 0.9)
    blank = Views(torch.zeros(3, 16, 16, 3), [camera] * 3, poses, ["a", "b", "c"])
    with torch.no_grad():
        pixels = torch.stack([renderer(blank.rays(view)).rgb.view(16, 16, 3) for view in range(3)])
    pixels[1] = torch.rand(16, 16, 3, generator=torch.Generator().manual_seed(0))
    refinement = PoseRefinement(3)
    noise = 0.002 * torch.randn(3, 6, generator=torch.Generator().manual_seed(3))
    refinement.corrections.copy_(exp_se3(noise))
    before = refinement.corrections.clone()
    draw = RayBatches(replace(blank, pixels=pixels), 8, seed=0).of_view
    assert refinement.outliers(lambda rays: renderer(rays).rgb, draw) == [1]
    refinement.relocalize_outliers(lambda rays: renderer(rays).rgb, draw)
    assert torch.equal(refinement.corrections, before)


@pytest.mark.parametrize(
    ("stage", "progress", "moves"),
    [(SEARCH, 0.0, False), (SEARCH, 0.3, True), (RESTART, 0.45, False), (REFINEMENT, 0.6, True)],
)
def test_poses_wait_while_a_new_field_is_fog(stage: int, progress: float, moves: bool) -> None:
    refinement = PoseRefinement(1)
    refinement.stage = stage
    rendering = Waves()(refinement(some_rays(30), torch.zeros(30, dtype=torch.long)))
    refinement.watch(rendering.rgb)
    rendering.rgb.square().mean().backward()
    refinement.update(progress)
    assert torch.equal(refinement.corrections[0], torch.eye(4)) != moves


def test_a_field_learns_nothing_from_a_view_that_is_left_out() -> None:
    refinement = PoseRefinement(3)
    refinement.leave_out([1])
    rays = Rays(torch.zeros(4, 3), torch.ones(4, 3), torch.ones(4), torch.ones(4, 3))
    views = torch.tensor([0, 1, 1, 2])
    field = torch.ones(3, 3, requires_grad=True)
    moved = refinement(rays, views)
    rgb = field[views] + moved.origins
    refinement.watch(rgb)
    rgb.square().sum().backward()
    assert field.grad is not None
    assert field.grad.tolist() == [[2.0] * 3, [0.0] * 3, [2.0] * 3]


def test_rays_of_a_view_are_those_of_its_pixels() -> None:
    camera, poses = Camera.from_angle(5, 4, 0.7), random_poses(3).float()
    pixels = torch.rand(3, 4, 5, 3, generator=torch.Generator().manual_seed(0))
    views = Views(pixels, [camera] * 3, poses, ["a", "b", "c"])
    rays, rgb = RayBatches(views, 8, seed=0).of_view(1, 50, seed=2)
    every = views.rays(1)
    # Each color is that of the pixel whose direction the ray has.
    number = (rays.directions[:, None] - every.directions).norm(dim=-1).argmin(1)
    torch.testing.assert_close(rays.directions, every.directions[number])
    torch.testing.assert_close(rgb, pixels[1].reshape(-1, 3)[number])
