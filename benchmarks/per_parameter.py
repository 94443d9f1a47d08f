"""PSNR of models of one size: ours, instant-NGP's, SIREN's and Fourier features.

Every model has at most so many parameters. Those that are trained get the same seconds, in turns of
a second, the learning rate that did best for their authors' networks in benchmarks.time_to_psnr,
and a cosine schedule over their seconds; the local cosine series is solved for. Each is rounded to
float16 and to 8 bits without further training. Published means over the 24 Kodak images, which are
of other authors' machines and hours, are printed beside, and JPEG and JPEG 2000 (Pillow) at no more
bits than the series takes in 8 bits.
"""

import argparse
import copy
import io
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import torch
from torch import nn
from tqdm import tqdm

from baselines.local_cosine import LocalCosineSeries
from benchmarks.time_to_psnr import (
    InterleavedFit,
    Recipe,
    by_adam,
    by_muon,
    by_muon_after_a_grid,
    by_ngp_adam,
    with_mlp,
)
from benchmarks.timing import machine
from nerf_posenc import HashGridEncoder
from nerf_posenc.images import Image, to_eight_bits
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks import MLP, num_parameters
from nerf_posenc.networks.quantization import quantize
from nerf_posenc.training.coordinate_model import CoordinateModel, make_coordinate_model
from nerf_posenc.training.devices import keep_freed_memory
from nerf_posenc.training.loop import predict
from scenes import open_image

# Means over Kodak by parameters (CARA's and MetricGrids' papers).
PUBLISHED = {
    "instant-NGP": {207_000: 37.06},
    "SIREN": {207_000: 38.70},
    "MetricGrids": {207_000: 39.73, 335_000: 44.51},
    "CARA": {205_000: 40.03, 341_000: 46.24},
}
SERIES = "ours: local cosine series"


def sized(most: int, image: Image, **options: Any) -> nn.Module:
    """A model of train_fit.py with at most so many parameters."""
    model = CoordinateModel(num_parameters=most, **options)
    encoder, network = make_coordinate_model(model, image.resolution)
    if isinstance(network, MLP):
        network.start_at(image.rgb.mean((0, 1)))
    return nn.Sequential(encoder, network)


def ngp(most: int, image: Image) -> nn.Module:
    """instant-NGP: 16 levels of 2 features from 16 nodes, in the largest tables there is room for.

    Their tables have a power of two of rows (Müller et al. 2022, table 1).
    """
    growth = (max(image.size) / 2 / 16) ** (1 / 15)
    for log2_rows in range(24, 3, -1):
        encoder = HashGridEncoder(2, 16, log2_table_size=log2_rows, growth=growth)
        model = with_mlp(encoder, width=64, depth=2)
        if num_parameters(model) <= most:
            return model
    raise SystemExit(f"instant-NGP has no grid of {most} parameters")


def recipes_within(most: int) -> dict[str, Recipe]:
    """How the trained models of a size are fitted."""

    def build(**options: Any) -> Callable[[Image], nn.Module]:
        return lambda image: sized(most, image, **options)

    return {
        "ours: hash grid, Muon": Recipe(
            build(encoding="hash", width=64, depth=2), by_muon_after_a_grid, (0.03,), bfloat16=False
        ),
        "ours: 10 bands, Muon": Recipe(build(encoding="fourier"), by_muon, (0.05,)),
        "instant-NGP": Recipe(lambda image: ngp(most, image), by_ngp_adam, (1e-2,), bfloat16=False),
        "SIREN": Recipe(build(encoding="none", network="siren"), by_adam, (1e-3,)),
        "Fourier features, Adam": Recipe(build(encoding="gaussian"), by_adam, (2e-3,)),
    }


def score(model: nn.Module, image: Image) -> float:
    """PSNR of a model."""
    rendered = predict(model, image.coordinates.reshape(-1, 2), chunk_size=2048)
    return psnr(rendered.reshape(image.rgb.shape), image.rgb)


def scores(model: nn.Module, image: Image, seconds: float) -> dict[str, float]:
    """PSNR of a model as it is, in float16 and in 8 bits."""
    row = {"parameters": num_parameters(model), "psnr_db": score(model, image), "seconds": seconds}
    for bits in (16, 8):
        rounded = quantize(model, bits)
        row[f"psnr_{bits}_db"] = score(rounded.module, image)
        row[f"bpp_{bits}"] = rounded.num_bits / math.prod(image.size)
    return row


def print_tensors(label: str, model: nn.Module, image: Image) -> None:
    """What is lost if one tensor alone is rounded to 8 bits, or all of them are."""
    whole = score(model, image)

    def lost(names: list[str]) -> float:
        rounded = copy.deepcopy(model)
        for name, parameter in rounded.named_parameters():
            if name in names:
                alone = quantize(nn.ParameterList([parameter]), 8).module
                parameter.data = next(alone.parameters()).data
        return whole - score(rounded, image)

    names = [name for name, _ in model.named_parameters()]
    for name, parameter in model.named_parameters():
        shape = " x ".join(map(str, parameter.shape))
        tqdm.write(f"{label}: {name} ({shape}) in 8 bits loses {lost([name]):.2f} dB")
    tqdm.write(f"{label}: all of them lose {lost(names):.2f} dB")


def solve(most: int, image: Image) -> dict[str, float]:
    """The local cosine series of a size."""
    series = LocalCosineSeries()
    begin = time.perf_counter()
    series.fit(image, most)
    return scores(series, image, time.perf_counter() - begin)


def formats(image: Image, bpp: float) -> dict[str, dict[str, float]]:
    """PSNR of image formats at no more bits per pixel."""
    eight = PIL.Image.fromarray(to_eight_bits(image.rgb).numpy())
    num_pixels = math.prod(image.size)
    found: dict[str, dict[str, float]] = {}
    tries_by_name: dict[str, list[dict[str, Any]]] = {
        "JPEG, 4:4:4": [
            {"format": "JPEG", "quality": quality, "subsampling": 0, "optimize": True}
            for quality in range(100, 49, -1)
        ],
        "JPEG 2000": [
            {
                "format": "JPEG2000",
                "mct": 1,
                "irreversible": True,
                "quality_layers": [24 / bpp * step],
            }
            for step in (1.0, 1.01, 1.02, 1.05, 1.1)
        ],
    }
    for name, tries in tries_by_name.items():
        for options in tries:
            file = io.BytesIO()
            begin = time.perf_counter()
            eight.save(file, **options)
            seconds = time.perf_counter() - begin
            bits = 8 * file.tell() / num_pixels
            if bits <= bpp:
                decoded = torch.from_numpy(np.array(PIL.Image.open(file))).float() / 255
                score = psnr(decoded, image.rgb)
                sizes = {"parameters": 0, "bpp_8": bits, "bpp_16": bits, "seconds": seconds}
                found[name] = {"psnr_db": score, "psnr_8_db": score, **sizes}
                break
    return found


def fit_in_turns(
    names: list[str], most: int, image: Image, seconds: float, *, by_tensor: bool = False
) -> dict[str, dict[str, float]]:
    """Fit an image by several recipes, and round what came of it."""
    recipes = recipes_within(most)
    fits = {
        name: InterleavedFit(recipes[name], recipes[name].lrs[0], image, seconds, 0)
        for name in names
    }
    while not all(each.clock.is_over() for each in fits.values()):
        for each in fits.values():
            if not each.clock.is_over():
                each.turn(1.0)
    if by_tensor:
        for name, each in fits.items():
            print_tensors(f"{image.name} {name}", each.state.model, image)
    return {n: scores(each.state.model, image, each.clock.used()) for n, each in fits.items()}


def print_table(rows: list[dict[str, Any]], most: int) -> None:
    """Means over the images that were fitted."""
    print(f"\nat most {most:,} parameters: mean PSNR (dB), and in 8 bits")
    for name in dict.fromkeys(row["recipe"] for row in rows):
        mine = [row for row in rows if row["recipe"] == name and row["most"] == most]
        if not mine:
            continue
        mean = {key: statistics.mean(row[key] for row in mine) for key in mine[0] if key in SHOWN}
        print(
            f"{name:<26} {mean['psnr_db']:6.2f}  8 bits {mean['psnr_8_db']:6.2f}  "
            f"{mean['bpp_16']:5.2f} and {mean['bpp_8']:5.2f} bits/pixel  "
            f"{mean['parameters']:>9,.0f} parameters  {mean['seconds']:6.1f} s  {len(mine)} images"
        )


SHOWN = ("psnr_db", "psnr_8_db", "bpp_16", "bpp_8", "parameters", "seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", nargs="+", default=["cat"])
    parser.add_argument("--parameters", nargs="+", type=int, default=[207_000, 341_000])
    parser.add_argument("--seconds", type=float, default=60, help="0: the series alone")
    parser.add_argument("--recipes", nargs="+", choices=list(recipes_within(1)), default=None)
    parser.add_argument("--by-tensor", action="store_true", help="what each loses in 8 bits")
    parser.add_argument("--out", type=Path, default=Path("runs/per_parameter.json"))
    options = parser.parse_args()
    keep_freed_memory()
    print(machine(), flush=True)
    rows: list[dict[str, Any]] = []
    for name in tqdm(options.images, unit="image"):
        image = open_image(name)
        for most in options.parameters:
            results = {SERIES: solve(most, image)}
            results |= formats(image, results[SERIES]["bpp_8"])
            if options.seconds > 0:
                trained = options.recipes or list(recipes_within(most))
                results |= fit_in_turns(
                    trained, most, image, options.seconds, by_tensor=options.by_tensor
                )
            for recipe, row in results.items():
                rows.append({"image": image.name, "most": most, "recipe": recipe, **row})
                tqdm.write(f"{image.name} {most:,} {recipe}: {row['psnr_db']:.2f} dB")
            options.out.parent.mkdir(parents=True, exist_ok=True)
            record = {"machine": machine(), "seconds": options.seconds, "results": rows}
            options.out.write_text(json.dumps(record, indent=1))
    for most in options.parameters:
        print_table(rows, most)
    print("\npublished means over the 24 Kodak images")
    for name, by_size in PUBLISHED.items():
        shown = ", ".join(f"{db:.2f} dB ({size:,})" for size, db in by_size.items())
        print(f"{name:<26} {shown}")


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
