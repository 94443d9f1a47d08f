"""Modules of images, right and with each of six faults, on patches of a grid that is not square."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nerf_posenc import GridSinusoidalEncoder, grid_positions
from nerf_posenc_attention import ROTARY, RotaryEncoder
from nerf_posenc_audit import NotAskableError, assert_encoding, check
from nerf_posenc_audit.__main__ import main

# Models that count rows and columns from 0 or 1, in blocks of columns: pairing and order differ.
MODELS = ("qwen2-vl-vision", "sam2", "croco", "vggt", "timm-rope")
Table = tuple[Tensor, Tensor]


class Written(nn.Module):
    """A rotation as somebody writes it out, with a fault.

    Args:
        name: name of the preset.
        fault: reason why it is wrong; empty if it is not.
    """

    def __init__(self, name: str, fault: str = "") -> None:
        super().__init__()
        self.name, self.fault = name, fault
        dim = RotaryEncoder.preset(name).dim
        base = RotaryEncoder.preset(name).base * (3.0 if fault == "base" else 1.0)
        width = dim // 2
        self.bands = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)

    def at(self, positions: Tensor) -> Table:
        """Cosines and sines of every column."""
        encoder, fault = RotaryEncoder.preset(self.name), self.fault
        order = (encoder.pair_axes[0], encoder.pair_axes[-1])
        order = order[::-1] if fault == "swapped" else order
        moved = (positions.double() + (fault == "origin")) * (2.0 if fault == "scale" else 1.0)
        blocks = [moved[:, axis, None] * self.bands for axis in order]
        angles = torch.cat(blocks, dim=1)
        if fault == "interleaved":
            angles = torch.stack(blocks, dim=-1).flatten(1)
        pairing: Any = encoder.pairing
        if fault == "pairing":
            pairing = "interleaved" if pairing != "interleaved" else "half"
        if pairing == "interleaved":
            columns = angles.repeat_interleave(2, dim=1)
        elif pairing == "half":
            columns = angles.repeat(1, 2)
        else:
            first, second = angles.chunk(2, dim=1)
            columns = torch.cat([first, first, second, second], dim=1)
        return columns.cos(), columns.sin()

    def forward(self, height: int, width: int) -> Table:
        """Tables of the patches, counted as the model counts them."""
        patches = grid_positions((height, width)).flatten(0, -2)
        with contextlib.suppress(ValueError):  # It merges blocks of patches.
            patches = ROTARY[self.name].positions((height, width))
        return self.at(patches)


FAULTS = {
    "swapped": "it has axes in the order (1, 0)",
    "interleaved": "the axes alternate from pair to pair instead of in blocks",
    "origin": "it has positions +1",
    "pairing": "columns are paired as",
    "scale": "it has positions times 2",
    "base": "it has base",
}


@pytest.mark.parametrize("name", MODELS)
def test_six_faults_are_named(name: str) -> None:
    assert check(Written(name), against=name).is_right
    for fault, words in FAULTS.items():
        (found,) = check(Written(name, fault), against=name).differences
        assert found.startswith(words), fault


CALLS: dict[str, Callable[[Written], Any]] = {
    "shape": lambda own: lambda shape: own(*shape[-2:]),
    "positions (n, 2)": lambda own: lambda positions: own.at(positions[:, :2]),
    "positions (2, n)": lambda own: lambda pos: own.at(torch.stack((pos[0], pos[1]), 1)),
    "positions with a batch": lambda own: lambda x, position_ids: own.at(position_ids[0]),
    "pixels": lambda own: lambda pixel_values: own(*(n // 16 for n in pixel_values.shape[-2:])),
    "grid_thw": lambda own: lambda grid_thw: own(*grid_thw[0, 1:].tolist()),
    "a dict": lambda own: lambda h, w: dict(zip(("cos", "sin"), own(h, w), strict=True)),
    "complex numbers": lambda own: lambda h, w: torch.complex(*own(h, w))[:, :40],
    "angles with a batch": lambda own: lambda h, w: _angles(own, h, w)[None],
}


def _angles(own: Any, height: int, width: int) -> Tensor:
    patches = grid_positions((height, width)).flatten(0, -2).double()
    return torch.cat([patches[:, axis, None] * own.bands for axis in (0, 1)], 1)


@pytest.mark.parametrize("call", CALLS)
def test_ways_to_call_and_to_answer(call: str) -> None:
    right = CALLS[call](Written("qwen2-vl-vision"))
    assert check(right, against="qwen2-vl-vision").is_right
    if not call.startswith("angles"):
        swapped = CALLS[call](Written("qwen2-vl-vision", "swapped"))
        assert check(swapped, against="qwen2-vl-vision").differences == (FAULTS["swapped"],)


def test_a_table_of_lengths_has_the_bands_of_its_model() -> None:
    bands = Written("qwen2-vl-vision").bands
    right = check(lambda seqlen: torch.arange(seqlen)[:, None] * bands, against="qwen2-vl-vision")
    assert right.is_right
    wrong = check(
        lambda seqlen: torch.arange(seqlen)[:, None] * bands * 2, against="qwen2-vl-vision"
    )
    assert wrong.differences == ("it has positions times 2",)


def test_a_configuration_says_what_an_image_encoder_rotates() -> None:
    config = {"model_type": "qwen2_vl", "depth": 32, "embed_dim": 1280, "num_heads": 16}
    config |= {"hidden_size": 3584, "patch_size": 14}
    assert_encoding(Written("qwen2-vl-vision"), config)
    with pytest.raises(AssertionError, match="base 30000"):
        assert_encoding(Written("qwen2-vl-vision", "base"), config)


@pytest.mark.parametrize("name", ["mae", "detr", "timm", "simple-vit"])
def test_sines_of_grids_are_compared(name: str) -> None:
    encoder = GridSinusoidalEncoder.preset(name, 64)
    for axes in ((0, 1), (1, 0)):

        def embed(h: int, w: int, axes: tuple[int, int] = axes) -> Tensor:
            table = encoder.table((h, w) if axes == (0, 1) else (w, h)).permute(*axes, 2)
            return table.flatten(0, 1)

        verdict = check(embed, against=f"{name} 64")
        assert verdict.is_right == (axes == (0, 1))
        if not verdict.is_right:
            assert "axes in the order (1, 0)" in verdict.differences[0]


def test_nothing_compared_is_an_error(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotAskableError, match="'speed' is not understood"):
        check(lambda speed, h, w: torch.zeros(h, w), against="sam2")
    with pytest.raises(NotAskableError):
        check(lambda h, w: torch.zeros(3), against="sam2")
    (tmp_path / "leaves.py").write_text("import sys\ndef f(h, w):\n    sys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["check", "leaves:f", "--preset", "sam2"]) == 2
    assert "leaves:f raised SystemExit 0" in capsys.readouterr().err
    (tmp_path / "breaks.py").write_text("class F:\n    def __init__(self):\n        1 / 0\n")
    assert main(["check", "breaks:F", "--preset", "sam2"]) == 2
    assert "breaks:F raised ZeroDivisionError division by zero" in capsys.readouterr().err
