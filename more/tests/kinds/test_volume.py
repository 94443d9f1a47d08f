"""``--volume``: what is fitted and scored, where a voxel lies, and what fills in between slices."""

import math
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import torch

from nerf_posenc.fits import CoordinateFit, load_fit
from nerf_posenc.metrics.image import psnr
from nerf_posenc_app import fit
from nerf_posenc_app.options import UsageError
from nerf_posenc_kinds.volume import FITTED, VolumeKind, VolumeOptions, voxel_positions

FEW: dict[str, Any] = dict(width=16, depth=1, video=0, quiet=True)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def plaid(depth: int = 9, height: int = 12, width: int = 16) -> torch.Tensor:
    """Waves along all axes."""
    z, y, x = torch.meshgrid(
        *(torch.linspace(0, 1, n) for n in (depth, height, width)), indexing="ij"
    )
    return 0.5 + 0.4 * torch.sin(5 * x + 2 * y) * torch.cos(4 * z)


def options(name: str = "a.npy", **others: object) -> VolumeOptions:
    """Options of a volume that lies here."""
    return VolumeOptions(volume=name, **others)  # type: ignore[arg-type]


def test_voxels_lie_in_equal_units_around_the_middle() -> None:
    ends = torch.tensor([0, 16 * 12 * 9 - 1])
    low, high = voxel_positions(ends, (16, 12, 9), (0.5, 0.5, 2.0))
    # 9 slices, 2 apart, are the longest side: 18.
    torch.testing.assert_close(high, torch.tensor([15 * 0.5, 11 * 0.5, 8 * 2.0]) / 18)
    torch.testing.assert_close(low, -high)


def test_a_fit_never_sees_what_it_is_scored_on() -> None:
    values = plaid()
    poisoned = values.clone()
    poisoned[1::2] = torch.rand(poisoned[1::2].shape)
    weights = []
    for i, each in enumerate((values, poisoned)):
        np.save(f"{i}.npy", each.numpy())
        run = fit(volume=f"{i}.npy", steps=20, encodings=["fourier"], **FEW)
        model = run.model("fourier")
        assert isinstance(model, CoordinateFit)
        weights.append(torch.cat([p.detach().flatten() for p in model.model.parameters()]))
    torch.testing.assert_close(*weights, rtol=0, atol=0)


def test_references_are_scipy_between_the_fitted_slices() -> None:
    values = plaid()
    np.save("a.npy", values.numpy())
    kind = VolumeKind(options())
    config = kind.resolve(options())
    linear, cubic = (make() for make in kind.references(config).values())
    between = (values[0:-1:2] + values[2::2]) / 2
    assert linear.scores["psnr_db"] == pytest.approx(psnr(between, values[1::2]), abs=1e-3)
    assert cubic.scores["psnr_db"] > linear.scores["psnr_db"] + 3
    assert cubic.scores[FITTED.name] == math.inf


def test_slices_beyond_the_last_fitted_one_are_not_scored() -> None:
    np.save("a.npy", plaid(8).numpy())
    kind = VolumeKind(options())
    assert kind.is_fitted.nonzero()[:, 0].tolist() == [0, 2, 4, 6]
    assert kind.is_scored.nonzero()[:, 0].tolist() == [1, 3, 5]
    with pytest.raises(UsageError, match="none of them between"):
        VolumeKind(options(every=8))
    np.save("b.npy", plaid(1).numpy())
    with pytest.raises(UsageError, match="has 1 slices of 16 x 12"):
        VolumeKind(options("b.npy"))


def test_a_reduced_volume_keeps_its_extents_and_its_slices() -> None:
    np.save("a.npy", plaid(9, 24, 32).numpy())
    kind = VolumeKind(options(size=16, spacing=(0.5, 0.5, 3.0)))
    assert kind.size == (16, 12, 9)
    assert kind.spacing == [1.0, 1.0, 3.0]


@pytest.mark.slow
def test_a_network_fills_in_smooth_waves_and_is_rendered_in_equal_steps() -> None:
    values = plaid(17, 24, 32)
    image = nibabel.Nifti1Image(values.numpy().transpose(2, 1, 0), np.diag([-1.0, -1, 2, 1]))
    nibabel.save(image, "a.nii.gz")
    run = fit(volume="a.nii.gz", steps=300, encodings=["none"], quiet=True)
    assert run.scores["none"]["psnr_db"] > 32
    saved = load_fit(run.folder / "fits/none.safetensors")
    assert isinstance(saved, CoordinateFit)
    assert saved.size == (32, 24, 17)
    rendered = VolumeKind.render(
        saved,
        run.folder / "fits/none.safetensors",
        torch.device("cpu"),
        {"size": None, "scale": None, "rate": None},
    )
    assert rendered.size == (32, 24)
    # Slices were 2 apart, frames are as far apart as pixels.
    assert rendered.num_frames == 34
