"""Fits as folders of the Hugging Face Hub."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import train_fit
from nerf_posenc.fits import ImageFit, load_fit
from tests.optional import needs
from train_fit import fit

needs("huggingface_hub")

# ruff: noqa: E402
from nerf_posenc.fits.hub import HubModel

FEW: dict[str, Any] = dict(steps=3, depth=1, video=0, quiet=True, out="run")


@pytest.mark.parametrize("encoding", ["fourier", "gaussian", "hash", "siren"])
def test_a_fit_that_is_exported_computes_the_same_when_it_is_loaded(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pixels = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    fit(image=pixels, encodings=["none", encoding], **FEW)
    arguments = ["export", "run", "--hub", "--encoding", encoding]
    assert train_fit.main(arguments) == 0
    # It is not overwritten.
    assert train_fit.main(arguments) == 2
    folder = Path("run", f"hub-{encoding}")
    model = HubModel.from_pretrained(folder)
    saved = load_fit(f"run/fits/{encoding}.safetensors")
    points = torch.rand(50, 2) * 2 - 1
    torch.testing.assert_close(model(points), saved(points), atol=1e-6, rtol=0)  # type: ignore[operator]
    assert isinstance(model.fit, ImageFit)
    assert model.fit.render().shape == (20, 24, 3)
    assert model.fit.num_steps == 3
    assert json.loads((folder / "config.json").read_text())["options"]["encoding"] == encoding
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: nerf_posenc\n")
    psnr = json.loads(Path("run", "metrics.json").read_text())["fits"][1]["psnr_db"]
    assert f"| {encoding} | {psnr:.2f} |" in card
