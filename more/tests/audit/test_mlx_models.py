"""Rotations of models that keep them in attention layers, with scalings that are read and not."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from nerf_posenc_attention import RotaryEncoder
from nerf_posenc_audit.mlx_models import audit_models

LAYER = """
from dataclasses import dataclass
from typing import Optional

from more.tests.audit.test_mlx_models import Rope


@dataclass
class ModelArgs:
    hidden_size: int
    num_attention_heads: int
    head_dim: int
    rope_theta: float
    num_layers: int
    layers: list
    rope_scaling: Optional[dict] = None


class Attention:
    def __init__(self, args: ModelArgs):
        {check}
        self.rope = Rope(args.head_dim, args.rope_theta, {scaling})
"""
MODELS = {
    "right": LAYER.format(check="pass", scaling="args.rope_scaling"),
    "forgetful": LAYER.format(check="pass", scaling="None"),
    "strict": LAYER.format(
        check='assert args.rope_scaling is None, "no scaling here"', scaling="None"
    ),
    "broken": "from nothing import ModelArgs  # rope\n",
}


class Array:
    """What is used of an array of mlx."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def tolist(self) -> Any:
        """Plain numbers."""
        return self.values.tolist()


class Rope:
    """A rotation of the rows of an array from an offset on."""

    def __init__(self, dims: int, base: float, scaling: dict[str, Any] | None) -> None:
        config = {"head_dim": dims, "rope_theta": base, "rope_scaling": scaling}
        self.dims, self.encoder = dims, RotaryEncoder.from_config(config)

    def __call__(self, x: Array, offset: int) -> Array:
        """Rotate ``(1, 1, length, width)``."""
        positions = torch.arange(x.values.shape[-2]) + offset
        return Array(self.encoder.rotate(torch.from_numpy(x.values), positions).numpy())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    models = tmp_path / "layered"
    models.mkdir()
    for name, text in {"__init__": "", **MODELS}.items():
        (models / f"{name}.py").write_text(text)
    core = ModuleType("mlx.core")
    core.array = Array  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlx.core", core)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield models
    for name in [name for name in sys.modules if name.startswith("layered")]:
        del sys.modules[name]


def test_scalings_that_a_model_ignores_are_named(folder: Path) -> None:
    rows = {row.name.removeprefix("layered."): row for row in audit_models("layered", folder)}
    assert rows["right.Attention"].answer.startswith("base 10,000")
    for title in ("linear by 4", "YaRN by 4"):
        assert rows[f"right.Attention with {title}"].answer == "as the configuration says"
        assert rows[f"strict.Attention with {title}"].status == "refused"
    assert rows["forgetful.Attention with linear by 4"].answer == "linear scaling is not applied"
    assert rows["forgetful.Attention with YaRN by 4"].answer == (
        "YaRN is not applied; the attention factor 1.13863 is missing"
    )
    assert rows["broken"].status == "not built"
