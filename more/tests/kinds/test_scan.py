"""Scans: line integrals against closed forms and scikit-image, and runs from line to page."""

import json
import math
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest
import torch
from skimage.transform import radon
from torch import Tensor

import train_fit
from nerf_posenc.metrics.image import psnr
from nerf_posenc_kinds.scan import ScanKind, ScanOptions, line_integrals, pixel_centers
from nerf_posenc_kinds.tomography import algebraic_reconstruction, back_projection
from tests.signals import resumed_to_the_bit

pytestmark = pytest.mark.usefixtures("own_folder")

QUICK = ["--scan", "shepp-logan", "--size", "32", "--steps", "12", "--video", "0", "--quiet"]


def lines_of(count: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    angles = math.pi * torch.rand(count, generator=generator)
    offsets = 1.8 * torch.rand(count, generator=generator) - 0.9
    return torch.stack([angles.cos(), -angles.sin(), offsets], dim=-1)


@pytest.mark.parametrize("radius", [0.3, 1.0])
def test_integrals_of_a_centered_disk_are_its_chords(radius: float) -> None:
    lines = lines_of(50)

    def disk(points: Tensor) -> Tensor:
        inside: Tensor = points.norm(dim=-1, keepdim=True) <= radius
        return inside.float()

    found = line_integrals(disk, lines, torch.full((len(lines), 4000), 0.5))[:, 0]
    # Half a chord, as the mean is over the diameter 2.
    expected = (radius**2 - lines[:, 2].square()).clamp(min=0).sqrt()
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)


def test_integrals_of_a_gaussian_beside_the_center_are_gaussian() -> None:
    lines, center, width = lines_of(50), torch.tensor([0.2, -0.3]), 0.07

    def blob(points: Tensor) -> Tensor:
        return torch.exp(-(points - center).square().sum(-1, keepdim=True) / (2 * width**2))

    found = line_integrals(blob, lines, torch.full((50, 2000), 0.5))[:, 0]
    through = lines[:, :2] @ center
    expected = torch.exp(-((lines[:, 2] - through) ** 2) / (2 * width**2))
    expected = expected * width * math.sqrt(2 * math.pi) / 2
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_integrals_through_a_ball_are_its_chords_at_their_height() -> None:
    lines, radius = lines_of(50), 0.7
    heights = torch.linspace(-0.8, 0.8, len(lines))[:, None]

    def ball(points: Tensor) -> Tensor:
        inside: Tensor = points.norm(dim=-1, keepdim=True) <= radius
        return inside.float()

    offsets = torch.full((len(lines), 4000), 0.5)
    found = line_integrals(ball, torch.cat([lines, heights], dim=-1), offsets)[:, 0]
    expected = (radius**2 - lines[:, 2].square() - heights[:, 0].square()).clamp(min=0).sqrt()
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)


def test_a_volume_is_scanned_slice_by_slice() -> None:
    volume = np.random.default_rng(0).random((3, 16, 12))
    np.save("volume.npy", volume)
    kind = ScanKind(ScanOptions(scan="volume.npy", projections=4))
    assert kind.size == (16, 16, 3)
    integrals, lines = kind.integrals.view(3, -1), kind.lines.view(3, -1, 4)
    for values, found, through, height in zip(
        volume, integrals, lines, (-1 / 8, 0, 1 / 8), strict=True
    ):
        np.save("slice.npy", values)
        alone = ScanKind(ScanOptions(scan="slice.npy", projections=4))
        assert torch.equal(found, alone.integrals[:, 0])
        assert torch.equal(through[:, :3], alone.lines)
        assert through[:, 3].unique().tolist() == [height]


@pytest.mark.parametrize("side", [48, 49])
def test_projections_are_those_of_scikit_image(side: int) -> None:
    kind = ScanKind(ScanOptions(size=side, projections=7))
    ours = kind.integrals.view(7, side) * side
    degrees = kind.radians.rad2deg().double().numpy()
    theirs = torch.from_numpy(radon(kind.slices[0].double().numpy(), degrees, circle=True)).T
    # Ours interpolates where theirs turns a whole image: equal but for that.
    assert float((ours - theirs).abs().mean()) < 0.01 * float(theirs.abs().mean())
    assert pixel_centers(side)[side // 2] == 0


def test_references_find_the_slice_from_many_projections() -> None:
    kind = ScanKind(ScanOptions(size=48, projections=90))
    sinogram, degrees = kind.integrals.view(90, 48) * 48, kind.radians.rad2deg()
    for reconstruct in (back_projection, algebraic_reconstruction):
        assert psnr(reconstruct(sinogram, degrees).clamp(0, 1), kind.slices[0]) > 20


def test_networks_start_at_the_mean_that_the_projections_tell() -> None:
    kind = ScanKind(ScanOptions(size=64))
    # Of the values within the disk, which covers pi / 4 of the square.
    mean = float(kind.slices.mean()) / (math.pi / 4)
    assert kind.start is not None
    assert float(kind.start) == pytest.approx(mean, rel=0.02)


def test_jittered_samples_have_the_integral_as_their_mean() -> None:
    lines = lines_of(5)

    def waves(points: Tensor) -> Tensor:
        inside: Tensor = points.norm(dim=-1, keepdim=True) < 0.8
        return torch.sin(9 * points[:, :1]).square() * inside

    exact = line_integrals(waves, lines, torch.full((len(lines), 4000), 0.5))
    generator = torch.Generator().manual_seed(1)
    draws = [
        line_integrals(waves, lines, torch.rand(5, 64, generator=generator)) for _ in range(400)
    ]
    torch.testing.assert_close(torch.stack(draws).mean(0), exact, atol=2e-3, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("size", [[24, 24], [24, 24, 5]])
def test_numbers_are_fitted_reported_and_resumed_to_the_bit(
    size: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    y, x = np.mgrid[-1:1:20j, -1:1:24j]
    disk = (x**2 + (y - 0.2) ** 2 < 0.3) * 0.8
    np.save("scan.npy", np.stack([disk] * 5) if len(size) == 3 else disk)
    data = ["--scan", "scan.npy", "--projections", "6", *QUICK[4:]]
    whole = resumed_to_the_bit(monkeypatch, data, 3)
    names = [fit["encoding"] for fit in whole["fits"]]
    assert names == ["none", "fourier", "hash", "back-projection", "sart"]
    assert whole["data"]["size"] == size
    for name, options, side in (("own", [], 24), ("large", ["--scale", "3"], 72)):
        out = name if len(size) == 3 else f"{name}.png"
        arguments = ["render", "whole", "--encoding", "hash", "--quiet", "--out", out, *options]
        assert train_fit.main(arguments) == 0
        frames = sorted(Path(out).iterdir()) if len(size) == 3 else [Path(out)]
        assert len(frames) == (side * 5 // 24 if len(size) == 3 else 1)
        assert iio.imread(frames[0]).shape == (side, side, 3)
    own, shown = ("own/0002.png", "hash/view_000") if len(size) == 3 else ("own.png", "hash")
    difference = iio.imread(own).astype(int) - iio.imread(f"whole/{shown}.png")
    assert np.abs(difference).max() <= 1


@pytest.mark.slow
def test_the_encoding_decides_what_few_projections_show() -> None:
    data = ["--scan", "shepp-logan", "--size", "64", "--steps", "300", "--projections", "12"]
    data += ["--batch-size", "128", "--encodings", "none", "hash"]
    assert train_fit.main([*data, "--video", "0", "--quiet", "--out", "run"]) == 0
    fits = {f["encoding"]: f for f in json.loads(Path("run/metrics.json").read_text())["fits"]}
    assert fits["hash"]["psnr_db"] > fits["none"]["psnr_db"] + 5
    # The seed decides by more than a decibel.
    assert fits["hash"]["psnr_db"] > fits["back-projection"]["psnr_db"] + 1
