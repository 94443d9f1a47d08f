"""Canvas of the live page: images side by side, or the view of a camera."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

# The colors of the report page in dark mode.
_PAPER = "#17191b"
_INK = "#ececec"
_SOFT = "#a3a8ad"
_GAP = 12
_CAPTION = 40
# Sizes of text in pixels: captions, and what is read from a distance.
_SMALL = 13
_LARGE = 15

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class LivePanel:
    """An image with its caption.

    Attributes:
        title: first line, for example the encoding.
        state: second line.
        image: 8 bits, RGB.
        color: color of the fit's curve; None for no dot.
    """

    title: str
    state: str
    image: Pixels
    color: str | None = None


def draw_canvas(width: int, height: int, panels: Sequence[LivePanel]) -> Pixels:
    """Draw panels side by side, as large as the window allows.

    Args:
        width: width of the window in pixels.
        height: height of the window in pixels.
        panels: one or more, of images of one shape.
    """
    canvas = Image.new("RGB", (width, height), _PAPER)
    box = (_GAP, _GAP, width - _GAP, height - _GAP)
    _draw_panels(canvas, ImageDraw.Draw(canvas), box, panels)
    return np.asarray(canvas)


def draw_view(width: int, height: int, panel: LivePanel) -> Pixels:
    """Enlarge a rendering to a window, with its caption in the corner."""
    canvas = Image.fromarray(panel.image).resize((width, height), Image.Resampling.BILINEAR)
    draw = ImageDraw.Draw(canvas)
    longest = max(draw.textlength(text, _font(_LARGE)) for text in (panel.title, panel.state))
    box = (_GAP, _GAP, _GAP + 36 + round(longest), _GAP + _CAPTION + 8)
    draw.rectangle(box, _PAPER)
    _draw_caption(draw, _GAP + 10, _GAP + 4, width, panel)
    return np.asarray(canvas)


def columns_for(count: int, width: int, height: int, aspect: float) -> tuple[int, float]:
    """Number of columns that shows images largest, and the width of each image.

    Args:
        count: number of images.
        width: width of the space for them.
        height: height of the space for them.
        aspect: width over height of an image.
    """
    best = 1, 0.0
    for columns in range(1, count + 1):
        rows = -(-count // columns)
        across = (width - (columns - 1) * _GAP) / columns
        down = (height - (rows - 1) * _GAP) / rows - _CAPTION
        size = min(across, down * aspect)
        # On a tie, side by side.
        if size >= best[1]:
            best = columns, size
    return best


def _draw_panels(
    canvas: Image.Image,
    draw: ImageDraw.ImageDraw,
    box: tuple[int, int, int, int],
    panels: Sequence[LivePanel],
) -> None:
    left, top, right, bottom = box
    image_height, image_width, _ = panels[0].image.shape
    aspect = image_width / image_height
    columns, size = columns_for(len(panels), right - left, bottom - top, aspect)
    size_in_pixels = max(1, math.floor(size)), max(1, math.floor(size / aspect))
    rows = -(-len(panels) // columns)
    used = columns * size_in_pixels[0] + (columns - 1) * _GAP
    left += (right - left - used) // 2
    top += max(0, (bottom - top - rows * (size_in_pixels[1] + _CAPTION) - (rows - 1) * _GAP) // 2)
    # Enlarged pixels stay pixels.
    method = Image.Resampling.NEAREST if size >= image_width else Image.Resampling.LANCZOS
    for i, panel in enumerate(panels):
        row, column = divmod(i, columns)
        x, y = (
            left + column * (size_in_pixels[0] + _GAP),
            top + row * (size_in_pixels[1] + _CAPTION + _GAP),
        )
        _draw_caption(draw, x, y, size_in_pixels[0], panel)
        canvas.paste(Image.fromarray(panel.image).resize(size_in_pixels, method), (x, y + _CAPTION))


def _draw_caption(draw: ImageDraw.ImageDraw, x: int, y: int, width: int, panel: LivePanel) -> None:
    indent = 0
    if panel.color is not None:
        draw.ellipse((x, y + 5, x + 10, y + 15), panel.color)
        indent = 16
    draw.text((x + indent, y), _cut(draw, panel.title, width - indent, _LARGE), _INK, _font(_LARGE))
    draw.text((x, y + 20), _cut(draw, panel.state, width, _SMALL), _SOFT, _font(_SMALL))


def _cut(draw: ImageDraw.ImageDraw, text: str, width: int, size: int) -> str:
    """Shorten a text to a width in pixels."""
    while text and draw.textlength(text, _font(size)) > width:
        text = text[:-1]
    return text


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=size)
