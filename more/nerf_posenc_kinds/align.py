"""Alignment: an image, and patches of it that unknown homographies have displaced."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.encoder import Encoder
from nerf_posenc.core.grids import grid_positions
from nerf_posenc.images import unit_range
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.training.batches import ShuffledRows
from nerf_posenc.training.coordinate_model import CoordinateModel
from nerf_posenc.training.loop import FitState, mse
from nerf_posenc.training.optimizers import OptimizerGroup
from nerf_posenc_app.kinds.coordinates import (
    PSNR,
    CoordinateKind,
    check_encodings,
    suiting_encodings,
    with_defaults,
)
from nerf_posenc_app.kinds.kind import Fit, Problem, digest_of
from nerf_posenc_app.options import PixelOptions, Range, require
from nerf_posenc_app.terminal import printable
from nerf_posenc_app.values.blocks import Curve, Evaluation, View
from nerf_posenc_app.values.finding import Doubt
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result
from scenes.image_files import open_image

ERROR = Measure(
    "warp_error",
    "warp error",
    "",
    4,
    higher_is_better=False,
    meaning=(
        "Mean Euclidean distance between the found and the true homographies of the patches, "
        "each as 8 numbers of sl(3), as in BARF"
    ),
)
PATCH_PSNR = Measure(
    "patch_psnr_db", "PSNR of the patches", "dB", 2, meaning="-10 log10(MSE) over the patches"
)

_DEFAULT = ("none", "fourier", "fourier-eased")
# Fits that open an encoding from coarse to fine, and the encoding of each.
_EASED = {f"{encoding}-eased": encoding for encoding in ("fourier", "hash")}
# Share of the fit until which patches are only shifted, by all of their points: with all eight
# numbers free from the start, most seeds leave a patch in a wrong place (more/docs/experiments.md).
_SHIFTED = 0.2
# Share of the fit until which patches bend without perspective, which a blur does not determine.
_BENT = 0.5
# Shares of the fit between which an encoding is eased in; learning rates fall from then on.
_OPEN_FROM = 0.1
_OPEN_TO = 0.7
# Share of an eased fit until which its patches are blurred (Cheng et al. 2024, section 4.3).
_SHARP_FROM = 0.5
# Standard deviation of the first blur, as a share of a patch's side.
_BLUR = 0.2
# Blurs, each half as wide as the one before.
_NUM_BLURS = 7
_LR = 0.01
# Learning rate of the homographies times the steps of the fit: how far they may travel.
_TRAVEL = 1.5
_NUM_PATCHES = 5
_PREVIEW_SIDE = 192
_CHUNK = 1 << 14
_COLORS = ((0.9, 0.1, 0.1), (0.2, 0.6, 1.0), (0.6, 0.2, 0.9), (1.0, 0.8, 0.1), (0.1, 0.8, 0.2))


@dataclass(frozen=True, kw_only=True)
class AlignOptions(PixelOptions):
    """Fit an image and the unknown positions of its patches.

    Encodings: none fourier gaussian hash; the encodings fourier-eased and hash-eased open from
    coarse to fine.

    Example: train_fit.py --align photo.jpg
    """

    align: str = "cat"
    """Image file or bundled image."""

    disturbance: Annotated[float, Range(0, 0.5)] = 0.1
    """Standard deviation of the unknown homographies in sl(3); shifts have twice as much."""

    def check(self) -> None:
        """Check ranges, and that the encodings suit an image."""
        suiting = [*suiting_encodings(), *_EASED]
        names = [_EASED.get(name, name) for name in self.encodings or _DEFAULT]
        check_encodings(self, "an alignment", suiting=suiting, built=names)
        super().check()


class AlignedImage(nn.Module):
    """A network of an image, and the homographies that move patches over it.

    Args:
        encoder: encoder of coordinates.
        network: network from its features to RGB.
        reach: coordinates of the corner of a patch.
        is_eased: whether the encoding opens from coarse to fine.
    """

    progress: Tensor
    reach: Tensor

    def __init__(
        self, encoder: nn.Module, network: nn.Module, reach: Float[Tensor, " 2"], *, is_eased: bool
    ) -> None:
        super().__init__()
        self.field = nn.Sequential(encoder, network)
        self.register_buffer("reach", reach)
        self.is_eased = is_eased
        self.warps = nn.Parameter(torch.zeros(_NUM_PATCHES - 1, 8))
        # Saved with the fit, so that a resumed fit continues from here.
        self.register_buffer("progress", torch.zeros(()))

    def homographies(self) -> Float[Tensor, "patches 8"]:
        """Numbers of sl(3) of all patches, of which the first is fixed at the identity."""
        # Shifts come first, and perspective last: the optimizer moves all numbers alike, and what
        # a blurred image does not determine wanders off.
        is_free = torch.ones_like(self.warps)
        is_free[:, 2:6] = (self.progress >= _SHIFTED).to(is_free)
        is_free[:, 6:] = (self.progress >= _BENT).to(is_free)
        return torch.cat([self.warps.new_zeros(1, 8), self.warps * is_free])

    def forward(self, batch: tuple[Tensor, Tensor]) -> Float[Tensor, "n 3"]:
        """RGB of points of patches: coordinates ``(n, 2)`` and numbers of the patches ``(n,)``."""
        points, patches = batch
        with torch.autocast(points.device.type, enabled=False):
            homographies = self.homographies()
            placed = warped(points, homographies, patches)
            # What a single patch shows, the network has learned from it: it holds the patch where
            # it is, so that none runs away while all are shifted. Then each moves by what others
            # show too.
            is_shared = self._num_showing(placed.detach(), homographies.detach()) >= 2
            moves = is_shared | (self.progress < _SHIFTED)
            placed = torch.where(moves[:, None], placed, placed.detach())
        return self.rgb(placed)

    def _num_showing(
        self, placed: Float[Tensor, "n 2"], homographies: Float[Tensor, "patches 8"]
    ) -> Int[Tensor, " n"]:
        """Number of the patches that each point of the image lies in."""
        count = torch.zeros(len(placed), dtype=torch.long, device=placed.device)
        for i in range(_NUM_PATCHES):
            within = warped(placed, -homographies, torch.full_like(count, i))
            count += (within.abs() <= self.reach).all(-1)
        return count

    def rgb(self, points: Float[Tensor, "n 2"]) -> Float[Tensor, "n 3"]:
        """RGB at points of the image."""
        encoder, network = self.field
        progress = (self.progress - _OPEN_FROM) / (_OPEN_TO - _OPEN_FROM)
        features = encoder(points, progress=progress) if self.is_eased else encoder(points)
        values: Tensor = network(features)
        return values


class AlignKind(CoordinateKind[AlignOptions]):
    """Five patches of an image, half its height, of which four are displaced."""

    name = "align"
    Options = AlignOptions
    in_dim, out_dim = 2, 3
    about = (
        "The network learns the image and the positions of its patches at once. The positions "
        "follow the gradient of the learned image. On raw coordinates that image is a blur; with "
        "all bands at once the gradient points to the nearest stripe; from coarse to fine it "
        "leads to the right position."
    )
    citations = (
        "@inproceedings{lin2021barf, title={BARF: Bundle-Adjusting Neural Radiance Fields}, "
        "author={Lin, Chen-Hsuan and Ma, Wei-Chiu and Torralba, Antonio and Lucey, Simon}, "
        "booktitle={ICCV}, year={2021}}",
        "@inproceedings{cheng2024joint, title={Improving Robustness for Joint Optimization of "
        "Camera Poses and Decomposed Low-Rank Tensorial Radiance Fields}, author={Cheng, Bo-Yu and "
        "Chiu, Wei-Chen and Liu, Yu-Lun}, booktitle={AAAI}, year={2024}}",
    )

    def __init__(self, options: AlignOptions) -> None:
        image = open_image(options.align, max_pixels=options.max_pixels)
        image = image if options.size is None else image.resized(options.size)
        self.image = unit_range(image.pixels).float()
        height, width, _ = self.image.shape
        require(
            min(height, width) >= 32, f"--align {options.align}: at least 32 x 32 pixels are needed"
        )
        self.title, self.source = printable(image.name), printable(image.source)
        self.notes_on_data = image.notes
        self.size = width, height
        self.facts = {"size": self.size}
        side = min(height, width) // 2
        generator = torch.Generator().manual_seed(options.seed)
        self.grid = self._grid(side, side)
        self.truth = self._disturbed(options.disturbance, generator)
        self.points = self.grid.repeat(_NUM_PATCHES, 1)
        self.patches = torch.arange(_NUM_PATCHES).repeat_interleave(len(self.grid))
        self.values = self._image_at(warped(self.points, self.truth, self.patches))

    def _grid(self, width: int, height: int) -> Float[Tensor, "pixels 2"]:
        """Pixel centers in the middle of the image, row by row; the longer side spans [-1, 1]."""
        share = max(width, height) / max(self.size)
        return share * grid_positions((height, width), units="longer", xy=True).view(-1, 2)

    def _edges(self) -> Float[Tensor, " 2"]:
        """Coordinates of the right and the lower edge."""
        return torch.tensor(self.size) / max(self.size)

    def _image_at(self, points: Float[Tensor, "n 2"]) -> Float[Tensor, "n 3"]:
        """The image between its pixels, bilinearly."""
        places = (points / self._edges())[None, None]
        pixels = self.image.permute(2, 0, 1)[None]
        return F.grid_sample(pixels, places, align_corners=False)[0, :, 0].T

    def _disturbed(self, size: float, generator: torch.Generator) -> Float[Tensor, "patches 8"]:
        """Homographies of BARF's experiment: noise, and a shift into each of four directions.

        Those that would leave the image are drawn again.
        """
        signs = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
        corners = signs * self.grid.amax(0)
        warps = [torch.zeros(8)]
        for sign in signs:
            shift = 2 * size * torch.cat([sign, torch.zeros(6)])
            for attempt in range(1000):
                # Try smaller and smaller displacements if the image leaves no room.
                drawn = size * torch.randn(8, generator=generator) + shift
                drawn *= 0.99 ** (attempt // 20)
                placed = warped(corners, drawn[None], torch.zeros(4, dtype=torch.long))
                if bool((placed.abs() <= self._edges()).all()):
                    break
            warps.append(drawn)
        return torch.stack(warps)

    def summary(self, config: AlignOptions) -> list[str]:
        """Source and size, and what is unknown."""
        width, height = self.size
        side = math.isqrt(len(self.grid))
        return [
            f"image    {self.source}, {width} x {height}",
            f"patches  {_NUM_PATCHES} of {side} x {side}, {_NUM_PATCHES - 1} of them displaced by "
            f"{float(self.truth[1:].norm(dim=-1).mean()):.2f} on average",
        ]

    def digest(self) -> str:
        """Checksum of the patches and their true places."""
        tensors = (self.image, self.truth, self.values)
        return digest_of((tensor.shape, [tensor]) for tensor in tensors)

    def resolve(self, options: AlignOptions) -> AlignOptions:
        """Choose encodings, bands, sigma, steps and batches."""
        return with_defaults(
            options,
            encodings=_DEFAULT,
            width=128,
            steps=1500,
            batch_size=4096,
            lr=_LR,
            num_bands=8,
            sigma=3.0,
        )

    def measures(self, config: AlignOptions) -> Sequence[Measure]:
        """Where the patches are, and how well they and the image are reconstructed."""
        return (ERROR, PATCH_PSNR, PSNR)

    def model(self, name: FitName, config: AlignOptions) -> CoordinateModel:
        """Model of a fit, whether eased or not."""
        return super().model(FitName(_EASED.get(name.encoding, name.encoding)), config)

    def build(
        self, name: FitName, config: AlignOptions, generator: torch.Generator
    ) -> tuple[nn.Module, CoordinateModel]:
        """An encoder and a network, with the homographies."""
        field, model = super().build(name, config, generator)
        encoder, network = field.children()
        reach = self.grid.amax(0)
        return AlignedImage(encoder, network, reach, is_eased=name.encoding in _EASED), model

    def problem(
        self, model: nn.Module, description: CoordinateModel, config: AlignOptions
    ) -> Problem:
        """Batches of shuffled pixels of all patches."""
        assert isinstance(model, AlignedImage)
        device = torch.device(config.device)
        points, patches, values = (
            part.to(device) for part in (self.points, self.patches, self.values)
        )
        rows = ShuffledRows(len(points), config.batch_size, seed=config.seed, device=device)

        targets = [*self._blurred_values(), values] if model.is_eased else [values]
        steps_of_a_blur = max(1, round(_SHARP_FROM * config.steps / _NUM_BLURS))

        def draw(step: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
            chosen, target = rows(step), targets[min(step // steps_of_a_blur, len(targets) - 1)]
            return (points[chosen], patches[chosen]), target.to(device)[chosen]

        def after_step(state: FitState) -> None:
            model.progress.fill_(state.step / state.num_steps)

        side = min(1.0, _PREVIEW_SIDE / max(self.size))
        preview = round(self.size[0] * side), round(self.size[1] * side)
        problem = self.trained(
            model.field,
            description,
            config,
            draw,
            forward=model,
            after_step=after_step,
            schedule=held_cosine,
            preview=lambda: [self._outlined(model, self._rendered(model, preview))],
            originals=[self._outlined(self.truth, self._shown(preview))],
        )
        warps = torch.optim.Adam([model.warps], lr=_TRAVEL / config.steps)
        group = OptimizerGroup([*problem.optimizer.optimizers, warps])
        return replace(problem, optimizer=group, description={})

    def _blurred_values(self) -> list[Float[Tensor, "points 3"]]:
        """The patches' values, blurred within each patch less and less."""
        from scipy.ndimage import gaussian_filter

        side = math.isqrt(len(self.grid))
        patches = self.values.view(_NUM_PATCHES, side, side, 3).numpy()
        sigmas = [_BLUR * side * 2.0**-level for level in range(_NUM_BLURS)]
        blurred = [gaussian_filter(patches, sigma, axes=(1, 2)) for sigma in sigmas]
        return [torch.from_numpy(values).reshape(-1, 3) for values in blurred]

    def _rendered(self, model: AlignedImage, size: tuple[int, int]) -> Float[Tensor, "h w 3"]:
        """The image that a model has, all of it."""
        width, height = size
        points = self._whole(size).to(model.warps.device)
        with torch.no_grad():
            parts = [model.rgb(part).float() for part in points.split(_CHUNK)]
        return torch.cat(parts).clamp(0, 1).view(height, width, 3).cpu()

    def _whole(self, size: tuple[int, int]) -> Float[Tensor, "pixels 2"]:
        """Pixel centers of the whole image at a size."""
        width, height = size
        right, bottom = self._edges().tolist()
        x = ((torch.arange(width) + 0.5) * (2 / width) - 1) * right
        y = ((torch.arange(height) + 0.5) * (2 / height) - 1) * bottom
        return torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1).reshape(-1, 2)

    def _shown(self, size: tuple[int, int]) -> Float[Tensor, "h w 3"]:
        return self._image_at(self._whole(size)).view(size[1], size[0], 3).clamp(0, 1)

    def _outlined(
        self, model: AlignedImage | Tensor, image: Float[Tensor, "h w 3"]
    ) -> Float[Tensor, "h w 3"]:
        """An image with the borders of the patches, each in a color of its own."""
        warps = model if isinstance(model, Tensor) else model.homographies().detach().cpu()
        drawn = image.clone()
        height, width, _ = image.shape
        along = torch.linspace(-1, 1, 400)[:, None]
        reach = self.grid.amax(0)
        ends = torch.ones_like(along)
        border = torch.cat(
            [
                torch.cat([along, ends], -1),
                torch.cat([along, -ends], -1),
                torch.cat([ends, along], -1),
                torch.cat([-ends, along], -1),
            ]
        )
        for i, color in enumerate(_COLORS):
            patches = torch.full((len(border),), i)
            placed = warped(border * reach, warps, patches) / self._edges()
            x = ((placed[:, 0] + 1) / 2 * width).floor().long()
            y = ((placed[:, 1] + 1) / 2 * height).floor().long()
            inside = (x >= 0) & (x < width - 1) & (y >= 0) & (y < height - 1)
            for right, down in ((0, 0), (1, 0), (0, 1), (1, 1)):
                drawn[y[inside] + down, x[inside] + right] = torch.tensor(color)
        return drawn

    @torch.no_grad()
    def evaluate(self, fit: Fit[AlignOptions]) -> Evaluation:
        """Error of the homographies, PSNR of patches and image, and where the patches ended."""
        model = fit.model
        assert isinstance(model, AlignedImage)
        device = model.warps.device
        errors = (model.homographies().cpu() - self.truth).norm(dim=-1)
        total = 0.0
        parts = zip(
            self.points.split(_CHUNK),
            self.patches.split(_CHUNK),
            self.values.split(_CHUNK),
            strict=True,
        )
        for points, patches, values in parts:
            predicted = model((points.to(device), patches.to(device))).float().clamp(0, 1).cpu()
            total += float((predicted - values).double().square().sum())
        height, width, _ = self.image.shape
        image = self._rendered(model, (width, height))
        scores = {
            ERROR.name: float(errors.mean()),
            PATCH_PSNR.name: psnr_from_mse(total / self.values.numel()),
            PSNR.name: psnr_from_mse(float(mse(image, self.image))),
        }
        places = self._outlined(self.truth, self.image), self._outlined(model, image)
        views = [
            View(self.title, self.image, image),
            View(f"{self.title}, positions of the patches", *places),
        ]
        curve = Curve(
            "Error of each patch",
            "patch (0 is fixed)",
            "distance in sl(3)",
            list(range(_NUM_PATCHES)),
            errors.tolist(),
        )
        encoder = model.field[0]
        assert isinstance(encoder, Encoder)
        return Evaluation(scores, [*views, curve])

    def notes(self, results: Sequence[Result], config: AlignOptions) -> Iterator[str | Doubt]:
        """Say how far the patches were in the beginning, and name fits that left them there."""
        start = float(self.truth.norm(dim=-1).mean())
        yield f"the warp error, a mean over all patches, was {start:.4f} at the start"
        for fit in results:
            if fit.is_complete and fit.scores[ERROR.name] > start / 2 > 0:
                error = fit.scores[ERROR.name]
                reason = (
                    f"did not find the patches (warp error {error:.4f}; {start:.4f} at the start)"
                )
                yield Doubt(fit.name, reason)


def held_cosine(progress: float) -> float:
    """Factor of the learning rates: 1 until the encoding is open, then half a cosine to 0."""
    rest = max(0.0, (progress - _OPEN_TO) / (1 - _OPEN_TO))
    return 0.5 * (1 + math.cos(math.pi * rest))


def warped(
    points: Float[Tensor, "n 2"],
    homographies: Float[Tensor, "patches 8"],
    patches: Int[Tensor, " n"],
) -> Float[Tensor, "n 2"]:
    """Points of patches moved by the exponential of each patch's element of sl(3).

    The eight numbers h1 ... h8 are the trace-free matrix ((h5, h3, h1), (h4, -h5 - h6, h2),
    (h7, h8, h6)), as in BARF: shifts first, perspective last.

    Args:
        points: coordinates within the patches.
        homographies: eight numbers for each patch.
        patches: number of each point's patch.
    """
    h1, h2, h3, h4, h5, h6, h7, h8 = homographies.unbind(-1)
    rows = torch.stack([h5, h3, h1, h4, -h5 - h6, h2, h7, h8, h6], dim=-1)
    # With plain indexing, threads would sum the gradient in any order.
    matrices = torch.matrix_exp(rows.view(-1, 3, 3)).index_select(0, patches)
    x, y, w = (
        matrices[:, i, 0] * points[:, 0] + matrices[:, i, 1] * points[:, 1] + matrices[:, i, 2]
        for i in range(3)
    )
    return torch.stack([x, y], dim=-1) / w[:, None]
