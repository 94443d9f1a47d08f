"""The spread of Gaussian frequencies that suits a picture."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks.mlp import MLP
from nerf_posenc.training.loop import FitState, ShuffledBatches, fit, predict
from nerf_posenc.training.recipes import default_sigma, make_encoder, make_optimizer

# Of the default, from which one is chosen.
_FACTORS = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)


def choose_sigma(
    coordinates: Float[Tensor, "height width 2"],
    colours: Float[Tensor, "height width 3"],
    device: torch.device,
    *,
    autocast_dtype: torch.dtype | None = None,
    seed: int = 0,
    num_steps: int = 150,
) -> float:
    """Choose the spread of Gaussian frequencies for a picture by pixels that are held out.

    Tiles evenly spread over the picture are fitted once for each candidate without a quarter of
    their pixels; the candidate whose fit is nearest to those wins. Tancik et al. 2020 chose theirs
    by held-out pixels too, one for all pictures of a kind.

    Args:
        coordinates: of the pixels, the longer side spanning [-1, 1].
        colours: values in [0, 1].
        device: where to fit.
        autocast_dtype: type the networks train in; None for float32.
        seed: of the frequencies, the weights and what is held out.
        num_steps: of each fit.

    Returns:
        Cycles per unit of the coordinate.
    """
    places, targets = _tiles(coordinates).reshape(-1, 2), _tiles(colours).reshape(-1, 3)
    generator = torch.Generator().manual_seed(seed)
    held_out = torch.rand(len(places), generator=generator) < 0.25
    # A picture of few pixels may have none of either kind.
    if held_out.all() or not held_out.any():
        return default_sigma(max(colours.shape[:2]))
    places, targets, held_out = places.to(device), targets.to(device), held_out.to(device)
    scores: dict[float, float] = {}
    for factor in _FACTORS:
        sigma = factor * default_sigma(max(colours.shape[:2]))
        torch.manual_seed(seed)
        encoder = make_encoder("gaussian", 2, resolution=1, sigma=sigma, seed=seed)
        network = MLP(256, 3, width=128, depth=3)
        model = nn.Sequential(encoder, network).to(device)
        network.start_at(targets[~held_out].mean(0))
        state = FitState(model, make_optimizer(model, "adam", 1e-3), num_steps)
        batches = ShuffledBatches(places[~held_out], targets[~held_out], 8192, seed=seed)
        fit(state, batches, autocast_dtype=autocast_dtype, record_every=num_steps)
        scores[sigma] = psnr(predict(model, places[held_out]), targets[held_out])
    return max(scores, key=lambda sigma: scores[sigma])


def _tiles(values: Tensor, *, side: int = 32, across: int = 4) -> Tensor:
    """Square tiles evenly spread over a picture, as many as 4 x 4, and all of a small one."""
    height, width, channels = values.shape
    if height * width <= (side * across) ** 2:
        return values
    tops, lefts = (
        torch.linspace(0, n - min(side, n), min(across, max(1, n // side))).long().tolist()
        for n in (height, width)
    )
    tiles = [values[top : top + side, left : left + side] for top in tops for left in lefts]
    return torch.cat([tile.reshape(-1, channels) for tile in tiles])
