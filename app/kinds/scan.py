"""Scans: a slice that is only seen through its projections, as in computed tomography."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from app.kinds.coordinates import (
    CITATIONS,
    PSNR,
    SSIM,
    CoordinateKind,
    encoder_of,
    frequency_bands,
    kernel_curves,
    require_effect,
    require_encodings,
    suiting_encodings,
    with_defaults,
)
from app.kinds.kind import Evaluation, Fit, Problem, Rendered, Result, View, digest_of
from app.options import PixelOptions, Range, UsageError, require
from app.terminal import printable
from baselines.tomography import algebraic_reconstruction, back_projection
from nerf_posenc.fits import CoordinateFit, load_fit
from nerf_posenc.metrics.image import psnr, ssim
from nerf_posenc.training.loop import predict
from nerf_posenc.training.results import Measure
from scenes import SceneError, open_image

PHANTOM = "shepp-logan"

# Rec. 709, for color images.
_LUMA = (0.2126, 0.7152, 0.0722)
_REFERENCES = {"back-projection": back_projection, "sart": algebraic_reconstruction}
# Octaves between the last band and the side, and cycles per unit. From 20 projections of the
# phantom, one more band and a sigma of 3 are 1 to 3 dB worse.
_OCTAVES_BELOW, _SIGMA = 4, 4.0
# Peak learning rate; an image's is too high, 5 to 8 dB worse for networks without a grid.
_LR = 0.02
# Samples of a batch of lines.
_SAMPLES = 1 << 15
_CHUNK = 8192
_PREVIEW_SIDE = 128


@dataclass(frozen=True, kw_only=True)
class ScanOptions(PixelOptions):
    """Fit a slice that is seen through its projections."""

    scan: str = PHANTOM
    """Gray image or .npy slice of values in [0, 1]; or shepp-logan, the phantom."""

    projections: Annotated[int, Range(1, 10_000)] = 20
    """Parallel projections, at equal angles over half a turn."""

    def check(self) -> None:
        """Check ranges, and that the encodings suit a plane."""
        super().check()
        require_encodings(self, suiting_encodings(), "a scan")
        require_effect(self, self.encodings or ("none", "fourier", "hash"))


class ScanKind(CoordinateKind[ScanOptions]):
    """A square slice in [-1, 1]^2, and the integrals along parallel lines through its disk."""

    name = "scan"
    Options = ScanOptions
    rendered_by = ("size", "scale")
    in_dim = 2
    about = (
        "A scanner does not see a slice but the sums along lines through it. With few projections "
        "many slices have the same sums, and the encoding decides which of them the network finds."
    )
    citations = CITATIONS

    def __init__(self, options: ScanOptions) -> None:
        self.slice = _opened(options)
        self.side = len(self.slice)
        self.title = printable(Path(options.scan).stem)
        is_phantom = options.scan == PHANTOM
        self.source = "the Shepp-Logan phantom" if is_phantom else printable(options.scan)
        self.size = self.side, self.side
        self.facts = {"size": self.size}
        self.radians = torch.arange(options.projections) * (math.pi / options.projections)
        normals = torch.tensor([[math.cos(a), -math.sin(a)] for a in self.radians.tolist()])
        offsets = pixel_centers(self.side).repeat(options.projections)
        self.lines = torch.cat(
            [normals.repeat_interleave(self.side, dim=0), offsets[:, None]], dim=-1
        )
        # Along each line as many samples as the slice has pixels.
        middles = torch.full((self.side,), 0.5)
        self.integrals = torch.cat(
            [
                line_integrals(self._value_at, part, middles.expand(len(part), -1))
                for part in self.lines.split(max(1, (1 << 20) // self.side))
            ]
        )

    def _value_at(self, points: Float[Tensor, "n 2"]) -> Float[Tensor, "n 1"]:
        """The slice between its pixels, bilinearly."""
        # There, -1 and 1 are the edges of the image.
        grid = (points - pixel_centers(self.side).mean()).view(1, 1, -1, 2)
        return F.grid_sample(
            self.slice[None, None], grid, align_corners=False, padding_mode="border"
        ).view(-1, 1)

    def summary(self, config: ScanOptions) -> list[str]:
        """Source, size and number of projections."""
        return [
            f"scan     {self.source}, {self.side} x {self.side}",
            f"lines    {config.projections} projections of {self.side} parallel lines",
        ]

    def digest(self) -> str:
        """Checksum of the slice and its projections."""
        tensors = (self.slice, self.lines, self.integrals)
        return digest_of((tensor.shape, [tensor]) for tensor in tensors)

    def resolve(
        self, options: ScanOptions, device: torch.device, log: Callable[[str], None]
    ) -> ScanOptions:
        """Choose encodings, bands, sigma, steps and batches by the size of the slice."""
        # What few projections do not tell is left smooth: fewer bands than for the slice itself.
        bands = max(1, math.floor(math.log2(self.side)) - _OCTAVES_BELOW)
        return with_defaults(
            options,
            encodings=("none", "fourier", "hash"),
            steps=500,
            batch_size=max(1, _SAMPLES // self.side),
            lr=_LR,
            num_bands=bands,
            sigma=_SIGMA,
        )

    def measures(self, config: ScanOptions) -> Sequence[Measure]:
        """PSNR and SSIM of the slice, which no fit has seen."""
        return (PSNR, SSIM)

    def problem(self, model: nn.Module, encoding: str, config: ScanOptions) -> Problem:
        """Batches of lines; the loss is on their integrals alone."""
        assert config.batch_size
        device = torch.device(config.device)
        lines, integrals = self.lines.to(device), self.integrals.to(device)
        size, side, seed = config.batch_size, self.side, config.seed

        def draw(step: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
            generator = torch.Generator(device).manual_seed(seed * 1_000_003 + step)
            rows = torch.randint(len(lines), (size,), generator=generator, device=device)
            # Samples jittered within their bins see all of a line in the end.
            offsets = torch.rand(size, side, generator=generator, device=device)
            return (lines[rows], offsets), integrals[rows]

        preview = _grid(min(_PREVIEW_SIDE, self.side)).to(device)
        return self.trained(
            model,
            encoding,
            config,
            draw,
            forward=lambda batch: line_integrals(model, *batch),
            preview=lambda: [_as_image(model, preview)],
            originals=[_rgb(self._value_at(_grid(min(_PREVIEW_SIDE, self.side))))],
        )

    def evaluate(self, fit: Fit[ScanOptions]) -> Evaluation:
        """PSNR and SSIM of the slice at its pixels, and the slice."""
        encoder = encoder_of(fit.model)
        values = _as_image(fit.model, _grid(self.side).to(fit.config.device))
        found = self._scored(values)
        view = replace(found.blocks[0], bands=frequency_bands(encoder))
        return replace(found, blocks=[view, *kernel_curves(encoder)])

    def _scored(self, values: Float[Tensor, "height width 3"]) -> Evaluation:
        truth = _rgb(self.slice.view(-1, 1))
        scores = {PSNR.name: psnr(values, truth), SSIM.name: ssim(values, truth)}
        return Evaluation(scores, [View(self.title, truth, values)])

    def references(self, config: ScanOptions) -> Sequence[Result]:
        """Filtered back-projection and SART of the same projections."""
        # Sums over pixels, where the integrals are means over the diameter.
        sinogram = self.integrals.view(config.projections, self.side) * self.side
        degrees = self.radians.rad2deg()
        results = []
        for name, reconstruct in _REFERENCES.items():
            started = time.perf_counter()
            values = reconstruct(sinogram, degrees).clamp(0, 1)
            seconds = time.perf_counter() - started
            evaluation = self._scored(_rgb(values.reshape(-1, 1)))
            results.append(
                Result(encoding=name, seconds=seconds, evaluation=evaluation, is_reference=True)
            )
        return results

    @classmethod
    def render(cls, path: Path, device: torch.device, asked: Mapping[str, Any]) -> Rendered:
        """Render a slice at any resolution."""
        fit = load_fit(path, device=device)
        assert isinstance(fit, CoordinateFit)
        side = asked["size"] or max(1, round(fit.size[0] * (asked["scale"] or 1.0)))
        image = _as_image(fit.model, _grid(side).to(device))
        return Rendered((side, side), f"{path.stem}-{side}x{side}", iter([image]))


def line_integrals(
    value_at: Callable[[Tensor], Tensor],
    lines: Float[Tensor, "lines 3"],
    offsets: Float[Tensor, "lines samples"],
) -> Float[Tensor, "lines 1"]:
    """Mean value along lines through the unit disk, over the length of its diameter.

    The line with the unit normal n at the offset s holds the points s n + t m for t in [-1, 1],
    where m is n rotated by 90 degrees. With n = (cos a, -sin a), in axes with y down, it is that of
    ``skimage.transform.radon`` at the angle a. The disk's outside is empty.

    Args:
        value_at: function from points ``(n, 2)`` to values ``(n, 1)``.
        lines: unit normal and offset of each line.
        offsets: places of the samples in their bins along a line, in [0, 1].
    """
    normal_x, normal_y, offset = lines.split(1, dim=-1)
    num_samples = offsets.shape[1]
    along = (torch.arange(num_samples, device=lines.device) + offsets) * (2 / num_samples) - 1
    x = offset * normal_x - along * normal_y
    y = offset * normal_y + along * normal_x
    inside = offset.square() + along.square() <= 1
    values = value_at(torch.stack([x, y], dim=-1)[inside])[:, 0].float()
    filled = torch.zeros_like(along).masked_scatter(inside, values)
    return filled.mean(-1, keepdim=True)


def pixel_centers(side: int) -> Float[Tensor, " side"]:
    """Positions of so many pixels across [-1, 1], of which number ``side // 2`` lies at 0.

    The scanner turns around a pixel, as in ``skimage.transform.radon``.
    """
    return (torch.arange(side) - side // 2) * (2 / side)


def _grid(side: int) -> Float[Tensor, "pixels 2"]:
    """Pixel centers of a square image, row by row, as (x, y)."""
    y, x = torch.meshgrid(pixel_centers(side), pixel_centers(side), indexing="ij")
    return torch.stack([x, y], dim=-1).view(-1, 2)


def _rgb(values: Float[Tensor, "pixels 1"]) -> Float[Tensor, "side side 3"]:
    side = math.isqrt(len(values))
    return values.view(side, side, 1).expand(-1, -1, 3)


@torch.no_grad()
def _as_image(model: nn.Module, points: Float[Tensor, "pixels 2"]) -> Float[Tensor, "side side 3"]:
    """The slice that a model has; empty outside of the disk, which no line crosses."""
    values = predict(model, points, chunk_size=_CHUNK).float()
    return _rgb((values * (points.square().sum(-1, keepdim=True) <= 1)).clamp(0, 1).cpu())


def _opened(options: ScanOptions) -> Float[Tensor, "side side"]:
    """The slice, square and empty outside of its disk.

    Raises:
        UsageError: If it cannot be opened.
    """
    name = options.scan
    if name == PHANTOM and not Path(name).exists():
        from skimage.data import shepp_logan_phantom

        values = torch.from_numpy(shepp_logan_phantom()).float()
        side = options.size or 512
    else:
        values = _read(name, options.max_pixels)
        side = min(options.size or max(values.shape), max(values.shape))
    height, width = values.shape
    require(min(height, width) >= 8, f"--scan {name} has {width} x {height} pixels; 8 are needed")
    require(bool(values.any()), f"--scan {name} is 0 everywhere, and there is nothing to find")
    # Centered in a square of its longer side.
    longer = max(height, width)
    top, left = (longer - height) // 2, (longer - width) // 2
    values = F.pad(values, (left, longer - width - left, top, longer - height - top))
    values = F.interpolate(
        values[None, None], (side, side), mode="area" if side < longer else "bilinear"
    )
    disk = _grid(side).square().sum(-1).view(side, side) <= 1
    return values[0, 0] * disk


def _read(name: str, max_pixels: int) -> Float[Tensor, "height width"]:
    """A gray image, or an array of values in [0, 1].

    Raises:
        UsageError: If there is none.
    """
    if not name.endswith(".npy"):
        try:
            rgb = open_image(name, max_pixels=max_pixels).rgb
        except SceneError as error:
            raise UsageError(str(error)) from None
        return (rgb * torch.tensor(_LUMA)).sum(-1)
    try:
        array = np.load(name, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise UsageError(f"--scan {name}: there is no file") from None
    except Exception as error:  # A header is Python source, whose parser may raise anything.
        reason = printable(str(error)).replace("\n", " ")
        raise UsageError(f"--scan {name}: not an array of NumPy: {reason}") from None
    is_slice = array.ndim == 2 and array.dtype.kind in "fiub"
    require(
        is_slice,
        f"--scan {name} must be (height, width) numbers; it is {array.dtype} {array.shape}",
    )
    require(array.size <= max_pixels, f"--scan {name} has {array.size:,} pixels; see --max-pixels")
    with np.errstate(all="ignore"):  # What does not fit into float32 is refused below.
        values = torch.from_numpy(np.array(array, dtype=np.float32))
    require(bool(values.isfinite().all()), f"--scan {name} must hold finite numbers")
    if not bool(((values >= 0) & (values <= 1)).all()):
        raise UsageError(
            f"--scan {name} must hold values in [0, 1]; got {float(values.min()):g} to "
            f"{float(values.max()):g}: subtract the least and divide by the largest"
        )
    return values
