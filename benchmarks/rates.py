"""The sweep behind ``recipes.default_rate``: PSNR of every network, encoding and optimizer by rate.

Each is fitted with half, once and twice the default rate, on every picture; marked are the best
mean over the pictures, and the default where it is not the best.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import get_args

import torch

from app.image_task import ModelOptions, Pixels, try_picture
from app.progress import Training
from benchmarks.timing import machine
from nerf_posenc.training import recipes
from nerf_posenc.training.devices import computes_bfloat16, keep_freed_memory
from scenes import open_picture

FACTORS = (0.5, 1.0, 2.0)


def setups() -> list[tuple[recipes.NetworkName, recipes.Encoding, recipes.Optimizer]]:
    """What there is a default for: ReLU behind each encoding, the others on raw coordinates."""
    found: list[tuple[recipes.NetworkName, recipes.Encoding, recipes.Optimizer]] = []
    for optimizer in get_args(recipes.Optimizer):
        found += [("relu", encoding, optimizer) for encoding in get_args(recipes.Encoding)]
        others = [name for name in get_args(recipes.NetworkName) if name != "relu"]
        # Complex matrices have no Muon.
        found += [(n, "none", optimizer) for n in others if (n, optimizer) != ("wire", "muon")]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", nargs="+", default=["cat"])
    parser.add_argument("--size", type=int, default=192, help="longer side of the pictures")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--out", type=Path, default=Path("runs/rates.json"))
    options = parser.parse_args()
    keep_freed_memory()
    device = torch.device("cpu")
    pictures = [open_picture(name).resized(options.size) for name in options.pictures]
    all_pixels = [Pixels.from_rows(each.coordinates(), each.colours) for each in pictures]
    about = f"{options.steps} steps of {options.batch_size:,} pixels"
    names = ", ".join(picture.name for picture in pictures)
    print(f"{machine()}\n{about}, mean PSNR in dB over {names} at {options.size}")
    record = []
    for network, encoding, optimizer in setups():
        default = recipes.default_rate(network, optimizer, encoding)
        model = ModelOptions(encoding, network, *recipes.default_layers(encoding))
        is_exact = network == "wire" or encoding == "hash"
        dtype = torch.bfloat16 if computes_bfloat16(device) and not is_exact else None
        means: dict[float, float] = {}
        for rate in (default * factor for factor in FACTORS):
            training = Training(options.steps, options.batch_size, optimizer, rate, device, dtype)
            scores = []
            for pixels in all_pixels:
                try:
                    scores.append(try_picture(pixels, model, training).psnr)
                except FloatingPointError:
                    scores.append(0.0)
            means[rate] = statistics.mean(scores)
        best = max(means, key=lambda rate: means[rate])
        marks = {default: " (default)", best: " *"}
        cells = [f"{rate:g}: {score:.2f}{marks.get(rate, '')}" for rate, score in means.items()]
        print(f"{network:<6} {encoding:<9} {optimizer:<5} {'   '.join(cells)}", flush=True)
        record.append(dict(network=network, encoding=encoding, optimizer=optimizer, psnr_db=means))
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({"machine": machine(), "rates": record}, indent=1))


if __name__ == "__main__":
    main()
