"""Outputs of a run beside its checkpoints: images, videos, figures, page, metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import imageio.v3 as iio
from torch import Tensor

from nerf_posenc.images import LARGE_PIXELS
from nerf_posenc_app.report.charts import save_charts
from nerf_posenc_app.report.figures import save_comparison
from nerf_posenc_app.report.images import eight_bit
from nerf_posenc_app.report.page import SECTIONS, About, write_page
from nerf_posenc_app.report.sections import block_charts, frequency_content, panels, training_charts
from nerf_posenc_app.report.tiles import write_tiles
from nerf_posenc_app.report.video import write_training_video, write_video
from nerf_posenc_app.terminal import noted
from nerf_posenc_app.values.blocks import Video, View
from nerf_posenc_app.values.names import block_files, slug, video_stem
from nerf_posenc_app.values.results import Result

TRAINING_VIDEO = "learning"


def write_report(
    folder: Path,
    about: About,
    results: Sequence[Result],
    originals: Sequence[Tensor],
    *,
    figures: bool = False,
    report: str = "report.html",
) -> list[str]:
    """Write the page of a run, and the images, videos and figures beside it.

    A part that fails is left out, and the others are written: each is made of results that took
    long to get.

    Args:
        folder: folder to write to.
        about: facts about the data for the page.
        results: the fits and references.
        originals: the true images of the fits' snapshots.
        figures: also write every chart for print, as SVG, in ``figures/``.
        report: name of the page.

    Returns:
        A note on each part that failed, which the page shows too.

    Raises:
        OSError: If the disk is full or cannot be written, which leaving out a part would not mend.
    """
    notes: list[str] = []
    with noted("images", notes):
        _write_views(folder, results)
    for section in SECTIONS.values():
        if section.write and any(result.blocks(section.block) for result in results):
            with noted(section.block.__name__, notes):
                section.write(folder, results)
    videos: dict[str, Mapping[str, Path]] = {}
    with noted("videos", notes):
        videos = _write_videos(folder, results)
    with noted("training video", notes):
        write_training_video(folder / TRAINING_VIDEO, originals, results, about.training)
    image_panels = panels(results)
    with noted("comparison.png", notes):
        if image_panels:
            save_comparison(folder / "comparison.png", image_panels, results, about.measures[0])
    with noted("figures", notes):
        if figures:
            _write_figures(folder / "figures", about, results)
    height, width, _ = image_panels[0].original.shape if image_panels else (0, 0, 0)
    tiles = None
    with noted("image that zooms", notes):
        if height * width > LARGE_PIXELS:
            tiles = write_tiles(
                folder, {"original": image_panels[0].original, **image_panels[0].fits}
            )
    with noted("page", notes):
        about = replace(about, notes=[*about.notes, *notes])
        write_page(folder / report, about, results, videos=videos, originals=originals, tiles=tiles)
    return notes


def _write_views(folder: Path, results: Sequence[Result]) -> None:
    for i, result in enumerate(results):
        views: list[View] = result.blocks(View)
        for view, (original, pattern) in zip(views, block_files(len(views)), strict=True):
            if i == 0:
                _write_png(folder / original, view.original)
            _write_png(folder / pattern.format(result.name.stem), view.reconstruction)


def _write_png(file: Path, image: Tensor) -> None:
    file.parent.mkdir(exist_ok=True)
    # Files are a tenth larger than at the default level and take a quarter of the time.
    iio.imwrite(file, eight_bit(image), compress_level=1)


def _write_videos(folder: Path, results: Sequence[Result]) -> dict[str, Mapping[str, Path]]:
    """Videos of the fits, by their titles and the names of the fits."""
    written: dict[str, dict[str, Path]] = {}
    for result in results:
        for video in result.blocks(Video):
            path = folder / video_stem(video.title, result.name)
            file = write_video(path, video.frames, rate=video.rate)
            written.setdefault(video.title, {})[result.label] = file
    return dict(written)


def _write_figures(folder: Path, about: About, results: Sequence[Result]) -> None:
    """Write the charts of each section for print."""
    folder.mkdir()
    image_panels = panels(results)
    charts = [*block_charts(results), *training_charts(results, about.training)]
    if image_panels and image_panels[0].is_scored_whole:
        charts += frequency_content(image_panels[0], results).charts
    for section in dict.fromkeys(chart.section for chart in charts):
        section_charts = [chart for chart in charts if chart.section == section]
        save_charts(folder / f"{slug(section or 'results')}.svg", section_charts)
