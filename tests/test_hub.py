"""Fits as folders of the Hugging Face Hub."""

import errno
import json
import re
import shutil
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


def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.chdir(tmp_path)
    if not Path("run").exists():
        pixels = np.random.default_rng(0).integers(0, 256, (12, 12, 3), dtype=np.uint8)
        fit(image=pixels, encodings=["fourier"], **FEW)
    return train_fit.main(["export", "run", "--hub", *words])


def test_weights_are_never_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert exported(tmp_path, monkeypatch) == 0
    folder = Path("run/hub-fourier")
    weights = HubModel.from_pretrained(folder).state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    asked = []

    def download(name: str, file: str, **_: object) -> str:
        asked.append(file)
        return str(folder / file)

    monkeypatch.setattr("nerf_posenc.fits.hub.hf_hub_download", download)
    config = json.loads((folder / "config.json").read_text())
    for name in (folder, "owner/name"):
        with pytest.raises(FileNotFoundError, match=r"no model\.safetensors"):
            HubModel._from_pretrained(
                model_id=str(name),
                revision=None,
                cache_dir=None,
                force_download=False,
                local_files_only=False,
                token=None,
                **config,
            )
    assert asked == ["model.safetensors"]


@pytest.mark.parametrize("name", ["run/hub-fuorier/", "hub", Path("a/b"), "./a/b", "a/../b"])
def test_a_folder_that_is_missing_is_not_looked_up_on_the_network(
    name: str | Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.hub_mixin.hf_hub_download", pytest.fail)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        HubModel.from_pretrained(name)


def test_an_export_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(HubModel, "save_pretrained", full)
        assert exported(tmp_path, monkeypatch) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert sorted(file.name for file in Path("run").glob("*hub*")) == []
    assert exported(tmp_path, monkeypatch) == 0
    # A link among the files is replaced, not followed.
    Path("private").write_text("kept")
    Path("run/hub-fourier/README.md").unlink()
    Path("run/hub-fourier/README.md").symlink_to(Path("private").resolve())
    assert exported(tmp_path, monkeypatch, "--overwrite") == 0
    assert Path("private").read_text() == "kept"
    assert not Path("run/hub-fourier/README.md").is_symlink()
    shutil.move("run/hub-fourier", "elsewhere")
    Path("run/hub-fourier").symlink_to(Path("elsewhere").resolve())
    assert exported(tmp_path, monkeypatch, "--overwrite") == 2


def test_a_card_shows_what_a_run_says_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("markdown_it")
    from markdown_it import MarkdownIt

    assert exported(tmp_path, monkeypatch) == 0
    file = Path("run/metrics.json")
    values = json.loads(file.read_text())
    values["data"]["title"] = "a\n\n<script>alert(1)</script> | [b](http://c) ![d](e)"
    values["command"] = "fit\n```\n<img src=x>\n# heading"
    file.write_text(json.dumps(values))
    assert exported(tmp_path, monkeypatch, "--overwrite") == 0
    card = Path("run/hub-fourier/README.md").read_text().split("---\n")[2]
    html = MarkdownIt("gfm-like", {"linkify": False}).render(card)
    tags = set(re.findall(r"<(\w+)", html))
    assert tags == {"h1", "p", "pre", "code", "table", "thead", "tbody", "tr", "th", "td"}
