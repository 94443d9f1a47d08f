"""Choice of the fitted pixels of an image: masks and observed shares."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from nerf_posenc.images import Image, resize_area
from nerf_posenc_app.data.arrays import mask_in_memory, record_in_memory
from nerf_posenc_app.data.image_files import read_mask, straight_image
from nerf_posenc_app.data.reading.worker import read_image
from nerf_posenc_app.in_memory import InMemory
from nerf_posenc_app.kinds.image.options import ImageOptions
from nerf_posenc_app.options import UsageError, require

ALPHA = "alpha"
"""Value of ``--mask`` that takes the opacity of the image itself."""

_COLUMNS = "columns:"
# Rounding error of means of ones.
_ROUNDING = 1e-6


def masked(options: ImageOptions, image: Image) -> Image:
    """Give pixels outside ``--mask`` the weight 0.

    Raises:
        SceneError: If a file cannot be read.
        UsageError: Naming the option that does not suit the image.
    """
    if options.mask is None:
        return image
    if options.mask == ALPHA:
        # The colors before they were blended with white.
        image, kept = _straight(options, image)
    else:
        kept = _mask(options.mask, "--mask", options.max_pixels)
    _require_size(kept, image.size, f"--mask {options.mask}")
    if image.weights is not None:
        # Pixels without a value.
        kept = kept * image.weights
    require(bool(kept.any()), f"--mask {options.mask} leaves no pixel to fit")
    return replace(image, weights=kept)


def sampled(options: ImageOptions, image: Image, whole_size: tuple[int, int]) -> Image:
    """Hold pixels out of the fit.

    Args:
        options: options of the run.
        image: the image, reduced as they say.
        whole_size: width and height before that, which a file of observed pixels has.

    Raises:
        SceneError: If a file cannot be read.
        UsageError: Naming the option that does not suit the image.
    """
    if options.held_out:
        try:
            return image.split_held_out()
        except ValueError as error:
            raise UsageError(f"--held-out: {options.image}: {error}") from None
    if options.observed is None:
        return image
    try:
        return image.observed(_observed(options, image, whole_size))
    except ValueError as error:
        raise UsageError(f"--observed {options.observed}: {error}") from None


def sample_notes(options: ImageOptions, image: Image) -> list[str]:
    """Notes on the pixels for readers of the table."""
    notes = []
    if image.tone is not None:
        notes.append(
            f"linear light up to {image.tone.peak:.3g} is fitted, scored and shown through the "
            f"mu-law curve (mu = {image.tone.mu:.6g})"
        )
    if options.held_out:
        notes.append(
            "every second pixel of every second row is fitted; the scores and images are of the "
            "pixels between"
        )
    if options.mask is not None:
        notes.append(
            f"pixels outside the mask {options.mask}, gray here, are neither fitted nor scored"
        )
    if options.observed is not None:
        others = image.evaluated.num_fitted
        notes.append(
            f"{image.num_fitted:,} pixels are observed; the scores are of the {others:,} others"
        )
    return notes


def _straight(options: ImageOptions, image: Image) -> tuple[Image, Tensor]:
    """Colors of the image that are not laid over a background, and its opacity."""
    if isinstance(options.image, InMemory):
        record = record_in_memory(options.image.values, is_light=options.light)
    else:
        path = Path(options.image)
        require(
            path.is_file(), f"--mask alpha: {options.image} is not a file with an alpha channel"
        )
        record = read_image(path, options.max_pixels)
    straight, opacity = straight_image(record, name=image.name, source=image.source)
    if opacity is None:
        raise UsageError(f"--mask alpha: {options.image} has no alpha channel")
    return straight, opacity


def _mask(file: str, option: str, max_pixels: int) -> Tensor:
    """Mask of a gray image or an array: 1 where it is above a half, else 0."""
    if isinstance(file, InMemory):
        return read_mask(mask_in_memory(file.values), "a mask").float()
    require(Path(file).is_file(), f"{option} {file}: there is no such file")
    return read_mask(Path(file), f"{option} {file}", max_pixels=max_pixels).float()


def _require_size(weights: Tensor, size: tuple[int, int], what: str) -> None:
    width, height = size
    require(
        weights.shape == (height, width),
        f"{what} must be of the size of the image, {width} x {height}; it is "
        + " x ".join(map(str, reversed(weights.shape))),
    )


def _observed(options: ImageOptions, image: Image, whole_size: tuple[int, int]) -> Tensor:
    """Pixels that are observed: a random share, columns, or those of a mask."""
    asked, (width, height) = options.observed or "", image.size
    generator = torch.Generator().manual_seed(options.seed)
    share = None if isinstance(asked, InMemory) else _share(asked.removeprefix(_COLUMNS))
    if share is None:
        mask = _mask(asked, "--observed", options.max_pixels)
        _require_size(mask, whole_size, f"--observed {asked}")
        # Reduced like the image: a pixel is observed if all of its area is.
        return resize_area(mask[..., None], max(image.size))[..., 0] > 1 - _ROUNDING
    if asked.startswith(_COLUMNS):
        return (torch.rand(width, generator=generator) < share).expand(height, width)
    # Exactly this share, whatever the seed.
    order = torch.rand(height * width, generator=generator).argsort().argsort()
    return (order < round(share * height * width)).reshape(height, width)


def _share(text: str) -> float | None:
    """A number in (0, 1); None for text that is no number."""
    try:
        share = float(text)
    except ValueError:
        return None
    require(0 < share < 1, f"--observed must be above 0 and below 1, or a file; got {text}")
    return share
