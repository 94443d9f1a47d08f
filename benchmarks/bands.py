"""How many bands an image wants: its own pixels, and its enlargement against the true photograph.

    python -m benchmarks.bands [--images coffee astronaut] [--sizes 64 128 256]

Each photograph is reduced by area to each size and fitted with as many bands as `default_bands`
says, and with some fewer and more; the fit is then queried at the pixels of the photograph at
4 (or 2) times the size. Beside it the bicubic enlargement of the same pixels.
"""

import argparse

import torch
from torch.nn import functional as F

from nerf_posenc import grid_positions
from nerf_posenc.images import Image, resize_area
from nerf_posenc.metrics import psnr
from nerf_posenc.training.loop import predict
from nerf_posenc.training.recipes import default_bands
from nerf_posenc_app.kinds.image.defaults import resolve
from nerf_posenc_app.kinds.image.image import ImageKind
from nerf_posenc_app.kinds.image.options import ImageOptions
from nerf_posenc_app.runs.stop import Stop
from nerf_posenc_app.runs.train import begin_fit, result_of, train
from nerf_posenc_app.values.names import FitName
from scenes import open_image

OFFSETS = (-1, 0, 1, 2, 3)


def fitted(small: torch.Tensor, large: torch.Tensor, bands: int) -> tuple[float, float]:
    """PSNR of the pixels, and of the enlargement; values are clamped to [0, 1]."""
    options = ImageOptions(device="cpu", encodings=("fourier",), num_bands=bands, quiet=True)
    kind = ImageKind(options, Image.from_rgb(small))
    config = resolve(options, kind.image)
    fit = begin_fit(kind, FitName("fourier"), config)
    train(fit, Stop(), score=kind.training)
    own = result_of(kind, fit).scores["psnr_db"]
    height, width, _ = large.shape
    between = predict(
        fit.model, grid_positions((height, width), units="longer", xy=True).view(-1, 2)
    )
    return own, psnr(between.clamp(0, 1).view_as(large), large)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", nargs="+", default=["coffee", "astronaut"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[64, 128, 256])
    asked = parser.parse_args()
    print(f"{'image':<10} {'size':>4} {'bands':>5} {'of rule':>8} {'pixels':>7} {'between':>8}")
    for name in asked.images:
        photograph = open_image(name).rgb
        for size in asked.sizes:
            small = resize_area(photograph[None], size)[0]
            times = min(4, max(photograph.shape) // size)
            height, width = (times * side for side in small.shape[:2])
            large = resize_area(photograph[None], times * size)[0][:height, :width]
            # Both cover the same area, but for what rounding to whole pixels leaves.
            bicubic = F.interpolate(
                small.movedim(-1, 0)[None], size=large.shape[:2], mode="bicubic"
            )[0].movedim(0, -1)
            text = f"{psnr(bicubic.clamp(0, 1), large):8.2f}"
            print(f"{name:<10} {size:4} {'bicubic':>14} {'':>7} {text}", flush=True)
            rule = default_bands(size)
            for offset in OFFSETS:
                own, between = fitted(small, large, rule + offset)
                print(
                    f"{name:<10} {size:4} {rule + offset:5} {offset:+8} {own:7.2f} {between:8.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
