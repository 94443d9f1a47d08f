"""Blocks of a report: what the evaluation of a fit shows.

A title is the heading that a block stands under: blocks of one title by several fits share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from torch import Tensor

from nerf_posenc.fits import ImageFit

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Num, Shaped


@dataclass(frozen=True)
class View:
    """A block of the report: an image, or a view of a scene, beside its reconstruction.

    Attributes:
        title: heading of the block.
        original: values in [0, 1]; as stored, in 8 or 16 bits, if they are many.
        reconstruction: likewise.
        depth: depth of each pixel, above 0, NaN where it is empty; None for an image.
        bands: frequency bands of the encoding, in rad per unit of the image plane.
        is_section: whether it cuts through the data, so that the page opens on another view.
        scored: weight of each pixel in the scores; None for 1 everywhere.
        mu: strength of the mu-law that its values are linear light by; None for others.
    """

    title: str
    original: Shaped[Tensor, "height width 3"]
    reconstruction: Shaped[Tensor, "height width 3"]
    depth: Float[Tensor, "height width"] | None = None
    bands: Sequence[float] = ()
    is_section: bool = False
    scored: Num[Tensor, "height width"] | Bool[Tensor, "height width"] | None = None
    mu: float | None = None


@dataclass(frozen=True)
class Video:
    """A block of the report: frames that are shown as a looping video.

    Attributes:
        title: heading of the block, for example ``"Turntable"``.
        frames: values in [0, 1].
        rate: frames per second.
    """

    title: str
    frames: Float[Tensor, "frames height width 3"]
    rate: int


@dataclass(frozen=True)
class Volume:
    """A block of the report: a radiance field on a grid, to be orbited in the browser.

    Attributes:
        title: heading of the block.
        density: density of each cell of the cube [-1, 1]^3, per unit of its coordinates.
        rgb: colors in [0, 1]; 0 in cells that are not visible.
        space: name and numbers of the space, which say how rays go through the cube.
        orbit: numbers of an `Orbit`, the tangents of half the angles of view, and an apex and four
            corners of each camera of the training views.
        background: gray value behind the field.
    """

    title: str
    density: Float[Tensor, "n n n"]
    rgb: Float[Tensor, "n n n 3"]
    space: Mapping[str, Any]
    orbit: Mapping[str, Any]
    background: float


@dataclass(frozen=True)
class Table:
    """A block of the report: rows of text below a heading.

    Attributes:
        title: heading of the block.
        columns: heading of each column.
        rows: one text per column.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Curve:
    """One line of a chart; those of one title by different encodings share the chart.

    Attributes:
        title: heading of the chart.
        x_label: label of the x axis, with its unit.
        y_label: label of the y axis, with its unit.
        xs: finite numbers.
        ys: the values, as many as ``xs``; those that are not finite are left out.
        log_x: whether the x axis is logarithmic.
        name: label of the line beside the encoding; empty for one line per encoding.
        section: heading that the chart stands under; empty for that of the results.
        about: one or two sentences about the charts of the section.
    """

    title: str
    x_label: str
    y_label: str
    xs: Sequence[int | float]
    ys: Sequence[int | float]
    log_x: bool = False
    name: str = ""
    section: str = ""
    about: str = ""

    def __post_init__(self) -> None:
        if len(self.xs) != len(self.ys):
            raise ValueError("a curve needs as many y as x")


@dataclass(frozen=True)
class Token:
    """A symbol or word that is shown.

    Attributes:
        text: a token that the model was given or has predicted.
        mark: whether it was given, or predicted rightly or wrongly.
        truth: the right token, if another was predicted.
    """

    text: str
    mark: Literal["given", "right", "wrong"] = "given"
    truth: str | None = None


@dataclass(frozen=True)
class Passage:
    """An example of the test data with a model's predictions.

    Attributes:
        title: heading of the block.
        tokens: shown one after the other, without spaces between them.
    """

    title: str
    tokens: Sequence[Token]


@dataclass(frozen=True)
class Network:
    """A fitted image as a function of coordinates, which the page evaluates at any point.

    Attributes:
        title: heading of the view that shows its pixels.
        fit: a copy of the encoder and the network.
        psnr_by_bands: PSNR in dB with none of the frequency bands, with the lowest one, and so on
            without the last; empty if the encoder has none that can be switched off.
    """

    title: str
    fit: ImageFit
    psnr_by_bands: Sequence[float] = ()


class Block(Protocol):
    """Part of a report: one of the above, or another row of `report.page`."""

    @property
    def title(self) -> str:
        """Heading of the block."""


@dataclass(frozen=True)
class Evaluation:
    """Scores of a fitted model on test data, and the blocks that a report shows of it.

    Attributes:
        scores: scores by the name of the measure; NaN where a measure does not apply.
        blocks: blocks of the report.
        by_seed: scores, steps and seconds of each seed, if several models were trained.
        remarks: sentences for the report.
        details: further values for ``metrics.json``.
    """

    scores: Mapping[str, float]
    blocks: Sequence[Block] = ()
    by_seed: Sequence[Mapping[str, float]] = ()
    remarks: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
