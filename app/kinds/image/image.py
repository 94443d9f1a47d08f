"""Images: a network from coordinates (x, y) to RGB, evaluated on all pixels or on held-out ones."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from app.crops import preview_windows
from app.kinds.coordinates import (
    ABOUT,
    CITATIONS,
    PSNR,
    SSIM,
    encoder_of,
    frequency_bands,
    kernel_curves,
    notes_on_flat_fits,
    precision_for,
)
from app.kinds.image import defaults
from app.kinds.image.forecasts import forecast_blocks
from app.kinds.image.inputs import find_images
from app.kinds.image.options import ImageOptions, encoding_of, swept_value
from app.kinds.image.plan import PLANNED_PIXELS, plan
from app.kinds.image.reconstruction import evaluated_pixels, reconstruct, render
from app.kinds.image.references import reference_result
from app.kinds.kind import (
    Evaluation,
    Exportable,
    Fit,
    Kind,
    Problem,
    Rendered,
    Result,
    View,
    digest_of,
)
from app.options import UsageError, require
from app.terminal import printable
from nerf_posenc.fits import ImageFit, describe_fit, load_fit
from nerf_posenc.images import Image, unit_range
from nerf_posenc.metrics.image import ssim
from nerf_posenc.networks import MLP
from nerf_posenc.networks.quantization import quantize
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import PixelBatches
from nerf_posenc.training.coordinate_model import make_coordinate_model
from nerf_posenc.training.corner_cache import cache_corners
from nerf_posenc.training.devices import return_freed_memory
from nerf_posenc.training.results import Measure
from nerf_posenc.training.schedules import constant, cosine_decay
from scenes import open_image

STORAGE = (
    Measure(
        "bpp_float16",
        "bits/pixel (float16)",
        higher_is_better=False,
        meaning="bits of all parameters in float16, and of what says which are kept, per pixel",
    ),
    Measure(
        "bpp_8bit",
        "bits/pixel (8 bits)",
        higher_is_better=False,
        meaning="bits per pixel with parameters in 8 bits, and their scales",
    ),
    Measure("psnr_8bit_db", "PSNR (dB, 8 bits)", meaning="PSNR with parameters rounded to 8 bits"),
)
"""Further columns of fits within a number of parameters."""
FITTED = Measure(
    "psnr_fitted_db", "PSNR (dB, fitted pixels)", meaning="PSNR over the pixels that were fitted"
)
"""Further column of fits that are scored between the pixels."""


class ImageKind(Kind[ImageOptions]):
    """An image, with the pixels that are held out of the fit, if any."""

    name = "image"
    Options = ImageOptions
    rendered_by = ("size", "scale", "crop")
    about = ABOUT
    citations = CITATIONS

    def __init__(self, options: ImageOptions, image: Image | None = None) -> None:
        if image is None:
            name = options.image
            is_folder = os.path.isdir(name)
            require(not is_folder, f"--image {name} is a folder; --images {name} fits all in it")
            image = open_image(name, max_pixels=options.max_pixels)
            image = image if options.size is None else image.resized(options.size)
            try:
                image = image.split_held_out() if options.held_out else image
            except ValueError as error:
                raise UsageError(f"--held-out: {printable(name)}: {error}") from None
        self.image = image
        self.title, self.source = printable(self.image.name), printable(self.image.source)
        self.facts: dict[str, Any] = {"size": self.image.whole_size}
        self.num_rows = self.image.num_pixels
        if self.image.held_out is not None:
            self.evaluated_on = "held-out pixels"
            self.notes_on_data = [
                "every second pixel of every second row is fitted; the scores and images are those "
                "of the pixels between"
            ]
        self._truth = evaluated_pixels(self.image)
        self._windows = preview_windows(self.image.evaluated.pixels)

    def summary(self, config: ImageOptions) -> list[str]:
        """Source, size, and how many pixels are held out."""
        width, height = self.image.whole_size
        lines = [f"image    {self.source}, {width} x {height}"]
        if self.image.held_out is not None:
            fitted, between = self.image.num_pixels, self.image.held_out.num_pixels
            lines.append(f"pixels   {fitted:,} to fit, {between:,} between them to evaluate on")
        return lines

    def digest(self) -> str:
        """Checksum of all pixels, fitted and evaluated."""
        evaluated = self.image.evaluated
        corner = evaluated.coordinates_at(slice(1), slice(1))
        tensors = (self.image.pixels, evaluated.pixels, corner)
        return digest_of((tensor.shape, [tensor]) for tensor in tensors)

    def resolve(self, options: ImageOptions) -> ImageOptions:
        """Choose encodings, bands, sigma, steps and batches by the size of the image."""
        config, reason = defaults.resolve(options, self.image)
        if reason is not None:
            self.facts["auto"] = reason
        return config

    def measures(self, config: ImageOptions) -> Sequence[Measure]:
        """PSNR and SSIM, and what is stored within ``--parameters``."""
        fitted = () if self.image.held_out is None else (FITTED,)
        return (PSNR, *fitted, SSIM, *(STORAGE if config.num_parameters else ()))

    def build(self, encoding: str, config: ImageOptions, generator: torch.Generator) -> nn.Module:
        """An encoder, and a network that starts at the mean color."""
        encoder, network = make_coordinate_model(
            config.model(encoding), self.image.resolution, generator=generator
        )
        if isinstance(network, MLP):
            network.start_at(self.image.mean_color())
        return nn.Sequential(encoder, network)

    def problem(self, model: nn.Module, encoding: str, config: ImageOptions) -> Problem:
        """Batches of shuffled pixels."""
        assert config.batch_size is not None
        assert config.optimizer != "auto"
        device, fitted = torch.device(config.device), encoding_of(encoding)
        batches = PixelBatches(self.image, config.batch_size, seed=config.seed, device=device)
        encoder, network = model.children()
        draw_batch, forward = cache_corners(encoder_of(encoder), network, batches)
        recipe = recipes.get_recipe(fitted)
        # Sinusoids that are fitted fast fill the gaps between the pixels with noise; raw
        # coordinates cannot, and a hash grid does at any learning rate.
        held_out = recipe.held_out if config.held_out and config.optimizer == "muon" else None
        lr = config.lr or (
            recipes.default_lr(config.network, config.optimizer, fitted)
            if held_out is None
            else held_out.lr
        )
        # Complex numbers have no half precision.
        precision = "float32" if config.network == "wire" else config.precision
        dtype = precision_for(precision, device, is_small=recipe.is_small)
        previews = [self.image.evaluated.coordinates_at(*window) for window in self._windows]
        truth = self.image.evaluated.pixels
        resolution, size = self.image.resolution, self.image.whole_size
        return Problem(
            draw_batch=draw_batch,
            forward=forward,
            optimizer=recipes.make_optimizer(
                model,
                config.optimizer,
                lr,
                encoding=fitted,
                adam_lr=None if held_out is None else held_out.adam_lr,
            ),
            description=describe_fit("image", config.model(encoding), resolution, size),
            schedule=cosine_decay if held_out is None else constant,
            ema_decay=None if held_out is None else held_out.ema_decay,
            autocast_dtype=dtype,
            compiled=config.compile,
            captured=True,
            preview=lambda: [render(model, points, device, dtype) for points in previews],
            originals=[unit_range(truth[window]) for window in self._windows],
            details={"lr": lr, "precision": str(dtype).removeprefix("torch.")},
        )

    def evaluate(self, fit: Fit[ImageOptions]) -> Evaluation:
        """PSNR and SSIM, the reconstruction, the kernel and the forecast."""
        config, device = fit.config, torch.device(fit.config.device)
        dtype = fit.problem.autocast_dtype
        values, decibels = reconstruct(self.image, fit.model, device, dtype)
        scores = {PSNR.name: decibels, SSIM.name: ssim(values, self._truth)}
        if self.image.held_out is not None:
            fitted = replace(self.image, held_out=None)
            scores[FITTED.name] = reconstruct(fitted, fit.model, device, dtype)[1]
        if config.num_parameters is not None:
            for bits, label in ((16, "float16"), (8, "8bit")):
                rounded = quantize(fit.model, bits)
                scores[f"bpp_{label}"] = rounded.num_bits / math.prod(self.image.whole_size)
                scores[f"psnr_{label}_db"] = reconstruct(self.image, rounded.module, device, dtype)[
                    1
                ]
        if self.image.is_large:
            return_freed_memory()
        encoder = encoder_of(fit.model)
        view = View(self.title, self._truth, values, bands=frequency_bands(encoder))
        forecast = forecast_blocks(self.image, fit.encoding, config, values, steps=fit.state.step)
        return Evaluation(
            scores,
            [view, *kernel_curves(encoder), *forecast.blocks],
            remarks=forecast.remarks,
            details={**forecast.details, "swept": swept_value(fit.encoding)},
        )

    def references(self, config: ImageOptions) -> Sequence[Result]:
        """Interpolations, and series in closed form."""
        return [reference_result(self.image, name, config) for name in config.references or ()]

    def plan(self, config: ImageOptions) -> str | None:
        """What the fits of more than a megapixel take."""
        is_planned = self.image.num_pixels > PLANNED_PIXELS and config.num_parameters is None
        return plan(self, self.image, config) if is_planned else None

    def notes(self, results: Sequence[Result], config: ImageOptions) -> Iterator[str]:
        """Name references that are ahead of every fit, and fits that learned nothing."""
        references = [result for result in results if result.is_reference]
        fits = [result for result in results if not result.is_reference]
        if references and fits:
            names = ", ".join(result.encoding for result in references)
            yield f"{names}: computed from the fitted pixels, not trained on the coordinates"
            ahead = max(references, key=lambda result: result.scores[PSNR.name])
            best = max(fits, key=lambda result: result.scores[PSNR.name])
            if ahead.scores[PSNR.name] > best.scores[PSNR.name]:
                yield (
                    f"{ahead.encoding} is ahead of every fit: {ahead.scores[PSNR.name]:.2f} dB "
                    f"against {best.scores[PSNR.name]:.2f} dB of {best.encoding}"
                )
        yield from notes_on_flat_fits(results, [self._truth], config)

    @classmethod
    def inputs(cls, options: ImageOptions) -> Sequence[str] | None:
        """Files and samples of ``--images``."""
        if options.images is None:
            return None
        return find_images(options.images, options.max_pixels)

    @classmethod
    def of_input(cls, options: ImageOptions, name: str) -> ImageOptions:
        """Options of one of several images."""
        return replace(options, image=name, images=None)

    @classmethod
    def relocated(cls, options: ImageOptions, found: Callable[[str], str]) -> ImageOptions:
        """Find the files from another folder."""
        images = None if options.images is None else tuple(map(found, options.images))
        return replace(super().relocated(options, found), images=images)

    @classmethod
    def render(cls, path: Path, device: torch.device, asked: Mapping[str, Any]) -> Rendered:
        """Render an image at any resolution, or a part of it."""
        fit = load_fit(path, device=device)
        assert isinstance(fit, ImageFit)
        longer_side = asked["size"]
        try:
            own = fit.rendered_size(window=asked["crop"])
            if asked["scale"] is not None:
                longer_side = max(1, round(max(own) * asked["scale"]))
            size = fit.rendered_size(longer_side, window=asked["crop"])
        except ValueError as error:
            raise UsageError(f"--crop: {error}") from None
        strips = fit.strips(longer_side, window=asked["crop"])
        enough = max(1, defaults.bands_to_nyquist(max(fit.size)) - 1)
        bands = fit.options.num_bands if fit.options.encoding == "fourier" else 0
        note = None
        if size > own and bands > enough:
            note = (
                f"note: bands above {enough} are noise between the {max(fit.size)} fitted pixels, "
                f"and this fit has {bands}: to enlarge it, fit it with --bands {enough}"
            )
        return Rendered(size, f"{path.stem}-{size[0]}x{size[1]}", strips, note=note)

    @classmethod
    def exportable(cls, path: Path) -> Exportable:
        """A module from coordinates ``(n, 2)`` to RGB ``(n, 3)``."""
        fit = load_fit(path)
        assert isinstance(fit, ImageFit)
        return Exportable(fit.model, {"coordinates": torch.rand(8, 2) - 0.5}, ["rgb"])
