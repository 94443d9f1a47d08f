"""Choose the standard deviation of Gaussian frequencies for an image."""

import torch

from nerf_posenc.analysis.scattered import choose_sigma
from nerf_posenc.images import Image, unit_range
from nerf_posenc.training.recipes import default_sigma

# The fewest samples that `choose_sigma` takes.
_FEWEST_PIXELS = 10


def sigma_between_pixels(image: Image, device: torch.device, *, seed: int = 0) -> float:
    """Choose sigma by held-out pixels of tiles that are evenly spread over the image.

    It is the choice for scattered samples, by short fits in float32; an image of a few pixels gets
    the default. Tancik et al. 2020 also chose theirs by held-out pixels, one for all images of a
    kind.

    Args:
        image: its fitted pixels.
        device: device to fit on.
        seed: random seed of the frequencies, the weights and the held-out pixels.

    Returns:
        Cycles per unit of the coordinate.
    """
    tiles = _tiles(*image.size)
    points = torch.cat([image.coordinates_at(*tile).reshape(-1, 2) for tile in tiles])
    if len(points) < _FEWEST_PIXELS:
        return default_sigma(image.resolution)
    targets = torch.cat([unit_range(image.pixels[tile]).reshape(-1, 3) for tile in tiles])
    return choose_sigma(points.to(device), targets.to(device), seed=seed).sigma


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
