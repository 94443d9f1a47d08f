"""A page with nothing but the fields of a scene, to be orbited: ``export --page``."""

from collections.abc import Mapping

from nerf_posenc_app.report.template import render
from nerf_posenc_app.report.volumes import shown_volumes
from nerf_posenc_app.runs.saved import Metrics, made_by
from nerf_posenc_app.values.blocks import Volume


def volume_page(
    volumes: Mapping[str, Volume], *, title: str, command: str, metrics: Metrics | None = None
) -> str:
    """Page with nothing but the fields.

    Args:
        volumes: one of each fit.
        title: title of the run, shown as text whatever it contains.
        command: command that wrote the page.
        metrics: metrics of the run; None if it is not complete.
    """
    return render(
        "volume_page.html.j2",
        made_by(metrics, command),
        title=title,
        headline=None if metrics is None else metrics.sentence,
        volumes=shown_volumes(volumes),
    )
