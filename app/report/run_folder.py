"""The folder that a run leaves behind."""

import contextlib
import importlib.util
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from torch import Tensor

from app.report.figures import (
    save_comparison,
    save_curves,
    save_frequencies,
    save_kernels,
    save_views,
)
from app.report.tables import FitResult, PictureResult, SceneResult


def make_run_folder(out: Path | None, name: str, *, overwrite: bool = False) -> Path:
    """Make a run folder, never one that another run has filled.

    Args:
        out: the folder; None for a new one under ``runs/``.
        name: of what is fitted, for the new folder's name.
        overwrite: let ``out`` hold files already.

    Raises:
        FileExistsError: where ``out`` holds files already.
        OSError: where it cannot be made or written.
    """
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        if not overwrite and any(out.iterdir()):
            raise FileExistsError(f"{out} holds files already")
        folder = out
    else:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        folder = Path("runs", f"{name}-{stamp}")
        for again in range(2, 1000):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(parents=True)
                break
            folder = Path("runs", f"{name}-{stamp}-{again}")
    probe = folder / ".writable"
    probe.touch()
    probe.unlink()
    return folder


def write_picture_run(
    folder: Path,
    original: Float[Tensor, "height width 3"],
    results: Sequence[PictureResult],
    *,
    figures: bool = False,
) -> None:
    """Write the pictures and figures of fits to a picture.

    Args:
        folder: of the run.
        original: values in [0, 1].
        results: the fits.
        figures: write every figure for print too, each as PNG and SVG, in ``figures/``.
    """
    _write_png(folder / "original.png", original)
    for result in results:
        _write_png(folder / f"{result.encoding}.png", result.reconstruction)
    save_comparison(folder / "comparison.png", original, results)
    save_curves(folder / "curves.png", results)
    if figures:
        fits = {result.encoding: result.reconstruction for result in results}
        for file in _figure_files(folder, "comparison"):
            save_comparison(file, original, results)
        _write_figures(folder, original, fits, results)


def write_scene_run(
    folder: Path,
    truth: Float[Tensor, "views height width 3"],
    results: Sequence[SceneResult],
    *,
    figures: bool = False,
) -> None:
    """Write the views and figures of fits to a scene.

    Args:
        folder: of the run.
        truth: the test views, values in [0, 1].
        results: the fits.
        figures: write every figure for print too, each as PNG and SVG, in ``figures/``; the
            frequencies are those of the first view.
    """
    _write_views(folder / "truth", list(truth))
    for result in results:
        _write_views(folder / result.encoding, [v.rendering.colour for v in result.views])
    save_views(folder / "comparison.png", truth, results)
    save_curves(folder / "curves.png", results)
    if figures:
        fits = {result.encoding: result.views[0].rendering.colour for result in results}
        for file in _figure_files(folder, "comparison"):
            save_views(file, truth, results)
        _write_figures(folder, truth[0], fits, results)


def _write_figures(
    folder: Path, original: Tensor, fits: Mapping[str, Tensor], results: Sequence[FitResult]
) -> None:
    """Write the figures that pictures and scenes have in common."""
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


def _write_views(folder: Path, pictures: Sequence[Tensor]) -> None:
    folder.mkdir(exist_ok=True)
    for i, picture in enumerate(pictures):
        _write_png(folder / f"view_{i:03}.png", picture)


def _write_png(file: Path, image: Tensor) -> None:
    # A tenth larger than at the default level, in a quarter of the time.
    iio.imwrite(file, eight_bit(image), compress_level=1)


def write_video(
    path: Path, frames: Float[Tensor, "frames height width 3"], *, rate: int = 15
) -> Path:
    """Write an endless film: MP4 where imageio-ffmpeg is installed, else WebP.

    Args:
        path: file without suffix.
        frames: values in [0, 1].
        rate: frames a second.

    Returns:
        The file that was written.
    """
    shown = eight_bit(frames)
    if importlib.util.find_spec("imageio_ffmpeg") is None:
        file = path.with_suffix(".webp")
        iio.imwrite(file, shown, duration=1000 / rate, loop=0, quality=80)
        return file
    file = path.with_suffix(".mp4")
    # The codec takes even sides only.
    even = [(0, 0), (0, shown.shape[1] % 2), (0, shown.shape[2] % 2), (0, 0)]
    iio.imwrite(
        file,
        np.pad(shown, even, mode="edge"),
        plugin="FFMPEG",
        fps=rate,
        macro_block_size=2,
        quality=7,
    )
    return file


def eight_bit(colours: Float[Tensor, "*shape"]) -> npt.NDArray[np.uint8]:
    """Round values in [0, 1] to 8 bits."""
    rounded = (colours.clamp(0, 1) * 255).round().byte()
    return np.asarray(rounded.cpu().numpy())
