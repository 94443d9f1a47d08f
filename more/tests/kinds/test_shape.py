"""Shapes: distances and surfaces against closed forms, runs from mesh to page and to mesh."""

import copy
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import trimesh
from torch import Tensor

import train_fit
from nerf_posenc.training.loop import ShownLoss
from nerf_posenc_app.data import SceneError
from nerf_posenc_app.values.names import FitName
from nerf_posenc_kinds.data.meshes import open_shape
from nerf_posenc_kinds.data.surfaces import shaded_view, surface_mesh
from nerf_posenc_kinds.mesh import write_mesh
from nerf_posenc_kinds.shape import ShapeKind, ShapeOptions

pytestmark = pytest.mark.usefixtures("own_folder")

QUICK = ["--steps", "12", "--batch-size", "256", "--width", "16", "--video", "0", "--quiet"]


def sphere(points: Tensor, radius: float = 0.5) -> Tensor:
    distances: Tensor = points.norm(dim=-1, keepdim=True) - radius
    return distances


def test_the_mesh_of_a_sphere_lies_on_it_and_looks_outward() -> None:
    vertices, faces = surface_mesh(sphere, 64)
    # Half a cell would be 0.016.
    assert float((vertices.norm(dim=-1) - 0.5).abs().max()) < 1e-3
    assert float(vertices.mean(0).abs().max()) < 1e-4
    a, b, c = vertices[faces].unbind(1)
    assert bool((torch.linalg.cross(b - a, c - a) * (a + b + c)).sum(-1).ge(-1e-9).all())
    volume = float((a * torch.linalg.cross(b, c)).sum() / 6)
    assert volume == pytest.approx(4 / 3 * math.pi * 0.5**3, rel=5e-3)
    assert len(surface_mesh(lambda points: sphere(points) + 5, 16)[1]) == 0


@pytest.mark.parametrize("suffix", [".ply", ".obj"])
def test_triangles_that_face_inwards_are_flipped(suffix: str) -> None:
    vertices, faces = surface_mesh(sphere, 16)
    mesh = trimesh.Trimesh(vertices.numpy(), faces.flip(1).numpy())
    mesh.export(f"a{suffix}")
    shape = open_shape(f"a{suffix}")
    assert shape.notes == ("all triangles of the mesh faced inwards, and were flipped",)
    places, normals = shape.sample_surface(100, torch.Generator().manual_seed(0))
    assert bool(((places * normals).sum(-1) > 0).all())
    faces[::2] = faces[::2].flip(1)
    trimesh.Trimesh(vertices.numpy(), faces.numpy(), process=False).export(f"a{suffix}")
    assert "do not all face the same way" in open_shape(f"a{suffix}").notes[0]


def test_a_small_mesh_is_written_with_all_its_digits() -> None:
    vertices, faces = surface_mesh(sphere, 16)
    write_mesh(1e-6 * vertices.double(), faces, Path("a.obj"), ".obj")
    found = trimesh.load_mesh("a.obj", process=False).vertices
    np.testing.assert_allclose(found, 1e-6 * vertices.double().numpy(), atol=1e-14)


def test_a_traced_sphere_covers_its_disk() -> None:
    image = shaded_view(sphere, 0.3, side=128)
    covered = float((image[..., 0] < 1).float().mean())
    # The rays that touch a sphere of radius r at the distance d make the angle asin(r / d).
    reach = math.tan(math.asin(0.5 / 3.6)) / math.tan(0.39)
    assert covered == pytest.approx(math.pi / 4 * reach**2, rel=0.03)


def test_a_rough_surface_has_no_holes() -> None:
    # Ripples with slopes up to 7: steps lead to and fro through the surface.
    def rough(points: Tensor) -> Tensor:
        return sphere(points) + 0.02 * torch.sin(300 * points[:, :1])

    image, exact = (shaded_view(shape, 0.3, side=64)[..., 0] for shape in (rough, sphere))
    assert float(((image < 1) != (exact < 1)).float().mean()) < 0.02


@pytest.mark.parametrize("suffix", [".obj", ".ply", ".stl", ".off", ".glb"])
def test_a_box_has_the_distances_of_its_formula_in_every_format(suffix: str) -> None:
    box = trimesh.creation.box((4.0, 2.0, 1.0))
    box.apply_translation((10.0, 20.0, 30.0))
    box.export(f"a{suffix}")
    shape = open_shape(f"a{suffix}")
    assert shape.is_closed
    assert shape.center == pytest.approx((10, 20, 30), abs=1e-5)
    assert shape.scale == pytest.approx(4 / 1.6, rel=1e-6)
    points = 2 * torch.rand(2000, 3, generator=torch.Generator().manual_seed(0)) - 1
    q = points.abs() - torch.tensor([0.8, 0.4, 0.2])
    expected = q.clamp(min=0).norm(dim=-1) + q.amax(-1).clamp(max=0)
    found, nearest = shape.distance(points)
    torch.testing.assert_close(found[:, 0], expected, atol=2e-6, rtol=0)
    torch.testing.assert_close((points - nearest).norm(dim=-1), expected.abs(), atol=2e-6, rtol=0)


def test_surface_points_are_uniform_by_area_with_outward_normals() -> None:
    trimesh.creation.box((2.0, 2.0, 1.0)).export("a.ply")
    shape = open_shape("a.ply")
    points, normals = shape.sample_surface(40_000, torch.Generator().manual_seed(0))
    assert float(shape.distance(points)[0].abs().max()) < 1e-6
    assert bool(((points * normals).sum(-1) > 0).all())
    # Two of six sides have 4 of the 16 parts of the area each.
    share = float((normals[:, 2].abs() > 0.9).float().mean())
    assert share == pytest.approx(0.5, abs=0.01)


def test_a_mesh_with_a_hole_is_inside_where_it_winds_around() -> None:
    ball = trimesh.creation.icosphere(3)
    ball.faces = ball.faces[5:]
    ball.export("a.ply")
    shape = open_shape("a.ply")
    assert not shape.is_closed
    points = 2 * torch.rand(4000, 3, generator=torch.Generator().manual_seed(0)) - 1
    radius = points.norm(dim=-1)
    clear = (radius - 0.8).abs() > 0.1
    assert bool(((shape.distance(points)[0][:, 0] < 0) == (radius < 0.8))[clear].all())


@pytest.mark.slow
def test_a_fitted_box_is_exported_in_the_units_of_its_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("_NODES", "_SLICE_SIDE", "_VIEW_SIDE"):
        monkeypatch.setattr(f"nerf_posenc_kinds.shape.{name}", 32)
    box = trimesh.creation.box((4.0, 2.0, 2.0))
    box.apply_translation((10.0, 20.0, 30.0))
    box.export("a.ply")
    data = ["--shape", "a.ply", "--encodings", "hash", "--steps", "60", "--batch-size", "4096"]
    assert train_fit.main([*data, "--video", "0", "--quiet", "--out", "run"]) == 0
    (fit,) = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert fit["iou"] > 95
    for name in ("made.ply", "made.obj", "made.stl"):
        arguments = ["mesh", "run/fits/hash.safetensors", "--nodes", "64", "--out", name]
        assert train_fit.main(arguments) == 0
        made = trimesh.load_mesh(name)
        np.testing.assert_allclose(made.bounds, box.bounds, atol=0.1)
        assert made.volume == pytest.approx(16, rel=0.05)
    assert train_fit.main(["mesh", "run/fits/hash.safetensors", "--out", "made.png"]) == 2
    assert train_fit.main(["render", "run"]) == 2
    assert "the fit of a shape, which has nothing to render" in capsys.readouterr().err


@pytest.mark.slow
def test_loss_is_least_for_the_distances_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nerf_posenc_kinds.shape._POOL", 1 << 12)
    trimesh.creation.icosphere(4).export("a.ply")
    kind = ShapeKind(ShapeOptions(shape="a.ply", eikonal=0.5))
    options = ShapeOptions(eikonal=0.5, device="cpu")
    config = kind.resolve(options)
    model, description = kind.build(FitName("none"), config, torch.Generator().manual_seed(0))
    problem = kind.problem(model, description, config)
    points, truth = problem.draw_batch(0)
    # A sphere's distance has slopes of 1 everywhere: no loss is left.
    found = problem.loss((truth, torch.ones(len(truth))), truth)
    assert isinstance(found, ShownLoss)
    assert float(found.loss) == float(found.shown) == 0
    assert problem.forward is not None
    _, slopes = problem.forward(points)
    exact, reach = copy.deepcopy(model).double(), 1e-6 * torch.eye(3, dtype=torch.float64)
    at = points.detach().double()
    with torch.no_grad():
        ahead, behind = (
            torch.cat([(exact(at + sign * step) - 0.5) * 4 for step in reach], -1)
            for sign in (1, -1)
        )
    expected = ((ahead - behind) / 2e-6).norm(dim=-1).float()
    # But for points whose differences straddle a kink of a ReLU.
    assert float((slopes.detach() - expected).abs().quantile(0.95)) < 1e-3 * float(expected.mean())


def test_a_mesh_without_the_library_of_distances_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "igl", None)
    with pytest.raises(SceneError, match=r"pip install '\./more\[shapes\]'"):
        open_shape("brick")
