"""Write docs/article.html from docs/article: ``python -m docs.make_article``."""

import base64
import json
from pathlib import Path

from docs.naive import requirements_table
from nerf_posenc.images import resize_area
from nerf_posenc_app.data import open_image

FOLDER = Path(__file__).parent / "article"
PAGE = Path(__file__).parent / "article.html"
ZONE = Path(__file__).parent / "zone_plate.html"
SIDE = 64

# What needs no page, and runs in a worker too.
PURE = ("network.js", "encodings.js", "fit.js", "language.js")
FIGURES = ("claims.js", "draw.js", "positions.js", "fields.js", "training.js", "page.js")


def cat() -> str:
    """The middle square of the bundled cat, 64 x 64, as base64 of its bytes."""
    rgb = open_image("cat").rgb
    height, width = rgb.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    small = resize_area(rgb[None, top : top + side, left : left + side], SIDE)[0]
    return base64.b64encode((small * 255).round().byte().numpy().tobytes()).decode()


def joined(names: tuple[str, ...]) -> str:
    """Scripts one after the other."""
    return "\n".join((FOLDER / name).read_text() for name in names)


def page() -> str:
    """The article as one file."""
    text = (FOLDER / "article.html").read_text()
    for mark, content in (
        ("/* article.css */", (FOLDER / "article.css").read_text()),
        ("/* cat */", cat()),
        ("/* requirements */", json.dumps(requirements_table())),
        ("/* models */", (FOLDER / "models.json").read_text().strip().replace("<", "\\u003c")),
        ("/* zone */", json.dumps(ZONE.read_text()).replace("<", "\\u003c")),
        ("/* pure */", joined(PURE)),
        ("/* figures */", joined(FIGURES)),
    ):
        text = text.replace(mark, content)
    return text


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}: {PAGE.stat().st_size / 1e3:.0f} kB")
