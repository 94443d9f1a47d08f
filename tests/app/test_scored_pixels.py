"""Every number of a run is over the scored pixels: what is masked, missing or unobserved has none.

The values under a mask are changed, and nothing else may change.
"""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from nerf_posenc.metrics.image import Scored, constant_psnr, psnr
from nerf_posenc_app import FittedRun, fit
from nerf_posenc_app.data import open_scene
from tests.optional import needs

pytestmark = pytest.mark.usefixtures("own_folder")

FEW: dict[str, Any] = dict(steps=12, width=16, depth=2, quiet=True, video=2)
SIDE = 26


def pixels_and_mask() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    x = np.linspace(0, 6, SIDE)
    smooth = 0.5 + 0.4 * np.sin(x[:, None, None] * [1.0, 1.5, 2.0] + x[None, :, None])
    mask = np.zeros((SIDE, SIDE), bool)
    mask[4:20, 3:22] = True
    mask[rng.random(mask.shape) < 0.1] = False
    return smooth.astype(np.float32), mask


def told(run: FittedRun) -> dict[str, Any]:
    """Numbers of metrics.json, and every image, without times and what was asked."""
    metrics = json.loads((run.folder / "metrics.json").read_text())
    for name in ("command", "config", "data"):
        del metrics[name]
    for row in metrics["fits"]:
        del row["seconds"]
        row["history"] = [{**point, "seconds": None} for point in row["history"]]
    images = {
        str(file.relative_to(run.folder)): file.read_bytes() for file in run.folder.rglob("*.png")
    }
    return {**metrics, **images}


WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "held out": dict(held_out=True),
    "observed": dict(observed=0.5),
    "reduced": dict(size=13),
    "light": dict(light=True),
}


@pytest.mark.parametrize("kind", ["mask", "nan"])
@pytest.mark.parametrize("way", WAYS)
def test_values_under_a_mask_change_no_number(way: str, kind: str) -> None:
    if way == "observed" or way == "held out":
        needs("scipy")
    smooth, mask = pixels_and_mask()
    noise = np.random.default_rng(5).random(smooth.shape).astype(np.float32)
    found = []
    for i, under in enumerate((smooth, noise, np.zeros_like(smooth))):
        pixels = np.where(mask[..., None], smooth, under)
        options = dict(encodings=["none", "fourier"], **WAYS[way])
        if kind == "nan":
            # The same pixels are missing, and one channel has a value or not.
            pixels[~mask] = [[np.nan] * 3, [np.nan, 1, 0], [0, 0.5, np.nan]][i]
        else:
            options["mask"] = mask
        found.append(fit(image=pixels, out=f"run{i}", **FEW, **options))
    first, *others = map(told, found)
    assert others == [first, first]
    measure = first["measures"][0]["name"]
    assert all(math.isfinite(row[measure]) for row in first["fits"])
    # An octave has no mask, and would be of other pixels than the scores.
    assert "PSNR by octave" not in (found[0].folder / "report.html").read_text()


@pytest.mark.slow
def test_values_under_masks_of_views_change_no_number() -> None:
    views = open_scene("spheres", size=10).train
    mask = torch.ones(len(views), 10, 10, dtype=torch.bool)
    mask[:, :4] = False
    found = []
    for under in (0.0, 0.7):
        pixels = views.pixels.clone()
        pixels[:, :4] = under
        found.append(
            fit(
                scene=replace(views, pixels=pixels, masks=mask),
                out=f"run{under}",
                encodings=["fourier"],
                turntable=0,
                test_views=1,
                **{**FEW, "steps": 3},
            )
        )
    assert told(found[0]) == told(found[1])


def test_a_constant_is_that_of_the_scored_pixels() -> None:
    # A textured square on white, which the mask leaves out.
    smooth, mask = pixels_and_mask()
    white = np.where(mask[..., None], smooth, 1.0).astype(np.float32)
    expected = psnr(
        torch.from_numpy(smooth[mask]).mean(0).expand(int(mask.sum()), 3),
        torch.from_numpy(smooth[mask]),
    )
    scored = Scored(torch.from_numpy(white), torch.from_numpy(mask))
    assert constant_psnr([scored]) == pytest.approx(expected, abs=1e-4)
    halves = [scored.at(slice(0, 10)), scored.at(slice(10, None))]
    assert constant_psnr(halves) == pytest.approx(expected, abs=1e-4)
