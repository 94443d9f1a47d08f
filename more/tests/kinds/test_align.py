"""Alignment: homographies against closed forms, patches against the image, whole runs."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import nn

import train_fit
from nerf_posenc_app.values.names import FitName
from nerf_posenc_kinds.align import AlignedImage, AlignKind, AlignOptions, held_cosine, warped

pytestmark = pytest.mark.usefixtures("own_folder")

QUICK = ["--align", "cat", "--size", "64", "--steps", "12", "--batch-size", "256", "--width", "16"]
QUICK += ["--video", "0", "--quiet"]


def grid(count: int = 60) -> torch.Tensor:
    return torch.rand(count, 2, generator=torch.Generator().manual_seed(0)) - 0.5


def test_shifts_rotations_and_scales_are_those_of_their_formulas() -> None:
    x, first = grid(), torch.zeros(60, dtype=torch.long)
    shift = torch.tensor([[0.3, -0.2, 0, 0, 0, 0, 0, 0]])
    torch.testing.assert_close(warped(x, shift, first), x + shift[:, :2])
    angle = 0.4
    rotation = torch.tensor([[0, 0, -angle, angle, 0, 0, 0, 0]])
    turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    torch.testing.assert_close(warped(x, rotation, first), x @ turn.T)
    # Of equal growth a along x and y the last row has -2 a: together exp(3 a).
    scale = torch.tensor([[0, 0, 0, 0, 0.1, -0.2, 0, 0]])
    torch.testing.assert_close(warped(x, scale, first), x * math.exp(0.3))


def test_a_homography_and_its_negative_undo_each_other() -> None:
    x = grid()
    h = 0.2 * torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
    patches = torch.arange(60) % 3
    torch.testing.assert_close(warped(warped(x, h, patches), -h, patches), x, atol=1e-5, rtol=0)


@pytest.mark.parametrize("size", [64, 90])
def test_patches_show_the_image_where_they_truly_are(size: int) -> None:
    kind = AlignKind(AlignOptions(align="cat", size=size, seed=3))
    width, height = kind.size
    assert len(kind.grid) == (min(width, height) // 2) ** 2
    assert bool((kind.truth[0] == 0).all())
    assert bool((kind.truth[1:].norm(dim=-1) > 0.05).all())
    # The first patch is the middle of the image itself.
    side = min(width, height) // 2
    if (width - side) % 2 == 0 and (height - side) % 2 == 0:
        top, left = (height - side) // 2, (width - side) // 2
        middle = kind.image[top : top + side, left : left + side].reshape(-1, 3)
        torch.testing.assert_close(kind.values[: side**2], middle, atol=1e-5, rtol=0)
    placed = warped(kind.points, kind.truth, kind.patches)
    inside = torch.tensor(kind.size) / max(kind.size)
    assert bool((placed.abs() <= inside + 1e-5).all())


def test_the_first_patch_is_fixed_and_shifts_come_first() -> None:
    kind = AlignKind(AlignOptions(align="cat", size=64))
    config = kind.resolve(AlignOptions(device="cpu"))
    model, _ = kind.build(FitName("fourier-eased"), config, torch.Generator().manual_seed(0))
    assert isinstance(model, AlignedImage)
    with torch.no_grad():
        model.warps.fill_(0.3)
    assert model.homographies()[0].tolist() == [0.0] * 8
    assert model.homographies()[1].tolist() == pytest.approx([0.3] * 2 + [0.0] * 6)
    model.progress.fill_(0.5)
    assert model.homographies()[1].tolist() == pytest.approx([0.3] * 8)
    assert held_cosine(0.5) == 1
    assert held_cosine(1.0) == pytest.approx(0)


def test_a_patch_is_moved_by_what_others_show_too() -> None:
    kind = AlignKind(AlignOptions(align="cat", size=64))
    model = AlignedImage(nn.Identity(), nn.Linear(2, 3), kind.grid.amax(0), is_eased=False)
    model.progress.fill_(1.0)
    with torch.no_grad():
        model.warps[1, 0] = 5.0  # Far away from all others.
    model((kind.points, kind.patches)).square().mean().backward()
    assert model.warps.grad is not None
    assert (model.warps.grad.norm(dim=-1) > 0).tolist() == [True, False, True, True]
    # At first all points move their patch.
    model.progress.zero_()
    model((kind.points, kind.patches)).square().mean().backward()
    assert bool((model.warps.grad.norm(dim=-1) > 0).all())
    model.progress.fill_(1.0)
    with torch.no_grad():
        model.warps.zero_()
        model.warps[:, 0] = torch.tensor([3.0, 5.0, 7.0, float(kind.grid.amax())])
    for x, is_moved in ((0.1, True), (-0.1, False)):
        # Of the last patch, which is shifted to the right by half of its side.
        model.warps.grad.zero_()
        model((torch.tensor([[-x, 0.0]]), torch.tensor([4]))).sum().backward()
        assert bool(model.warps.grad[3].norm() > 0) == is_moved


def test_the_gradient_of_the_homographies_is_the_same_every_time() -> None:
    # Sums of several threads in any order would differ in their last bits.
    x, patches = (
        grid(20_000),
        torch.randint(5, (20_000,), generator=torch.Generator().manual_seed(1)),
    )
    h = (0.1 * torch.randn(5, 8, generator=torch.Generator().manual_seed(2))).requires_grad_()
    found = [torch.autograd.grad(warped(x, h, patches).sum(), h)[0] for _ in range(10)]
    assert all(torch.equal(found[0], each) for each in found)


def test_the_patches_of_an_eased_fit_are_blurred_until_its_middle() -> None:
    kind = AlignKind(AlignOptions(align="cat", size=64))
    config = kind.resolve(AlignOptions(device="cpu", steps=60))
    values = {}
    for name in ("fourier", "fourier-eased"):
        built = kind.build(FitName(name), config, torch.Generator().manual_seed(0))
        problem = kind.problem(*built, config)
        values[name] = [problem.draw_batch(step)[1] for step in (0, 29, 30, 59)]
    detail = [float((b - a).square().mean()) for a, b in zip(*values.values(), strict=True)]
    assert detail[0] > 10 * detail[1]
    assert detail[2:] == [0.0, 0.0]
    # A blur keeps the mean.
    means = [float(targets[0].mean()) for targets in values.values()]
    assert means[0] == pytest.approx(means[1], abs=0.01)


@pytest.mark.slow
def test_patches_find_their_places_from_coarse_to_fine_alone() -> None:
    data = ["--align", "cat", "--size", "64", "--disturbance", "0.06", "--steps", "400"]
    data += ["--batch-size", "1024", "--encodings", "none", "fourier-eased", "--video", "0"]
    assert train_fit.main([*data, "--quiet", "--out", "run"]) == 0
    fits = {f["encoding"]: f for f in json.loads(Path("run/metrics.json").read_text())["fits"]}
    assert fits["fourier-eased"]["warp_error"] < 0.05
    assert fits["fourier-eased"]["warp_error"] < 0.5 * fits["none"]["warp_error"]
