"""The images and figures of a run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import imageio.v3 as iio
from jaxtyping import Float, Shaped
from torch import Tensor

from app.report.eight_bit import eight_bit
from app.report.figures import (
    save_comparison,
    save_curves,
    save_frequencies,
    save_kernels,
    save_views,
)
from nerf_posenc.radiance.evaluation import ViewScore
from nerf_posenc.training.results import FieldResult

REPORT = "report.html"
"""The page of a run."""


def write_image_run(
    folder: Path,
    original: Shaped[Tensor, "height width 3"],
    reconstructions: Mapping[str, Shaped[Tensor, "height width 3"]],
    results: Sequence[FieldResult],
    *,
    figures: bool = False,
) -> None:
    """Write the images and figures of an image's run.

    Args:
        folder: of the run.
        original: values in [0, 1], or 8 or 16 bits without a sign.
        reconstructions: by encoding.
        results: the fits.
        figures: also write every figure for print, as PNG and SVG, in ``figures/``.
    """
    _write_png(folder / "original.png", original)
    for encoding, reconstruction in reconstructions.items():
        _write_png(folder / f"{encoding}.png", reconstruction)
    save_comparison(folder / "comparison.png", original, reconstructions, results)
    save_curves(folder / "curves.png", results)
    if figures:
        for file in _figure_files(folder, "comparison"):
            save_comparison(file, original, reconstructions, results)
        _write_figures(folder, original, reconstructions, results)


def write_scene_run(
    folder: Path,
    truth: Callable[[int], Float[Tensor, "height width 3"]],
    views: Mapping[str, Sequence[ViewScore]],
    results: Sequence[FieldResult],
    *,
    figures: bool = False,
) -> None:
    """Write the views and figures of a scene's run.

    Args:
        folder: of the run.
        truth: from the index of a test view to its values in [0, 1].
        views: test views as each field renders them, by encoding.
        results: the fits.
        figures: also write every figure for print, as PNG and SVG, in ``figures/``; the
            frequencies are those of the first view.
    """
    count = len(next(iter(views.values())))
    _write_views(folder / "truth", map(truth, range(count)))
    for encoding, scores in views.items():
        _write_views(folder / encoding, (score.rendering.rgb for score in scores))
    save_views(folder / "comparison.png", truth, views, results)
    save_curves(folder / "curves.png", results)
    if figures:
        first_views = {encoding: scores[0].rendering.rgb for encoding, scores in views.items()}
        for file in _figure_files(folder, "comparison"):
            save_views(file, truth, views, results)
        _write_figures(folder, truth(0), first_views, results)


def _write_figures(
    folder: Path, original: Tensor, fits: Mapping[str, Tensor], results: Sequence[FieldResult]
) -> None:
    """Write the figures that images and scenes have in common."""
    for file in _figure_files(folder, "curves"):
        save_curves(file, results)
    for file in _figure_files(folder, "frequencies"):
        save_frequencies(file, original, fits)
    if any(result.kernel is not None for result in results):
        for file in _figure_files(folder, "kernels"):
            save_kernels(file, results)


def _figure_files(folder: Path, name: str) -> list[Path]:
    (folder / "figures").mkdir(exist_ok=True)
    return [folder / "figures" / f"{name}{suffix}" for suffix in (".png", ".svg")]


def _write_views(folder: Path, images: Iterable[Tensor]) -> None:
    folder.mkdir(exist_ok=True)
    for i, image in enumerate(images):
        _write_png(folder / f"view_{i:03}.png", image)


def _write_png(file: Path, image: Tensor) -> None:
    # A tenth larger than at the default level, in a quarter of the time.
    iio.imwrite(file, eight_bit(image), compress_level=1)
