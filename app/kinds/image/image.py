"""Images: a network from coordinates (x, y) to RGB, evaluated on all pixels or on held-out ones."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from torch import Tensor, nn

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
)
from app.kinds.image import defaults
from app.kinds.image.forecasts import forecast_blocks
from app.kinds.image.inputs import find_images
from app.kinds.image.plan import PLANNED_PIXELS, plan
from app.kinds.image.references import REFERENCES, reference_result
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
from app.options import CoordinateOptions, Range, UsageError, require
from app.terminal import printable
from nerf_posenc.fits import ImageFit, describe_image_fit, load_fit
from nerf_posenc.images import Image, to_eight_bits, unit_range
from nerf_posenc.metrics.image import psnr, psnr_from_mse, squared_error, ssim
from nerf_posenc.networks import MLP
from nerf_posenc.networks.mlp import hidden_matrices
from nerf_posenc.networks.quantization import quantize
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import PixelBatches
from nerf_posenc.training.corner_cache import cache_corners
from nerf_posenc.training.devices import autocast, return_freed_memory
from nerf_posenc.training.ensemble import Ensemble, MemberLosses, stacked_draws
from nerf_posenc.training.image_model import ImageModel, make_image_model
from nerf_posenc.training.loop import mse, predict
from nerf_posenc.training.optimizers import OptimizerGroup
from nerf_posenc.training.results import Measure
from nerf_posenc.training.schedules import constant, cosine_decay
from scenes import SceneError, open_image

# A large image is rendered this many pixels at a time.
_STRIP_PIXELS = 1 << 18

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


@dataclass(frozen=True, kw_only=True)
class ImageOptions(CoordinateOptions):
    """Fit an image without and with an encoding."""

    image: str = "cat"
    """Image file, or a bundled sample."""

    images: tuple[str, ...] | None = None
    """Several images, or folders of images, each with a run of its own."""

    stack: Literal["auto", "on", "off"] = "auto"
    """Train the models of --images as one batched ensemble; auto: on a GPU."""

    held_out: bool = False
    """Fit every second pixel of every second row, and evaluate on those between."""

    references: tuple[str, ...] | None = None
    """What fits are compared with, without training: bilinear, bicubic, lanczos, patch-network
    (with --held-out), local-cosine (with --parameters and for large images)."""

    network: recipes.NetworkName = "relu"
    """Network after the encoding; all but relu are meant for raw coordinates."""

    num_parameters: Annotated[int | None, Range(1000), tyro.conf.arg(name="parameters")] = None
    """Fit the largest models within N parameters, and print their bits per pixel."""

    max_resolution: Annotated[
        int | None, Range(16, 1 << 17), tyro.conf.arg(name="max-resolution", aliases=["--finest"])
    ] = None
    """Nodes per axis of hash's finest level; one per pixel."""

    compile: bool = False
    """Compile the model first, on a GPU with CUDA graphs: a minute's wait before a long fit."""

    def check(self) -> None:
        """Check ranges, and that no two options exclude each other."""
        super().check()
        is_several, names = self.images is not None, (self.image, *(self.images or ()))
        require("" not in names, "--image needs a path or a name")
        require(self.images != (), "--images needs a path or a name")
        require(self.stack != "on" or is_several, "--stack on is for several images: --images")
        require(
            self.stack != "on" or not self.live,
            "--live shows one image at a time; leave out --stack on",
        )
        require(
            self.num_parameters is None or self.width is None,
            "--parameters chooses the width; give one of the two",
        )
        require(
            self.num_parameters is None or self.max_resolution is None,
            "--parameters chooses the sizes of a grid; give it or --max-resolution",
        )
        defaults.check_encodings(self)
        unknown = [name for name in self.references or () if name not in REFERENCES]
        require(
            not unknown,
            f"--references: no reference {', '.join(unknown)}; known are {', '.join(REFERENCES)}",
        )

    def model(self, encoding: str) -> ImageModel:
        """Model for an encoding."""
        width, depth = recipes.get_recipe(encoding).layers
        assert self.num_bands is not None
        assert self.sigma != "auto"
        return ImageModel(
            encoding,
            self.network,
            self.width or width,
            self.depth or depth,
            self.num_bands,
            self.sigma,
            self.num_parameters,
            self.max_resolution,
        )


class ImageKind(Kind[ImageOptions]):
    """An image, with the pixels that are held out of the fit, if any."""

    name = "image"
    Options = ImageOptions
    about = ABOUT
    citations = CITATIONS

    def __init__(self, options: ImageOptions, image: Image | None = None) -> None:
        self.image = _opened(options) if image is None else image
        self.title, self.source = printable(self.image.name), printable(self.image.source)
        self.facts: dict[str, Any] = {"size": self.image.whole_size}
        self.num_rows = self.image.num_pixels
        if self.image.held_out is not None:
            self.evaluated_on = "held-out pixels"
            self.notes_on_data = [
                "every second pixel of every second row is fitted; the scores and images are those "
                "of the pixels between"
            ]
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

    def resolve(
        self, options: ImageOptions, device: torch.device, log: Callable[[str], None]
    ) -> ImageOptions:
        """Choose encodings, bands, sigma, steps and batches by the size of the image."""
        config, reason = defaults.resolve(options, self.image, device, log)
        if reason is not None:
            self.facts["auto"] = reason
        return config

    def measures(self, config: ImageOptions) -> Sequence[Measure]:
        """PSNR and SSIM, and what is stored within ``--parameters``."""
        return (PSNR, SSIM, *(STORAGE if config.num_parameters else ()))

    def build(self, encoding: str, config: ImageOptions, generator: torch.Generator) -> nn.Module:
        """An encoder, and a network that starts at the mean color."""
        encoder, network = make_image_model(
            config.model(encoding), self.image.resolution, generator=generator
        )
        if isinstance(network, MLP):
            network.start_at(self.image.mean_color())
        return nn.Sequential(encoder, network)

    def problem(self, model: nn.Module, encoding: str, config: ImageOptions) -> Problem:
        """Batches of shuffled pixels."""
        device = torch.device(config.device)
        batches = self._batches(config)
        encoder, network = model.children()
        draw_batch, forward = cache_corners(encoder_of(encoder), network, batches)
        held_out = defaults.held_out_recipe(encoding, config)
        lr = defaults.lr_for(encoding, config)
        dtype = defaults.dtype_for(encoding, config, device)
        previews = [self.image.evaluated.coordinates_at(*window) for window in self._windows]
        truth = self.image.evaluated.pixels
        resolution, size = self.image.resolution, self.image.whole_size
        return Problem(
            draw_batch=draw_batch,
            forward=forward,
            optimizer=self._optimizer(model, encoding, config),
            description=describe_image_fit(config.model(encoding), resolution, size),
            schedule=cosine_decay if held_out is None else constant,
            ema_decay=None if held_out is None else held_out.ema_decay,
            autocast_dtype=None if dtype == torch.float32 else dtype,
            compiled=config.compile,
            preview=lambda: [
                self._render(model, points, device, None if dtype == torch.float32 else dtype)
                for points in previews
            ],
            originals=[unit_range(truth[window]) for window in self._windows],
            details={"lr": lr, "precision": str(dtype).removeprefix("torch.")},
        )

    def _batches(self, config: ImageOptions) -> PixelBatches:
        assert config.batch_size is not None
        return PixelBatches(
            self.image, config.batch_size, seed=config.seed, device=torch.device(config.device)
        )

    def _optimizer(
        self,
        model: nn.Module,
        encoding: str,
        config: ImageOptions,
        matrices: Sequence[Tensor] | None = None,
    ) -> OptimizerGroup:
        held_out = defaults.held_out_recipe(encoding, config)
        assert config.optimizer != "auto"
        return recipes.make_optimizer(
            model,
            config.optimizer,
            defaults.lr_for(encoding, config),
            encoding=encoding,
            adam_lr=None if held_out is None else held_out.adam_lr,
            matrices=matrices,
        )

    @staticmethod
    def _render(
        model: nn.Module, points: Tensor, device: torch.device, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Values at coordinates ``(height, width, 2)``, computed in this type or in float32."""
        # Chunks that stay in a CPU's cache, at the number of rows that its matrix library likes.
        chunk_size = 2048 if device.type == "cpu" else 1 << 18
        with autocast(device, dtype):
            values = predict(model, points.reshape(-1, 2).to(device), chunk_size=chunk_size)
        return values.cpu().reshape(*points.shape[:2], 3)

    def reconstruct(
        self, model: nn.Module, device: torch.device, dtype: torch.dtype | None = None
    ) -> tuple[Tensor, float]:
        """Values of all evaluated pixels, of a large image in 8 bits, and their PSNR in dB."""
        image = self.image.evaluated
        if not image.is_large:
            values = self._render(model, image.coordinates, device)
            return values, psnr(values, image.rgb)
        # 8 bits are kept; the PSNR is that of the values before they are rounded.
        rounded, error = torch.empty(image.pixels.shape, dtype=torch.uint8), 0.0
        height = max(1, _STRIP_PIXELS // len(image.x))
        for rows in (slice(top, top + height) for top in range(0, len(image.y), height)):
            values = self._render(model, image.coordinates_at(rows, slice(None)), device, dtype)
            error += squared_error(values, image.pixels[rows])
            rounded[rows] = to_eight_bits(values)
        return rounded, psnr_from_mse(error / rounded.numel())

    @property
    def truth(self) -> Tensor:
        """All pixels that fits are evaluated on; as stored if they are many."""
        image = self.image.evaluated
        return image.pixels if image.is_large else image.rgb

    def evaluate(self, fit: Fit[ImageOptions]) -> Evaluation:
        """PSNR and SSIM, the reconstruction, the kernel and the forecast."""
        config, device = fit.config, torch.device(fit.config.device)
        dtype = fit.problem.autocast_dtype
        values, decibels = self.reconstruct(fit.model, device, dtype)
        scores = {PSNR.name: decibels, SSIM.name: ssim(values, self.truth)}
        if config.num_parameters is not None:
            for bits, label in ((16, "float16"), (8, "8bit")):
                rounded = quantize(fit.model, bits)
                scores[f"bpp_{label}"] = rounded.num_bits / math.prod(self.image.whole_size)
                scores[f"psnr_{label}_db"] = self.reconstruct(rounded.module, device, dtype)[1]
        if self.image.is_large:
            return_freed_memory()
        encoder = encoder_of(fit.model)
        view = View(self.title, self.truth, values, bands=frequency_bands(encoder))
        forecast = forecast_blocks(self.image, fit.encoding, config, values)
        return Evaluation(
            scores,
            [view, *kernel_curves(encoder), *forecast.curves],
            remarks=forecast.remarks,
            details=forecast.details,
        )

    def references(self, config: ImageOptions) -> Sequence[Result]:
        """Interpolations, and series in closed form."""
        return [reference_result(self, name, config) for name in config.references or ()]

    def plan(self, config: ImageOptions) -> str | None:
        """What the fits of more than a megapixel take."""
        is_planned = self.image.num_pixels > PLANNED_PIXELS and config.num_parameters is None
        return plan(self, config) if is_planned else None

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
        yield from notes_on_flat_fits(results, [self.truth], config)

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
    def stack_key(cls, config: ImageOptions) -> ImageOptions:
        """All of the configuration but the image, its file and its random frequencies."""
        return replace(config, image="", out=None, sigma=None)

    def stack(
        self, fits: Sequence[Fit[ImageOptions]], kinds: Sequence[Kind[ImageOptions]]
    ) -> tuple[nn.Module, Problem]:
        """Networks whose weights are stacked, each after its own encoder."""
        models = [fit.model for fit in fits]
        encoders, networks = zip(*(model.children() for model in models), strict=True)
        ensemble = Ensemble(networks, encoders)
        first = fits[0]
        matrices = [matrix for network in networks for matrix in hidden_matrices(network)]
        draws = [
            kind._batches(fit.config)
            for kind, fit in zip(kinds, fits, strict=True)
            if isinstance(kind, ImageKind)
        ]
        losses = MemberLosses(mse)
        problem = replace(
            first.problem,
            draw_batch=stacked_draws(draws),
            forward=None,
            optimizer=self._optimizer(ensemble, first.encoding, first.config, matrices),
            loss=losses,
            histories=losses,
            preview=lambda: [image for fit in fits for image in fit.problem.preview()],
        )
        return ensemble, problem

    @classmethod
    def relocated(cls, options: ImageOptions, found: Callable[[str], str]) -> ImageOptions:
        """Find the files from another folder."""
        images = None if options.images is None else tuple(map(found, options.images))
        return replace(options, image=found(options.image), images=images)

    @classmethod
    def render(cls, path: Path, device: torch.device, asked: Mapping[str, Any]) -> Rendered:
        """Render an image at any resolution, or a part of it."""
        for option in ("cameras", "turntable"):
            require(
                asked[option] is None, f"--{option} is for a scene; this is the fit of an image"
            )
        fit = load_fit(path, device=device)
        assert isinstance(fit, ImageFit)
        try:
            size = fit.rendered_size(asked["size"], window=asked["crop"])
        except ValueError as error:
            raise UsageError(f"--crop: {error}") from None
        strips = fit.strips(asked["size"], window=asked["crop"])
        return Rendered(size, f"{path.stem}-{size[0]}x{size[1]}", strips)

    @classmethod
    def exportable(cls, path: Path) -> Exportable:
        """A module from coordinates ``(n, 2)`` to RGB ``(n, 3)``."""
        fit = load_fit(path)
        assert isinstance(fit, ImageFit)
        return Exportable(fit.model, {"coordinates": torch.rand(8, 2) - 0.5}, ["rgb"])


def _opened(options: ImageOptions) -> Image:
    """Open the image of a run, reduced and split as the options say.

    Raises:
        UsageError: If it cannot be opened, or has no pixels to hold out.
    """
    try:
        whole = open_image(options.image, max_pixels=options.max_pixels)
        whole = whole if options.size is None else whole.resized(options.size)
        return whole.split_held_out() if options.held_out else whole
    except SceneError as error:
        raise UsageError(str(error)) from None
    except ValueError as error:
        raise UsageError(f"--held-out: {printable(options.image)}: {error}") from None
