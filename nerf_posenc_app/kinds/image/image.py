"""Images: a network from coordinates (x, y) to RGB, evaluated on all pixels or on held-out ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from nerf_posenc.fits import ImageFit
from nerf_posenc.images import Image, unit_range
from nerf_posenc.metrics.image import constant_psnr, psnr
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import PixelBatches
from nerf_posenc.training.coordinate_model import CoordinateModel
from nerf_posenc.training.corner_cache import cache_corners
from nerf_posenc.training.devices import return_freed_memory
from nerf_posenc.training.loop import mse, weighted_mse
from nerf_posenc_app.crops import preview_windows
from nerf_posenc_app.data.image_files import image_in_memory, open_image
from nerf_posenc_app.in_memory import InMemory
from nerf_posenc_app.kinds.coordinates import (
    ABOUT,
    CITATIONS,
    PSNR,
    CoordinateKind,
    doubts_of_flat_fits,
    encoder_of,
    frequency_bands,
)
from nerf_posenc_app.kinds.image import auto, defaults
from nerf_posenc_app.kinds.image.floors import fewer_pixels, is_gray, lowest_cosines
from nerf_posenc_app.kinds.image.options import ImageConfig, ImageOptions
from nerf_posenc_app.kinds.image.reconstruction import (
    network_of,
    reconstruct,
    render,
    scored_pixels,
    view_of,
)
from nerf_posenc_app.kinds.image.references import reference_result
from nerf_posenc_app.kinds.image.samples import masked, sample_notes, sampled
from nerf_posenc_app.kinds.image.scores import measures_of, scores_of
from nerf_posenc_app.kinds.kind import Exportable, Fit, Problem, Rendered, digest_of
from nerf_posenc_app.options import UsageError, require
from nerf_posenc_app.plugins import how_to_install
from nerf_posenc_app.terminal import printable
from nerf_posenc_app.values.blocks import Block, Evaluation
from nerf_posenc_app.values.finding import Doubt
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result

if TYPE_CHECKING:
    from typing import Self


class ImageKind(CoordinateKind[ImageConfig]):
    """An image, with the pixels that are held out of the fit, if any."""

    name = "image"
    Options = ImageOptions
    rendered_by = ("size", "scale", "crop")
    in_dim, out_dim = 2, 3
    about = ABOUT
    citations = CITATIONS

    @classmethod
    def open(cls, options: ImageOptions) -> Self:
        """Open the image, with the masks and the samples that the options ask for."""
        if isinstance(options.image, InMemory):
            image = image_in_memory(options.image.values, is_light=options.light)
            if options.image.endswith(".py"):
                image = replace(image, name=Path(options.image).stem, source=options.image)
        else:
            name = options.image
            image = open_image(
                name, max_pixels=options.max_pixels, size=options.size, as_light=True
            )
            if options.light:
                is_float = image.pixels.is_floating_point()
                require(is_float, f"--light needs floating-point pixels; {name} has integers")
                image = replace(image, is_light=True)
        # Masked before it is reduced, and light before it is mapped: means are of light, and what
        # no mask leaves says nothing of the curve.
        image, whole_size = masked(options, image), image.size
        image = image if options.size is None else image.resized(options.size)
        image = image.tone_mapped() if image.is_light else image
        image = sampled(options, image, whole_size)
        return cls(options, image)

    def __init__(self, options: ImageOptions, image: Image) -> None:
        self.image, self.size, self.start = image, image.whole_size, image.mean_color()
        self.title, self.source = printable(image.name), printable(image.source)
        self.facts: dict[str, Any] = {"size": self.size}
        # Whether the scored pixels differ from the fitted ones.
        self.is_split = options.held_out or options.observed is not None
        if self.is_split:
            self.evaluated_on = "held-out pixels" if options.held_out else "unobserved pixels"
        self.notes_on_data = image.notes
        if not (image.weights is None and image.held_out is None and image.tone is None):
            self.notes_on_data = (*image.notes, *sample_notes(options, image))
        self._windows = preview_windows(image.evaluated.pixels)

    @property
    def resolution(self) -> int:
        """Fitted pixels along the longer side."""
        return self.image.resolution

    def summary(self, config: ImageConfig) -> list[str]:
        """Source, size, and how many pixels are held out."""
        width, height = self.size
        lines = [f"image    {self.source}, {width} x {height}"]
        fitted, scored = self.image.num_fitted, self.image.evaluated.num_fitted
        if self.is_split:
            lines.append(f"pixels   {fitted:,} to fit, {scored:,} others to evaluate on")
        elif fitted < self.image.num_pixels:
            lines.append(f"pixels   {fitted:,} of {self.image.num_pixels:,} to fit")
        return lines

    def digest(self) -> str:
        """Checksum of all pixels, fitted and evaluated, and of their weights."""
        evaluated = self.image.evaluated
        corner = evaluated.coordinates_at(slice(1), slice(1))
        weights = [image.weights for image in (self.image, evaluated) if image.weights is not None]
        tensors = (self.image.pixels, evaluated.pixels, corner, *weights)
        return digest_of((tensor.shape, [tensor]) for tensor in tensors)

    def resolve(self, options: ImageOptions) -> ImageConfig:
        """Choose encodings, bands, sigma, steps and batches by the size of the image."""
        config = self.with_defaults(options, **defaults.defaults_for(options, self.image))
        defaults.warn_of_bands(config, self.image)
        config, tried = auto.choose_open(config, self.image, opened=type(self))
        self.facts |= tried
        return config

    def fit_names(self, config: ImageConfig) -> Sequence[FitName]:
        """One fit for each encoding and seed, or for each of several numbers of bands or sigmas."""
        swept: dict[str, Sequence[tuple[str, float] | None]] = {}
        for encoding in config.encodings:
            used = recipes.get_recipe(encoding).options_used
            values = {option: getattr(config, option, None) for option in used}
            swept[encoding] = [
                (o, value) for o, v in values.items() if isinstance(v, tuple) for value in v
            ]
        if not any(swept.values()):
            return super().fit_names(config)
        require(
            config.num_seeds == 1, "--seeds and several values of another option exclude each other"
        )
        return [FitName(name, each) for name, pairs in swept.items() for each in pairs or [None]]

    def measures(self, config: ImageConfig) -> Sequence[Measure]:
        """PSNR and SSIM, and between the pixels the PSNR of the fitted ones."""
        return measures_of(self.image)

    def problem(
        self, model: nn.Module, description: CoordinateModel, config: ImageConfig
    ) -> Problem:
        """Batches of shuffled pixels."""
        device = torch.device(config.device)
        batches = PixelBatches(self.image, config.batch_size, seed=config.seed, device=device)
        encoder, network = model.children()
        draw_batch, forward = cache_corners(encoder_of(encoder), network, batches)
        previews = [self.image.evaluated.coordinates_at(*window) for window in self._windows]
        truth = self.image.evaluated.pixels
        problem = self.trained(
            model,
            description,
            config,
            draw_batch,
            forward=forward,
            compiled=config.compile,
            captured=True,
            facts=None if self.image.tone is None else vars(self.image.tone),
            loss=weighted_mse if batches.is_weighted else mse,
            originals=[unit_range(truth[window]) for window in self._windows],
            is_between=self.image.held_out is not None,
        )
        dtype = problem.autocast_dtype
        problem.preview = lambda: [render(model, points, device, dtype) for points in previews]
        return problem

    def evaluate(self, fit: Fit[ImageConfig]) -> Evaluation:
        """PSNR and SSIM, and the reconstruction."""
        device = torch.device(fit.config.device)
        dtype = fit.problem.autocast_dtype
        found = reconstruct(self.image, fit.model, device, dtype)
        scores = scores_of(self.image, found)
        if self.image.is_large:
            return_freed_memory()
        bands = frequency_bands(encoder_of(fit.model))
        blocks: list[Block] = [view_of(self.image, found.values, self.title, bands)]
        # The page has no mask to lay over what a network computes.
        has_mask = self.image.valid is not None
        if not (self.image.is_large or self.image.tone or has_mask):
            model = CoordinateModel(**fit.problem.description["options"])
            blocks.append(network_of(self.image, fit.model, model, self.title))
        return Evaluation(scores, blocks)

    def references(self, config: ImageConfig) -> Mapping[str, Callable[[], Result]]:
        """Interpolations between the pixels."""
        return {name: partial(reference_result, self.image, name) for name in config.references}

    def notes(self, results: Sequence[Result], config: ImageConfig) -> Iterator[str | Doubt]:
        """Name references and flat fits."""
        references = [result for result in results if result.is_reference]
        fits = [result for result in results if not result.is_reference]
        if references and fits:
            names = ", ".join(result.label for result in references)
            yield f"{names}: computed from the fitted pixels, not trained on the coordinates"
        if longer := defaults.longer_than_on_cpu(config, self.image):
            yield longer
        if missing := defaults.missing_references(config, self.image):
            install = how_to_install("references")
            yield f"not compared with {', '.join(missing)}; to add them: {install}"
        yield from self._floors(fits)
        flat = constant_psnr([scored_pixels(self.image)])
        others = "other pixels" if self.is_split else ""
        yield from doubts_of_flat_fits(
            results, flat, config, self.measures(config)[0], others=others
        )

    def _floors(self, fits: Sequence[Result]) -> Iterator[str]:
        """Say what the numbers of the best small model are worth without training."""
        image = self.image
        if self.is_split or image.is_large or image.tone or image.weights is not None:
            return
        rgb = image.rgb
        num_values = rgb[..., 0].numel() if is_gray(rgb) else rgb.numel()
        smaller = [fit for fit in fits if fit.parameters < num_values]
        if not smaller:
            return
        best = max(smaller, key=lambda fit: fit.scores[PSNR.name])
        waves = psnr(lowest_cosines(rgb, best.parameters), rgb.double())
        pixels = psnr(fewer_pixels(rgb, best.parameters), rgb)
        yield (
            f"without training, {best.parameters:,} numbers, as many as {best.label} has, give "
            f"PSNR {waves:.2f} dB as the lowest frequencies of a cosine transform, and "
            f"{pixels:.2f} dB as pixels of a smaller image, interpolated"
        )

    @classmethod
    def render(
        cls, fit: Any, path: Path, device: torch.device, given: Mapping[str, Any]
    ) -> Rendered:
        """Render an image at any resolution, or a part of it."""
        assert isinstance(fit, ImageFit)
        longer_side = given["size"]
        window_size = fit.size if given["crop"] is None else given["crop"][2:]
        try:
            if given["scale"] is not None:
                longer_side = max(1, round(max(window_size) * given["scale"]))
            size = fit.rendered_size(longer_side, window=given["crop"])
        except ValueError as error:
            raise UsageError(f"--crop: {error}") from None
        strips = fit.strips(longer_side, window=given["crop"])
        enough = recipes.default_bands(max(fit.size))
        has_bands = bool(recipes.encodings_with("num_bands", [fit.options.encoding]))
        bands = fit.options.num_bands if has_bands else 0
        note = None
        if size > window_size and bands > enough:
            note = (
                f"note: this fit has {bands} bands, and those above {enough} add noise between "
                f"the {max(fit.size)} fitted pixels; to enlarge the image, fit it with --bands "
                f"{enough}"
            )
        name = f"{path.stem}-{size[0]}x{size[1]}"
        return Rendered(size, name, strips, note=note, tone=fit.tone)

    @classmethod
    def exportable(cls, fit: Any) -> Exportable:
        """A module from coordinates ``(n, 2)`` to RGB ``(n, 3)``."""
        assert isinstance(fit, ImageFit)
        return Exportable(fit.model, {"coordinates": torch.rand(8, 2) - 0.5}, ["rgb"])
