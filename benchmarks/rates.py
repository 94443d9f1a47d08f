"""Learning-rate sweep: PSNR of every network, encoding and optimizer.

Each is fitted with half, once and twice the default learning rate on every image. The table marks
the best mean over the images, and the default if it is not the best.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import get_args

import torch
from app.fit_settings import FitSettings
from app.image_fit import fit_image

from benchmarks.timing import machine
from nerf_posenc.training import recipes
from nerf_posenc.training.devices import computes_bfloat16, keep_freed_memory
from nerf_posenc.training.image_model import ImageModel
from scenes import open_image

FACTORS = (0.5, 1.0, 2.0)


def setups() -> list[tuple[recipes.NetworkName, str, recipes.Optimizer]]:
    """Combinations with a default: ReLU after each encoding, the others on raw coordinates."""
    found: list[tuple[recipes.NetworkName, str, recipes.Optimizer]] = []
    for optimizer in get_args(recipes.Optimizer):
        found += [("relu", encoding, optimizer) for encoding in recipes.ENCODINGS]
        others = [name for name in get_args(recipes.NetworkName) if name != "relu"]
        # Complex matrices have no Muon.
        found += [(n, "none", optimizer) for n in others if (n, optimizer) != ("wire", "muon")]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", nargs="+", default=["cat"])
    parser.add_argument("--size", type=int, default=192, help="longer side of the images")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--out", type=Path, default=Path("runs/rates.json"))
    options = parser.parse_args()
    keep_freed_memory()
    device = torch.device("cpu")
    images = [open_image(name).resized(options.size) for name in options.images]
    about = f"{options.steps} steps of {options.batch_size:,} pixels"
    names = ", ".join(image.name for image in images)
    print(f"{machine()}\n{about}, mean PSNR in dB over {names} at {options.size}")
    record = []
    for network, encoding, optimizer in setups():
        default = recipes.default_lr(network, optimizer, encoding)
        model = ImageModel(encoding, network, *recipes.ENCODINGS[encoding].layers)
        is_exact = network == "wire" or recipes.ENCODINGS[encoding].is_small
        dtype = torch.bfloat16 if computes_bfloat16(device) and not is_exact else None
        means: dict[float, float] = {}
        for lr in (default * factor for factor in FACTORS):
            settings = FitSettings(
                name=encoding,
                steps=options.steps,
                batch_size=options.batch_size,
                optimizer=optimizer,
                lr=lr,
                device=device,
                autocast_dtype=dtype,
            )
            scores = []
            for image in images:
                try:
                    scores.append(fit_image(image, model, settings).psnr)
                except FloatingPointError:
                    scores.append(0.0)
            means[lr] = statistics.mean(scores)
        best = max(means, key=lambda lr: means[lr])
        marks = {default: " (default)", best: " *"}
        cells = [f"{lr:g}: {score:.2f}{marks.get(lr, '')}" for lr, score in means.items()]
        print(f"{network:<6} {encoding:<9} {optimizer:<5} {'   '.join(cells)}", flush=True)
        record.append(dict(network=network, encoding=encoding, optimizer=optimizer, psnr_db=means))
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(
            json.dumps({"machine": machine(), "learning_rates": record}, indent=1)
        )


if __name__ == "__main__":
    main()
