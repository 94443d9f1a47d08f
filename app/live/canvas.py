"""What fills the window of the live page: images side by side, with their curves below."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.ticker import MaxNLocator
from PIL import Image, ImageDraw, ImageFont

# The colors of the report page in dark mode.
_PAPER, _CARD, _INK, _SOFT, _RULE = "#17191b", "#202326", "#ececec", "#a3a8ad", "#3a3e42"
_GAP = 12
_CAPTION = 40
_SMALL, _LARGE = 13, 15
# Least and most height of the curves, and their share of the window.
_CURVES = 110, 260, 0.32

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class LivePanel:
    """An image with its caption.

    Attributes:
        title: first line, for example the encoding.
        state: second line.
        image: 8 bits, RGB.
        color: of the fit's curve; None for no dot.
    """

    title: str
    state: str
    image: Pixels
    color: str | None = None


@dataclass(frozen=True)
class LiveCurve:
    """PSNR of a fit by step.

    Attributes:
        name: of the encoding.
        color: of the line.
        steps: one or more.
        scores: as many, in dB.
    """

    name: str
    color: str
    steps: Sequence[int]
    scores: Sequence[float]


def draw_canvas(
    width: int,
    height: int,
    panels: Sequence[LivePanel],
    curves: Sequence[LiveCurve],
    num_steps: int,
) -> Pixels:
    """Draw panels side by side, as large as the window allows, and curves below them.

    Args:
        width: of the window, in pixels.
        height: of the window.
        panels: one or more, of images of one shape.
        curves: of the fits begun so far.
        num_steps: length of a fit.
    """
    canvas = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(canvas)
    least, most, share = _CURVES
    curves_height = min(max(least, round(share * height)), most) if height > 3 * least else 0
    top = height - curves_height
    _draw_panels(canvas, draw, (_GAP, _GAP, width - _GAP, top - _GAP), panels)
    if curves_height and curves:
        _draw_curves(draw, (_GAP, top, width - _GAP, height - _GAP), curves, num_steps)
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
        count: of images.
        width: of the space for them.
        height: of the space for them.
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
    shown = max(1, math.floor(size)), max(1, math.floor(size / aspect))
    rows = -(-len(panels) // columns)
    used = columns * shown[0] + (columns - 1) * _GAP
    left += (right - left - used) // 2
    top += max(0, (bottom - top - rows * (shown[1] + _CAPTION) - (rows - 1) * _GAP) // 2)
    # Enlarged pixels stay pixels.
    method = Image.Resampling.NEAREST if size >= image_width else Image.Resampling.LANCZOS
    for i, panel in enumerate(panels):
        row, column = divmod(i, columns)
        x, y = left + column * (shown[0] + _GAP), top + row * (shown[1] + _CAPTION + _GAP)
        _draw_caption(draw, x, y, shown[0], panel)
        canvas.paste(Image.fromarray(panel.image).resize(shown, method), (x, y + _CAPTION))


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


def _draw_curves(
    draw: ImageDraw.ImageDraw,
    box: tuple[int, int, int, int],
    curves: Sequence[LiveCurve],
    num_steps: int,
) -> None:
    left, top, right, bottom = box
    draw.rounded_rectangle(box, 6, _CARD, _RULE)
    draw.text((left + 10, top + 7), "PSNR of the training batches (dB)", _INK, _font(_SMALL))
    scores = [score for curve in curves for score in curve.scores if math.isfinite(score)]
    if not scores:
        return
    low, high = min(scores), max(scores)
    pad = 0.05 * (high - low) or 0.5
    inside = left + 44, top + 32, right - 16, bottom - 26
    to_x = _Scale(0, max(1, num_steps), inside[0], inside[2])
    to_y = _Scale(low - pad, high + pad, inside[3], inside[1])
    font = _font(_SMALL)
    for tick in MaxNLocator(nbins=4).tick_values(low - pad, high + pad):
        if low - pad <= tick <= high + pad:
            y = to_y(tick)
            draw.line((inside[0], y, inside[2], y), _RULE)
            draw.text((inside[0] - 8, y), f"{tick:g}", _SOFT, font, anchor="rm")
    for tick in MaxNLocator(nbins=6, integer=True).tick_values(0, num_steps):
        if 0 <= tick <= num_steps:
            x = to_x(tick)
            draw.line((x, inside[1], x, inside[3]), _RULE)
            draw.text((x, inside[3] + 5), f"{tick:g}", _SOFT, font, anchor="mt")
    draw.text((right - 10, top + 7), "by step", _SOFT, font, anchor="rt")
    for curve in curves:
        pairs = zip(curve.steps, curve.scores, strict=True)
        points = [(to_x(step), to_y(score)) for step, score in pairs if math.isfinite(score)]
        draw.line(points, curve.color, width=2, joint="curve")
        if points:
            x, y = points[-1]
            side = "rb" if x > inside[2] - 80 else "lm"
            draw.ellipse((x - 3, y - 3, x + 3, y + 3), curve.color)
            draw.text((x + (-4 if side == "rb" else 8), y - 4), curve.name, curve.color, font, side)


@dataclass(frozen=True)
class _Scale:
    """A linear map from values to pixels."""

    low: int | float
    high: int | float
    start: int
    end: int

    def __call__(self, value: int | float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + float(share) * (self.end - self.start)


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=size)
