"""The 2-D image table of Tancik et al. 2020 (Tables 1 and 3), and our optimizer beside it.

Their protocol (Experiments/2d_image_regression.ipynb): pixels ``[::2, ::2]`` of an image are
fitted and pixels ``[1::2, 1::2]`` are tested, coordinates in [0, 1); three hidden ReLU layers and a
sigmoid; full batch, half the mean squared error, Adam at a constant rate; sigma 10 for photographs
and 14 for text, positional encoding to 2^6 and 2^5. At full size (512, 256 wide, 256 frequencies,
2000 steps) that is for a GPU; ``--size 256`` and below halve the frequencies with the image.

Ours is what ``train_fit.py --held-out`` does (``recipes.HeldOutRecipe``), from the mean color of
the fitted pixels: Muon at a low rate that stays, and in the end an EMA of the weights; with four
times the frequencies beside it, and with the spread that is chosen from the fitted pixels. Beside
them stand interpolation, without any fit, and the grid that learns from the image what lies between
its pixels.
"""

import argparse
import json
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm import tqdm

from app.kinds.image.sigma import sigma_between_pixels
from baselines import INTERPOLATIONS, interpolate_held_out, predict_held_out
from benchmarks.timing import machine
from nerf_posenc import FourierEncoder, GaussianEncoder
from nerf_posenc.core.encoder import Encoder, Identity
from nerf_posenc.images import Image
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks.mlp import MLP, hidden_matrices
from nerf_posenc.training import recipes
from nerf_posenc.training.devices import keep_freed_memory
from nerf_posenc.training.loop import FitState, fit, mse, predict
from nerf_posenc.training.optimizers import OptimizerGroup, adam, muon
from nerf_posenc.training.schedules import constant, cosine_decay
from scenes import open_image

# Means over 16 images as published: none, basic, PE, Gaussian.
PUBLISHED = {"natural": (19.323, 21.716, 24.947, 25.568), "text": (18.397, 20.478, 27.567, 30.470)}
SIGMA = {"natural": 10.0, "text": 14.0}
TOP_OCTAVE = {"natural": 6.0, "text": 5.0}
SLOW_LR = {"natural": 1e-2, "text": 1e-3}


@dataclass(frozen=True)
class Size:
    """The size of an experiment, full or scaled."""

    pixels: int
    width: int
    frequencies: int
    steps: int


@dataclass(frozen=True)
class Way:
    """A way to train: from the network to its optimizer, the schedule, and whether it is ours."""

    optimizer: Callable[[nn.Module], OptimizerGroup]
    schedule: Callable[[float], float]
    is_ours: bool = False


def by_adam(lr: float) -> Way:
    """As published."""
    return Way(lambda module: adam(module, lr=lr), constant)


BY_MUON = Way(lambda module: muon(module, hidden_matrices(module)), cosine_decay)
OURS = Way(
    lambda module: recipes.make_optimizer(
        module, "muon", recipes.HeldOutRecipe().lr, adam_lr=recipes.HeldOutRecipe().adam_lr
    ),
    constant,
    is_ours=True,
)


def make_encoder(name: str, kind: str, size: Size) -> Encoder:
    """One of the paper's four mappings, scaled with the image."""
    scale = size.pixels / 512
    if name == "basic":
        return FourierEncoder(2, 1, base=2 * math.pi)
    if name == "PE":
        top = TOP_OCTAVE[kind] + math.log2(scale)
        octaves = torch.linspace(0, top, size.frequencies // 2, dtype=torch.float64)
        return FourierEncoder(2, bands=2 * math.pi * (2**octaves - 1))
    if name == "Gaussian":
        generator = torch.Generator().manual_seed(10)
        sigma = SIGMA[kind] * scale
        return GaussianEncoder(2, size.frequencies, sigma=sigma, generator=generator)
    return Identity(2)


def held_out_psnr(image: Tensor, encoder: Encoder, way: Way, size: Size) -> float:
    """Fit the even pixels and measure the odd ones."""
    device = image.device
    line = torch.arange(size.pixels, device=device) / size.pixels
    grid = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1)
    train_x, train_y = grid[::2, ::2].reshape(-1, 2), image[::2, ::2].reshape(-1, 3)
    test_x, test_y = grid[1::2, 1::2].reshape(-1, 2), image[1::2, 1::2].reshape(-1, 3)
    generator = torch.Generator().manual_seed(0)
    network = MLP(encoder.out_dim, 3, width=size.width, depth=3, generator=generator).to(device)
    encoder = encoder.to(device)
    with torch.no_grad():
        train_features, test_features = encoder(train_x), encoder(test_x)
    state = FitState(network, way.optimizer(network), size.steps)
    if way.is_ours:
        network.start_at(train_y.mean(0))
    decay = recipes.HeldOutRecipe().ema_decay
    mean = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(decay))
    fit(
        state,
        lambda step: (train_features, train_y),
        lambda prediction, target: mse(prediction, target) / 2,
        schedule=way.schedule,
        record_every=size.steps,
        after_step=lambda state: mean.update_parameters(network) if way.is_ours else None,
    )
    return psnr(predict(mean if way.is_ours else network, test_features), test_y)


def sigma_for(fitted: Tensor) -> float:
    """What ``--sigma auto`` chooses of the fitted pixels alone, for coordinates in [0, 1)."""
    side = len(fitted)
    line = (torch.arange(side, device=fitted.device) + 0.5) / side * 2 - 1
    return 2 * sigma_between_pixels(Image(fitted, line, line), fitted.device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="holds natural/ and text/ with square images")
    parser.add_argument("--images", type=int, default=16, help="of each kind")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--frequencies", type=int, default=256)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("runs/fourier_features_table.json"))
    options = parser.parse_args()
    keep_freed_memory()
    size = Size(options.size, options.width, options.frequencies, options.steps)
    print(machine())

    scores: dict[str, dict[str, list[float]]] = {}
    for kind in ("natural", "text"):
        slow = SLOW_LR[kind]
        lrs = {"none": slow, "basic": slow, "PE": 1e-3, "Gaussian": 1e-3}
        paths = sorted((options.folder / kind).glob("*.png"))[: options.images]
        for path in tqdm(paths, desc=kind):
            image = open_image(str(path)).resized(size.pixels).rgb.to(options.device)

            def note(
                name: str, encoder: Encoder, way: Way, kind: str = kind, image: Tensor = image
            ) -> None:
                score = held_out_psnr(image, encoder, way, size)
                scores.setdefault(name, {}).setdefault(kind, []).append(score)

            for name, lr in lrs.items():
                encoder = make_encoder(name, kind, size)
                note(f"{name}, Adam", encoder, by_adam(lr))
                note(f"{name}, Muon", encoder, BY_MUON)
                note(f"{name}, ours", encoder, OURS)
            more = replace(size, frequencies=4 * size.frequencies)
            note("4 x Gaussian, Adam", make_encoder("Gaussian", kind, more), by_adam(1e-3))
            note("4 x Gaussian, ours", make_encoder("Gaussian", kind, more), OURS)
            held_out = Image.from_rgb(image.cpu()).split_held_out()
            for method in INTERPOLATIONS:
                score = psnr(interpolate_held_out(held_out, method), held_out.evaluated.rgb)
                scores.setdefault(method, {}).setdefault(kind, []).append(score)
            score = psnr(predict_held_out(held_out), held_out.evaluated.rgb)
            scores.setdefault("patch-network", {}).setdefault(kind, []).append(score)
            sigma = sigma_for(image[::2, ::2])
            generator = torch.Generator().manual_seed(10)
            encoder = GaussianEncoder(2, more.frequencies, sigma=sigma, generator=generator)
            note("4 x Gaussian, ours, sigma auto", encoder, OURS)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine(), "size": vars(size), "scores": scores}
    options.out.write_text(json.dumps(record, indent=1))
    print("held-out PSNR in dB, mean over the images (published: full size, 16 other images)")
    print(f"{'':<32} {'natural':>9} {'published':>10} {'text':>9} {'published':>10}")
    for name, by_kind in scores.items():
        encoding, _, optimizer = name.partition(", ")
        row = f"{name:<32}"
        for kind in ("natural", "text"):
            names = ("none", "basic", "PE", "Gaussian")
            is_theirs = encoding in names and optimizer == "Adam"
            published = f"{PUBLISHED[kind][names.index(encoding)]:.2f}" if is_theirs else ""
            row += f" {statistics.mean(by_kind[kind]):9.2f} {published:>10}"
        print(row)


if __name__ == "__main__":
    main()
