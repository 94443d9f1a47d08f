"""Scans: a slice or volume that is only seen through its projections (computed tomography)."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Never

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.fits import CoordinateFit
from nerf_posenc.metrics.image import psnr, psnr_from_mse
from nerf_posenc.training.coordinate_model import CoordinateModel
from nerf_posenc.training.loop import predict
from nerf_posenc_app.data.arrays import shares
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.image_files import open_image
from nerf_posenc_app.data.reading.worker import read_file
from nerf_posenc_app.in_memory import InMemory
from nerf_posenc_app.kinds.coordinates import (
    CITATIONS,
    PSNR,
    SSIM,
    CoordinateKind,
    check_encodings,
    doubts_of_flat_fits,
    encoder_of,
    frequency_bands,
)
from nerf_posenc_app.kinds.kind import Fit, Problem, Rendered, digest_of
from nerf_posenc_app.options import Open, PixelOptions, Range, UsageError, require
from nerf_posenc_app.terminal import printable
from nerf_posenc_app.values.blocks import Evaluation, View
from nerf_posenc_app.values.finding import Doubt
from nerf_posenc_app.values.measures import Measure, TrainingScore
from nerf_posenc_app.values.results import Result
from nerf_posenc_kinds.slices import SLICES_PER_SECOND, gray, mean_ssim, reference, slice_blocks
from nerf_posenc_kinds.tomography import algebraic_reconstruction, back_projection

PHANTOM = "shepp-logan"

# Luma weights of Rec. 709, for color images.
_LUMA = (0.2126, 0.7152, 0.0722)
_REFERENCES = {"back-projection": back_projection, "sart": algebraic_reconstruction}
# Octaves between the last band and the side of a slice: from 20 projections of the phantom, one
# band more is 1 to 3 dB worse.
_OCTAVES_BELOW = 4
# Standard deviation of Gaussian frequencies, in cycles per unit; 3 is 1 to 3 dB worse.
_SIGMA = 4.0
# Peak learning rate; an image's is too high, 5 to 8 dB worse for networks without a grid.
_LR = 0.02
# Steps by the number of coordinates: a volume needs more.
_STEPS = {2: 500, 3: 1500}
# Samples of a batch of lines.
_SAMPLES = 1 << 15
# Samples along all lines, which take some 10 s, and slices.
_MOST_SAMPLES = 400_000_000
_MOST_SLICES = 1 << 13
_CHUNK = 8192
_PREVIEW_SIDE = 128


@dataclass(frozen=True, kw_only=True)
class ScanOptions(PixelOptions[Open]):
    """Reconstruct a slice or a volume from its projections.

    Encodings: none fourier gaussian hash; networks that need no encoding: siren finer gauss
    wire mfn.

      train_fit.py --scan slice.png --projections 40
    """

    scan: Annotated[str, InMemory] = PHANTOM
    """Gray image, .npy slice or volume with values in [0, 1], or shepp-logan, a built-in
    phantom."""

    projections: Annotated[int, Range(1, 10_000)] = 20
    """Number of parallel projections of each slice, evenly spaced over 180 degrees."""

    def check(self) -> None:
        """Check ranges, and that the encodings suit a scan."""
        check_encodings(self, "a scan")
        super().check()


ScanConfig = ScanOptions[Never]


class ScanKind(CoordinateKind[ScanConfig]):
    """Square slices in [-1, 1]^2, and the integrals along parallel lines through their disks.

    A slice of its own is a function of (x, y), and those of a volume are one of (x, y, z).

    Attributes:
        slices: their values, from the lowest z to the highest.
        integrals: mean value along each line, slice by slice.
    """

    name = "scan"
    Options = ScanOptions
    rendered_by = ("size", "scale", "rate")
    # Score of the line integrals, which says little about the slice.
    training = TrainingScore(
        Measure("projections_db", "PSNR of the projections", "dB"), psnr_from_mse
    )
    about = (
        "A scanner measures sums along lines through a slice, not the slice. With few "
        "projections many slices have the same sums, and the encoding decides which of them the "
        "network finds."
    )
    citations = CITATIONS

    def __init__(self, options: ScanOptions) -> None:
        self.slices, self.in_dim, self.notes_on_data = _opened(options)
        depth, self.side, _ = self.slices.shape
        self.title = printable(Path(options.scan).stem)
        is_phantom = options.scan == PHANTOM
        self.source = "the Shepp-Logan phantom" if is_phantom else printable(options.scan)
        self.size = (self.side, self.side, depth)[: self.in_dim]
        self.facts = {"size": self.size}
        self.radians = torch.arange(options.projections) * (math.pi / options.projections)
        normals = torch.tensor([[math.cos(a), -math.sin(a)] for a in self.radians.tolist()])
        offsets = pixel_centers(self.side).repeat(options.projections)
        plane = torch.cat([normals.repeat_interleave(self.side, dim=0), offsets[:, None]], dim=-1)
        # Each line has as many samples as the slice has pixels along a side.
        middles = torch.full((1, self.side), 0.5)
        self.integrals = torch.cat(
            [
                line_integrals(partial(_between, values), part, middles.expand(len(part), -1))
                for values in self.slices
                for part in plane.split(max(1, (1 << 20) // self.side))
            ]
        )
        # Over all lines the integrals' mean is that over the square around the disk.
        self.start = (self.integrals.mean() * 4 / math.pi).view(1)
        heights = slice_heights(depth, self.side).repeat_interleave(len(plane))[:, None]
        self.lines = torch.cat([plane.repeat(depth, 1), heights], dim=-1)[:, : self.in_dim + 1]

    def summary(self, config: ScanConfig) -> list[str]:
        """Source, size and number of projections."""
        of_each = " through each slice" if self.in_dim == 3 else ""
        return [
            f"scan     {self.source}, {' x '.join(map(str, self.size))}",
            f"lines    {config.projections} projections of {self.side} parallel lines{of_each}",
        ]

    def digest(self) -> str:
        """Checksum of the slices and their projections."""
        tensors = (self.slices, self.lines, self.integrals)
        return digest_of((tensor.shape, [tensor]) for tensor in tensors)

    def resolve(self, options: ScanOptions) -> ScanConfig:
        """Choose encodings, bands, sigma, steps and batches by the size of a slice."""
        # Few projections leave fine detail open, so fewer bands than for the slice itself.
        bands = max(1, math.floor(math.log2(self.side)) - _OCTAVES_BELOW)
        return self.with_defaults(
            options,
            steps=_STEPS[self.in_dim],
            batch_size=max(1, _SAMPLES // self.side),
            lr=_LR,
            num_bands=bands,
            sigma=_SIGMA,
        )

    def measures(self, config: ScanConfig) -> Sequence[Measure]:
        """PSNR of all pixels, which no fit has seen, and the mean SSIM of the slices."""
        return (PSNR, SSIM)

    def problem(
        self, model: nn.Module, description: CoordinateModel, config: ScanConfig
    ) -> Problem:
        """Batches of lines; the loss is on their integrals alone."""
        device = torch.device(config.device)
        lines, integrals = self.lines.to(device), self.integrals.to(device)
        size, side, seed = config.batch_size, self.side, config.seed

        def draw(step: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
            generator = torch.Generator(device).manual_seed(seed * 1_000_003 + step)
            rows = torch.randint(len(lines), (size,), generator=generator, device=device)
            # Samples are jittered within their bins, so that they cover all of a line over time.
            offsets = torch.rand(size, side, generator=generator, device=device)
            return (lines[rows], offsets), integrals[rows]

        middle, small = len(self.slices) // 2, min(_PREVIEW_SIDE, self.side)
        preview = _points(small, self.lines[middle * self._lines_of_slice, 3:])
        return self.trained(
            model,
            description,
            config,
            draw,
            forward=lambda batch: line_integrals(model, *batch),
            preview=lambda: [gray(_slice(model, preview.to(device)))],
            originals=[gray(_between(self.slices[middle], preview[:, :2]).view(small, small))],
        )

    @property
    def _lines_of_slice(self) -> int:
        return len(self.lines) // len(self.slices)

    def evaluate(self, fit: Fit[ScanConfig]) -> Evaluation:
        """PSNR and SSIM at the pixels, and slices; of a volume all of them, as a video."""
        encoder, device = encoder_of(fit.model), torch.device(fit.config.device)
        heights = self.lines[:: self._lines_of_slice, 3:]
        return self._scored(
            torch.stack([_slice(fit.model, _points(self.side, z).to(device)) for z in heights]),
            frequency_bands(encoder),
        )

    def _scored(
        self, values: Float[Tensor, "depth side side"], bands: Sequence[float] = ()
    ) -> Evaluation:
        truth = self.slices
        scores = {PSNR.name: psnr(values, truth), SSIM.name: mean_ssim(values, truth)}
        if self.in_dim == 2:
            return Evaluation(
                scores, [View(self.title, gray(truth[0]), gray(values[0]), bands=bands)]
            )
        middle = len(values) // 2
        return Evaluation(
            scores, [*slice_blocks(self.title, truth, values, shown=middle, bands=bands)]
        )

    def notes(self, results: Sequence[Result], config: ScanConfig) -> Iterator[Doubt]:
        """Name fits that are hardly better than one value in the disk."""
        inside = _is_inside(_points(self.side, self.lines[0, 3:])).view(self.side, self.side)
        flat = (inside * (self.slices.mean() / inside.float().mean())).expand_as(self.slices)
        return doubts_of_flat_fits(results, psnr(flat, self.slices), config)

    def references(self, config: ScanConfig) -> Mapping[str, Callable[[], Result]]:
        """Filtered back-projection and SART of the same projections, slice by slice."""
        # Convert means over the diameter to sums over pixels.
        sinograms = self.integrals.view(-1, config.projections, self.side) * self.side
        degrees = self.radians.rad2deg()

        def found(reconstruct: Callable[..., Tensor]) -> Float[Tensor, "depth side side"]:
            return torch.stack([reconstruct(each, degrees).clamp(0, 1) for each in sinograms])

        return {
            name: partial(reference, name, partial(found, reconstruct), self._scored)
            for name, reconstruct in _REFERENCES.items()
        }

    @classmethod
    def render(
        cls, fit: Any, path: Path, device: torch.device, given: Mapping[str, Any]
    ) -> Rendered:
        """Render a slice at any resolution, or all slices of a volume as frames."""
        assert isinstance(fit, CoordinateFit)
        side = given["size"] or max(1, round(fit.size[0] * (given["scale"] or 1.0)))
        heights = torch.empty(1, 0)
        if len(fit.size) == 3:
            depth = max(1, round(fit.size[2] * side / fit.size[0])) if fit.size[2] > 1 else 1
            heights = slice_heights(depth, side)[:, None]
        frames = (gray(_slice(fit.model, _points(side, z).to(device))) for z in heights)
        rate = given["rate"] or SLICES_PER_SECOND
        return Rendered((side, side), f"{path.stem}-{side}x{side}", frames, len(heights), rate)


def line_integrals(
    value_at: Callable[[Tensor], Tensor],
    lines: Float[Tensor, "lines _numbers"],
    offsets: Float[Tensor, "lines samples"],
) -> Float[Tensor, "lines 1"]:
    """Mean value along lines through the unit disk, over the length of its diameter.

    The line with the unit normal n at the offset s holds the points s n + t m for t in [-1, 1],
    where m is n rotated by 90 degrees. With n = (cos a, -sin a), in axes with y down, it is that of
    ``skimage.transform.radon`` at the angle a. The disk's outside is empty.

    Args:
        value_at: function from points ``(n, 2)``, or ``(n, 3)``, to values ``(n, 1)``.
        lines: unit normal and offset of each line, and in a volume the height of its slice.
        offsets: places of the samples in their bins along a line, in [0, 1].
    """
    normal_x, normal_y, offset, *height = lines.split(1, dim=-1)
    num_samples = offsets.shape[1]
    along = (torch.arange(num_samples, device=lines.device) + offsets) * (2 / num_samples) - 1
    x = offset * normal_x - along * normal_y
    y = offset * normal_y + along * normal_x
    inside = offset.square() + along.square() <= 1
    points = torch.stack([x, y, *(z.expand_as(x) for z in height)], dim=-1)
    values = value_at(points[inside])[:, 0].float()
    filled = torch.zeros_like(along).masked_scatter(inside, values)
    return filled.mean(-1, keepdim=True)


def pixel_centers(side: int) -> Float[Tensor, " side"]:
    """Positions of so many pixels across [-1, 1], of which number ``side // 2`` lies at 0.

    The scanner turns around a pixel, as in ``skimage.transform.radon``.
    """
    return (torch.arange(side) - side // 2) * (2 / side)


def slice_heights(depth: int, side: int) -> Float[Tensor, " depth"]:
    """Heights of a volume's slices: as far apart as pixels, or closer if there are more slices."""
    return (torch.arange(depth) - depth // 2) * (2 / max(depth, side))


def _points(side: int, height: Float[Tensor, " _heights"]) -> Float[Tensor, "pixels _axes"]:
    """Pixel centers of a slice, row by row, as (x, y), or at a height as (x, y, z)."""
    y, x = torch.meshgrid(pixel_centers(side), pixel_centers(side), indexing="ij")
    return torch.stack([x, y, *(z.expand_as(x) for z in height)], dim=-1).flatten(0, 1)


def _between(
    values: Float[Tensor, "side side"], points: Float[Tensor, "n 2"]
) -> Float[Tensor, "n 1"]:
    """A slice between its pixels, bilinearly."""
    # There, -1 and 1 are the edges of the image.
    grid = (points - pixel_centers(len(values)).mean()).view(1, 1, -1, 2)
    return F.grid_sample(values[None, None], grid, align_corners=False, padding_mode="border").view(
        -1, 1
    )


@torch.no_grad()
def _slice(model: nn.Module, points: Float[Tensor, "pixels _axes"]) -> Float[Tensor, "side side"]:
    """A slice that a model has; empty outside of the disk, which no line crosses."""
    values = predict(model, points, chunk_size=_CHUNK).float()
    side = math.isqrt(len(points))
    return (values * _is_inside(points)).clamp(0, 1).cpu().view(side, side)


def _is_inside(points: Float[Tensor, "pixels _axes"]) -> Bool[Tensor, "pixels 1"]:
    """Whether each point lies in the disk."""
    return points[:, :2].square().sum(-1, keepdim=True) <= 1


def _opened(options: ScanOptions) -> tuple[Float[Tensor, "depth side side"], int, tuple[str, ...]]:
    """Slices, square and empty outside of their disks; their number of coordinates, 2 or 3; notes.

    Raises:
        UsageError: If they cannot be opened.
    """
    name = options.scan
    if name == PHANTOM and not Path(name).exists():
        from skimage.data import shepp_logan_phantom

        values, notes = torch.from_numpy(shepp_logan_phantom()).float(), tuple[str, ...]()
        side = options.size or 512
    else:
        values, notes = _read(name, options.max_pixels)
        longer = max(values.shape[-2:])
        side = min(options.size or longer, longer)
    in_dim = values.ndim
    *_, height, width = values.shape
    require(values.numel() > 0, f"--scan {name} is empty")
    require(min(height, width) >= 8, f"--scan {name} has {width} x {height} pixels; 8 are needed")
    require(side >= 8, f"--size must be 8 or more for a scan; got {side}")
    depth = max(1, round(len(values) * side / max(height, width))) if in_dim == 3 else 1
    count = depth * options.projections * side**2
    require(
        depth <= _MOST_SLICES and count <= _MOST_SAMPLES,
        f"--scan {name}: {options.projections} projections of {depth:,} x {side} x {side} pixels "
        f"take {count:,} samples; the limits are {_MOST_SAMPLES:,} samples and {_MOST_SLICES:,} "
        "slices; give a smaller --size or fewer --projections",
    )
    # Centered in a square of its longer side.
    longer = max(height, width)
    top, left = (longer - height) // 2, (longer - width) // 2
    values = F.pad(values, (left, longer - width - left, top, longer - height - top))
    shape = [max(1, round(len(values) * side / longer))] * (in_dim - 2) + [side, side]
    smooth = "trilinear" if in_dim == 3 else "bilinear"
    values = F.interpolate(
        values[None, None], shape, mode="area" if side < longer else smooth
    ).view(-1, side, side)
    values = values * _is_inside(_points(side, torch.empty(0))).view(side, side)
    require(
        bool(values.any()), f"--scan {name} is 0 everywhere in its disk; there is nothing to fit"
    )
    return values, in_dim, notes


def _read(
    name: str, max_pixels: int
) -> tuple[Float[Tensor, "*slices height width"], tuple[str, ...]]:
    """A gray image, or an array of values in [0, 1], and notes on it.

    Raises:
        UsageError: If there is none.
    """
    try:
        if isinstance(name, InMemory):
            array = shares(name.values, "a scan")
            require(array.ndim in (2, 3), f"--scan must have 2 or 3 axes; got {array.shape}")
            return torch.from_numpy(array), ()
        if name.lower().endswith(".npy"):
            values = read_file("nerf_posenc_kinds.data.arrays:read_array", Path(name), max_pixels)
            return torch.from_numpy(values), ()
        # Transparent pixels are empty.
        image = open_image(name, max_pixels=max_pixels, background=0.0)
    except SceneError as error:
        raise UsageError(f"--scan: {error}") from None
    return (image.rgb * torch.tensor(_LUMA)).sum(-1), image.notes
