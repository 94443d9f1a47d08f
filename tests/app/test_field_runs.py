"""Runs of the fields that auto chooses: of objects and captures, saved and loaded."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import train_fit
from nerf_posenc.fits import SceneFit, load_fit
from nerf_posenc.radiance.base_renderer import Renderer
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.poses import align_poses, exp_se3, look_at, pose_difference
from nerf_posenc.radiance.proposals import ProposalRenderer
from nerf_posenc.radiance.views import Scene, SurfacePoints, Views
from nerf_posenc.radiance.volume_rendering import Rendering
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.optimizers import adam
from nerf_posenc_app.data import open_scene
from nerf_posenc_app.kinds.kind import Fit, Problem
from nerf_posenc_app.kinds.scene.options import SceneOptions
from nerf_posenc_app.kinds.scene.pose_scores import notes_on_poses, pose_scores
from nerf_posenc_app.kinds.scene.scene import SceneKind
from nerf_posenc_app.values.blocks import Evaluation
from nerf_posenc_app.values.finding import Doubt
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result

pytestmark = pytest.mark.usefixtures("own_folder")

RUN = ["--steps", "3", "--batch-size", "64", "--turntable", "0", "--video", "0", "--quiet"]


def write_capture(folder: Path) -> None:
    """Opaque photographs from all around, the last ones darker."""
    folder.mkdir()
    frames = []
    for i in range(9):
        turn = 0.7 * i
        at = torch.tensor([2 * math.cos(turn), 2 * math.sin(turn), 0.5])
        pose = look_at(at, torch.zeros(3), torch.tensor([0.0, 0.0, 1.0]))
        pixels = np.full((6, 8, 3), 200 - 10 * i, np.uint8)
        pixels[:, :4] //= 2
        Image.fromarray(pixels).save(folder / f"{i}.png")
        frames.append({"file_path": f"{i}.png", "transform_matrix": pose.tolist()})
    meta = {"camera_angle_x": 0.8, "frames": frames}
    (folder / "transforms.json").write_text(json.dumps(meta))


def test_opaque_views_are_compared_on_the_proposal_field_and_objects_on_the_small_one() -> None:
    write_capture(Path("capture"))
    asked = SceneOptions(scene="capture", device="cpu")
    kind = SceneKind.open(asked)
    config = kind.resolve(asked)
    assert (config.field, config.steps) == ("proposal", 700)
    assert config.encodings == ("none", "fourier", "hash")
    asked = SceneOptions(scene="spheres", size=8, device="cpu", quiet=True)
    config = SceneKind.open(asked).resolve(asked)
    assert (config.field, config.encodings) == ("mlp", ("none", "fourier"))


def test_defaults_do_not_depend_on_how_many_encodings_or_steps_there_are() -> None:
    asked = SceneOptions(scene="spheres", size=8, device="cpu", field="auto", refine_poses=True)
    kind = SceneKind.open(asked)

    def rays(**lengths: Any) -> int | None:
        return kind.resolve(replace(asked, **lengths)).batch_size

    precise, in_time = rays(), rays(seconds=60)
    assert precise is not None
    assert in_time is not None
    # Little time is better spent on more steps.
    assert rays(steps=2999) == rays(steps=6000) == precise > in_time
    assert rays(batch_size=64) == 64
    proposal = replace(asked, field="proposal", refine_poses=False)
    lengths = {
        kind.resolve(replace(proposal, encodings=encodings)).steps
        for encodings in (("hash",), ("none", "hash"))
    }
    assert len(lengths) == 1


@pytest.mark.slow
def test_the_field_of_auto_is_fitted_saved_and_rendered_again() -> None:
    data = ["--scene", "spheres", "--size", "8", "--field", "auto", "--out", "run"]
    assert train_fit.main([*data, *RUN]) == 0
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert [fit["encoding"] for fit in metrics["fits"]] == ["hash"]
    assert Path("run/report.html").is_file()
    assert train_fit.main(["render", "run", "--out", "turn.webp", "--size", "8"]) == 0
    assert Path("turn.webp").is_file()
    fit = load_fit("run/fits/hash.safetensors")
    assert isinstance(fit, SceneFit)
    assert fit.options.space == "box"
    density, rgb = fit.field(torch.rand(4, 3), torch.rand(4, 3))
    assert (density.shape, rgb.shape) == ((4,), (4, 3))


@pytest.mark.slow
def test_a_capture_has_all_of_space_random_backgrounds_and_exposures() -> None:
    write_capture(Path("capture"))
    data = ["--scene", "capture", "--field", "auto", "--exposure", "--out", "run"]
    assert train_fit.main([*data, *RUN]) == 0
    fit = load_fit("run/fits/hash.safetensors")
    assert isinstance(fit, SceneFit)
    assert isinstance(fit.renderer, ProposalRenderer)
    assert fit.options.space == "contracted"
    # Every eighth of the nine views is a test view.
    assert fit.renderer.log_gains is not None
    assert fit.renderer.log_gains.shape == (7, 3)
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert metrics["config"]["background"] == "random"


@pytest.mark.slow
def test_poses_are_refined_scored_saved_and_applied_to_cameras_of_a_file() -> None:
    data = ["--scene", "spheres", "--size", "8", "--field", "auto", "--test-views", "1"]
    poses = ["--refine-poses", "--disturb-poses", "0.1", "--seed", "3", "--out", "run"]
    assert train_fit.main([*data, *poses, *RUN, "--steps", "12"]) == 0
    metrics = json.loads(Path("run/metrics.json").read_text())
    scores = metrics["fits"][0]
    assert scores["encoding"] == "hash"
    assert 2 < scores["rotation_deg"] < 30
    assert 0 < scores["position_percent"] < 100
    assert scores["psnr_db_at_aligned_poses"] > 0
    fit = load_fit("run/fits/hash.safetensors")
    assert isinstance(fit, SceneFit)
    assert isinstance(fit.renderer, ProposalRenderer)
    given, found = fit.given_poses, fit.world_from_camera
    assert given is not None
    torch.testing.assert_close(given, open_scene("spheres", size=8).train.world_from_camera)
    assert 2 < float(pose_difference(found, given).degrees.mean()) < 30
    # A camera of the file is rendered from where the refined poses have it.
    scene_pose = given[0].clone()
    scene_pose[:3, 3] = scene_pose[:3, 3] * fit.scale + torch.tensor(fit.center)
    placed = align_poses(given, found)(given[:1])[0]
    a = fit.render(fit.camera, scene_pose)
    torch.testing.assert_close(a.rgb, fit.render(fit.camera, placed, in_file_units=False).rgb)


def views_around(count: int, seed: int) -> Views:
    """White views of the middle from all around."""
    at = 3 * torch.nn.functional.normalize(
        torch.randn(count, 3, generator=torch.Generator().manual_seed(seed)), dim=-1
    )
    poses = torch.stack([look_at(x, torch.zeros(3), torch.tensor([0.0, 0.0, 1.0])) for x in at])
    names = [f"{seed}-{i}" for i in range(count)]
    return Views(torch.ones(count, 4, 6, 3), [Camera.from_angle(6, 4, 0.6)] * count, poses, names)


class Recorder(Renderer):
    """A white scene that records where it is rendered from."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.origins: list[torch.Tensor] = []

    def forward(self, rays: Any) -> Any:
        self.origins.append(rays.origins[0])
        count = len(rays.origins)
        return Rendering(torch.ones(count, 3), torch.ones(count), torch.ones(count))


def test_test_views_move_along_with_the_poses_of_the_others() -> None:
    options = SceneOptions(device="cpu", quiet=True, turntable=0, disturb_poses=0.1, test_views=2)
    kind = SceneKind(options, Scene("s", views_around(5, 0), views_around(2, 1), "here"))
    given, test = kind.given_poses, kind.scene.test.world_from_camera
    motion = exp_se3(torch.tensor([0.4, 0.9, -0.2, 0.3, 0.1, -0.5]))
    train = replace(kind.scene.train, world_from_camera=motion @ given)
    kind.scene = replace(kind.scene, train=train)
    model, config = Recorder(), kind.resolve(options)
    problem: Any = Problem(draw_batch=lambda step: (None, None), optimizer=adam(model))
    state = FitState(model, problem.optimizer, 1)
    evaluation = kind.evaluate(
        Fit(name=FitName("none"), config=config, model=model, problem=problem, state=state)
    )
    torch.testing.assert_close(torch.stack(model.origins), (motion @ test)[:, :3, 3])
    assert evaluation.scores["position_percent"] == pytest.approx(0.0, abs=1e-3)


def test_disturbed_poses_have_no_points_that_would_reveal_the_true_ones() -> None:
    points = SurfacePoints(torch.arange(5), torch.full((5, 2), 0.5), torch.zeros(5, 3))
    scene = Scene("s", replace(views_around(5, 0), points=points), views_around(2, 1), "here")
    for disturbance, is_kept in ((0.0, True), (0.1, False)):
        kind = SceneKind(SceneOptions(device="cpu", disturb_poses=disturbance), scene)
        assert (kind.scene.train.points is not None) == is_kept
        moved = kind.scene.train.world_from_camera != kind.given_poses
        assert bool(moved.any()) != is_kept


def test_a_fit_is_doubted_that_leaves_its_poses_where_they_were() -> None:
    given = views_around(6, 0).world_from_camera
    noise = 0.1 * torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
    start = exp_se3(noise) @ given
    doubted = []
    for found in (given, exp_se3(0.1 * noise) @ given, start, exp_se3(2 * noise) @ given):
        scores, _ = pose_scores(found, given)
        result = Result(
            name=FitName("hash"),
            seconds=1.0,
            evaluation=Evaluation(scores),
            details={"psnr_db_at_aligned_poses": 20.0},
        )
        notes = [*notes_on_poses([result], start, given)]
        doubted.append(any(isinstance(note, Doubt) for note in notes))
    assert doubted == [False, False, True, True]


def test_views_of_which_all_poses_are_the_same_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_capture(Path("capture"))
    path = Path("capture/transforms.json")
    meta = json.loads(path.read_text())
    for frame in meta["frames"]:
        frame["transform_matrix"] = torch.eye(4).tolist()
    path.write_text(json.dumps(meta))
    assert train_fit.main(["--scene", "capture", "--out", "run"]) == 2
    assert "capture: all training views have the same pose" in capsys.readouterr().err
    assert not Path("run").exists()
