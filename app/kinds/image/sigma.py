"""Choose the standard deviation of Gaussian frequencies for an image."""

import torch
from torch import nn

from nerf_posenc.images import Image, unit_range
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks.mlp import MLP
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.loop import FitState, fit, predict
from nerf_posenc.training.recipes import EncoderOptions, default_sigma, make_encoder, make_optimizer

# Candidates, as factors of the default.
_FACTORS = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)


def choose_sigma(
    image: Image,
    device: torch.device,
    *,
    autocast_dtype: torch.dtype | None = None,
    seed: int = 0,
    num_steps: int = 150,
) -> float:
    """Choose the standard deviation of Gaussian frequencies by held-out pixels.

    Tiles evenly spread over the image are fitted without a quarter of their pixels, once per
    candidate; the candidate whose fit is nearest to those pixels wins. Tancik et al. 2020 also
    chose theirs by held-out pixels, one for all images of a kind.

    Args:
        image: its fitted pixels.
        device: device to fit on.
        autocast_dtype: type that the networks train in; None for float32.
        seed: random seed of the frequencies, the weights and the held-out pixels.
        num_steps: number of steps of each fit.

    Returns:
        Cycles per unit of the coordinate.
    """
    default = default_sigma(image.resolution)
    tiles = _tiles(*image.size)
    points = torch.cat([image.coordinates_at(*tile).reshape(-1, 2) for tile in tiles])
    targets = torch.cat([unit_range(image.pixels[tile]).reshape(-1, 3) for tile in tiles])
    generator = torch.Generator().manual_seed(seed)
    held_out = torch.rand(len(points), generator=generator) < 0.25
    # A tiny image may have no pixels of either kind.
    if held_out.all() or not held_out.any():
        return default
    points, targets, held_out = points.to(device), targets.to(device), held_out.to(device)
    batches = ShuffledBatches(points[~held_out], targets[~held_out], 8192, seed=seed)
    scores: dict[float, float] = {}
    for sigma in (factor * default for factor in _FACTORS):
        generator = torch.Generator().manual_seed(seed)
        wanted = EncoderOptions(in_dim=2, resolution=1, sigma=sigma, generator=generator)
        encoder = make_encoder("gaussian", wanted)
        network = MLP(encoder.out_dim, 3, width=128, depth=3, generator=generator)
        model = nn.Sequential(encoder, network).to(device)
        network.start_at(targets[~held_out].mean(0))
        state = FitState(model, make_optimizer(model, "adam", 1e-3), num_steps)
        fit(state, batches, autocast_dtype=autocast_dtype, record_every=num_steps)
        scores[sigma] = psnr(predict(model, points[held_out]), targets[held_out])
    return max(scores, key=lambda sigma: scores[sigma])


def _tiles(
    width: int, height: int, *, side: int = 32, across: int = 4
) -> list[tuple[slice, slice]]:
    """Square tiles evenly spread over an image, at most 4 x 4, or all of it."""
    if height * width <= (side * across) ** 2:
        return [(slice(0, height), slice(0, width))]
    tops, lefts = (
        torch.linspace(0, n - min(side, n), min(across, max(1, n // side))).long().tolist()
        for n in (height, width)
    )
    return [(slice(top, top + side), slice(left, left + side)) for top in tops for left in lefts]
