"""Colors of the fits: as many as a comparison needs, and seen on both backgrounds."""

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


def test_a_dozen_fits_have_colors_of_their_own() -> None:
    for colors in (FIGURE, PAGE_LIGHT, PAGE_DARK):
        assert len(set(colors)) == len(colors) >= 12


def test_an_encoding_has_the_same_color_in_any_company() -> None:
    alone, among = color_indices(["hash"]), color_indices(["none", "siren", "hash", "sart"])
    assert alone["hash"] == among["hash"]
    assert len(set(among.values())) == 4


def test_repeated_colors_are_dotted() -> None:
    page = render("base.html.j2", {}, title="", headline=None)
    assert f".k{NUM_COLORS} {{ color: var(--c0); }}" in page
    assert f"svg .line.c{NUM_COLORS} {{ stroke-dasharray" in page
    assert f"svg .line.c{NUM_COLORS - 1} {{ stroke-dasharray" not in page
