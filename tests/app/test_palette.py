"""Colors of the fits: as many as a comparison needs, and seen on both backgrounds."""

from typing import Any

import numpy as np
import pytest

from nerf_posenc_app.report.palette import FIGURE, NUM_COLORS, PAGE_DARK, PAGE_LIGHT, color_indices
from nerf_posenc_app.report.template import render


def luminance(color: str) -> float:
    """Relative luminance (WCAG 2)."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize(("colors", "card"), [(PAGE_LIGHT, "#ffffff"), (PAGE_DARK, "#202326")])
def test_every_color_stands_out_from_the_card(colors: tuple[str, ...], card: str) -> None:
    assert len(colors) == NUM_COLORS + 1
    for color in colors:
        dark, light = sorted((luminance(color), luminance(card)))
        # What WCAG 2 demands of graphics.
        assert (light + 0.05) / (dark + 0.05) >= 3


# Linear RGB as people without one kind of cone see it (Machado, Oliveira and Fernandes 2009,
# severity 1): protanopia, deuteranopia, tritanopia.
VISION: dict[str, Any] = {
    "full": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


@pytest.mark.parametrize("kind", VISION)
@pytest.mark.parametrize("colors", [FIGURE, PAGE_LIGHT, PAGE_DARK])
def test_six_fits_are_told_apart_in_each_kind_of_vision(colors: tuple[str, ...], kind: str) -> None:
    rgb = np.array([list(bytes.fromhex(color[1:])) for color in colors[:6]]) / 255
    seen = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ np.transpose(
        VISION[kind]
    )
    # CIE XYZ under daylight D65, then CIELAB.
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    f = np.cbrt(seen.clip(0.01, 1) @ np.transpose(to_xyz) / [0.9505, 1, 1.089])
    lab = np.stack([116 * f[:, 1], 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=-1)
    distances = np.linalg.norm(lab[:, None] - lab[None], axis=-1)[np.triu_indices(6, 1)]
    # CIE76.
    assert distances.min() >= 10


def test_an_encoding_has_the_same_color_in_any_company() -> None:
    names = ["none", "siren", "hash", "sart"]
    alone, among = color_indices({"hash": "hash"}), color_indices({name: name for name in names})
    compared = color_indices({"a: sart": "sart", "a: hash": "hash", "b: hash": "hash"})
    assert alone["hash"] == among["hash"] == compared["a: hash"]
    assert len(set(among.values())) == 4
    assert len(set(compared.values())) == 3


def test_repeated_colors_are_dotted() -> None:
    page = render("base.html.j2", {}, title="", headline=None)
    assert f".k{NUM_COLORS} {{ color: var(--c0); }}" in page
    assert f"svg .line.c{NUM_COLORS} {{ stroke-dasharray" in page
    assert f"svg .line.c{NUM_COLORS - 1} {{ stroke-dasharray" not in page
