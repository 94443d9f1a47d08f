"""The live page, which needs viser: fits in progress in a browser on this machine."""

from typing import TYPE_CHECKING, Any

import torch

from app.kinds.kind import Kind

if TYPE_CHECKING:
    from app.live.viewer import LivePage


def open_live_page(kind: Kind[Any], device: str) -> "LivePage":
    """Serve a page that shows fits of the data in progress.

    Args:
        kind: the data.
        device: device of its fits and of the renderings for the page.
    """
    # Imported here since only --live needs it.
    from app.live.viewer import LivePage

    pixels = 96**2 if torch.device(device).type == "cpu" else 512**2
    return LivePage(kind.title, loss_name=kind.loss_name, poses=kind.poses, pixels=pixels)
