"""Write docs/zone_plate.html, fits of a zone plate by every L: ``python -m docs.make_zone_plate``.

It takes some minutes. The plate has all frequencies up to the Nyquist frequency of its pixels, so
one sees which of them each number of bands recovers, and what it adds between the pixels.
"""

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nerf_posenc import grid_positions
from nerf_posenc.metrics import psnr
from nerf_posenc.training.recipes import default_bands
from nerf_posenc_app import fit
from nerf_posenc_app.data import open_image
from nerf_posenc_app.report.images import webp_url
from nerf_posenc_app.report.template import own_template

PAGE = Path(__file__).parent / "zone_plate.html"
TEMPLATE = Path(__file__).parent / "article" / "zone_plate.html.j2"
SIZE = 128
SCALE = 3
BANDS = tuple(range(1, 10))


def plate_at(side: int) -> Tensor:
    """The plate of `SIZE` pixels as a function, at any number of pixels."""
    radius = grid_positions((side, side), units="longer").norm(dim=-1)
    # Rings up to the Nyquist frequency of the fitted pixels, SIZE / 4 cycles per unit.
    rings = 0.5 + 0.5 * torch.cos(torch.pi * SIZE / 4 * radius.square())
    return torch.where(radius <= 1, rings, 0.5)[..., None].expand(side, side, 3)


def shown_fits() -> list[dict[str, Any]]:
    """The plate by each number of bands, at `SCALE` times its pixels, and its scores."""
    plate = open_image("zone-plate", size=SIZE)
    truth = plate_at(SCALE * SIZE)
    with tempfile.TemporaryDirectory() as folder:
        run = fit(
            image=plate.rgb.numpy(),
            encodings=["fourier"],
            num_bands=BANDS,
            device="cpu",
            video=0,
            quiet=True,
            out=Path(folder) / "run",
        )
        shown = []
        for bands in BANDS:
            fitted = run.model(f"fourier-{bands}")
            enlarged = fitted.render(SCALE * SIZE)
            shown.append(
                {
                    "bands": bands,
                    "pixels": f"{run.scores[f'fourier-{bands}']['psnr_db']:.1f}",
                    "between": f"{psnr(enlarged, truth):.1f}",
                    "url": webp_url(enlarged, 80),
                }
            )
    return shown


if __name__ == "__main__":
    template = own_template(TEMPLATE.read_text())
    PAGE.write_text(template.render(fits=shown_fits(), size=SIZE, rule=default_bands(SIZE)))
    print(f"wrote {PAGE}: {PAGE.stat().st_size / 1e3:.0f} kB")
