"""Encodings of released models and of odd sizes, by lines that a user would write."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import nerf_posenc
from nerf_posenc.presets import ROTARY

VECTORS = {
    vector["name"]: vector
    for vector in json.loads((Path(__file__).parents[1] / "data/released.json").read_text())
}


def tensor(stored: dict[str, Any]) -> Tensor:
    return torch.tensor(stored["data"], dtype=getattr(torch, stored["dtype"])).view(stored["shape"])


@pytest.mark.parametrize("name", sorted(VECTORS))
def test_a_line_gives_the_numbers_of_the_library(name: str) -> None:
    vector = VECTORS[name]
    given = {key: tensor(value) for key, value in vector["args"].items()}
    names = {
        **vars(nerf_posenc),
        "ROTARY": ROTARY,
        "torch": torch,
        "math": math,
        "x": tensor(vector["x"]),
        **given,
    }
    found: Tensor = eval(vector["line"], names).detach()
    expected = tensor(vector["y"]).double()
    tolerance = max(vector["tolerance"], torch.finfo(found.dtype).eps)
    assert float((found.double() - expected).abs().max()) <= tolerance


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_points_however_far_are_contracted(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    x = torch.tensor([[largest, 0, 0], [largest, -largest, largest], [300, 400, 0]], dtype=dtype)
    for order in (2.0, math.inf):
        contracted = nerf_posenc.contract(x, order=order).double()
        norm = contracted.norm(dim=-1) if order == 2 else contracted.abs().amax(-1)
        exact = torch.tensor([2, 2, 2 - 1 / (500 if order == 2 else 400)], dtype=torch.float64)
        torch.testing.assert_close(norm, exact, rtol=4 * torch.finfo(dtype).eps, atol=0)
