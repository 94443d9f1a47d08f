"""Volumes: a network from a place to the value of a voxel, which fills in between the slices."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Never

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.fits import CoordinateFit
from nerf_posenc.metrics.image import Scored, constant_psnr, psnr
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import ShuffledRows
from nerf_posenc.training.checkpoints import CheckpointError
from nerf_posenc.training.coordinate_model import CoordinateModel
from nerf_posenc_app.data.arrays import shares
from nerf_posenc_app.data.errors import SceneError
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
from nerf_posenc_app.values.blocks import Evaluation
from nerf_posenc_app.values.finding import Doubt
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.results import Result
from nerf_posenc_kinds.slices import (
    SLICES_PER_SECOND,
    gray,
    mean_ssim,
    reference,
    slice_blocks,
    values_at,
)

FITTED = Measure(
    "psnr_fitted_db",
    "PSNR of the fitted slices",
    "dB",
    meaning="PSNR over the slices that were fitted",
)
_FARTHEST = 1e6
# Minimum side in pixels, the window of SSIM.
_LEAST = 11
_MOST_RENDERED = 1 << 30


@dataclass(frozen=True, kw_only=True)
class VolumeOptions(PixelOptions[Open]):
    """Fit every second slice of a volume, and score the others.

    Encodings: none fourier gaussian hash; networks that need no encoding: siren finer gauss
    wire mfn.

      train_fit.py --volume head.nii.gz
    """

    volume: Annotated[str, InMemory]
    """.npy array (depth, height, width) with values in [0, 1]; with the extra medical also
    .nii, .nii.gz, or a folder with one DICOM series."""

    spacing: Annotated[tuple[float, float, float] | None, Range(0, _FARTHEST, is_open=True)] = None
    """Distance between samples along x, y and z (default: that of the file, or 1 1 1 for
    .npy)."""

    every: Annotated[int, Range(1, 64)] = 2
    """Fit every Nth slice and score the others; 1 fits and scores all slices."""

    def check(self) -> None:
        """Check ranges, and that the encodings suit a volume."""
        check_encodings(self, "a volume")
        super().check()


VolumeConfig = VolumeOptions[Never]


class VolumeKind(CoordinateKind[VolumeConfig]):
    """Voxels as a function of (x, y, z) in equal units; the longest side spans [-1, 1].

    Attributes:
        slices: their values in [0, 1], from the lowest z to the highest.
        spacing: distance of samples along x, y and z.
        is_fitted: slices that the fits see.
    """

    name = "volume"
    Options = VolumeOptions
    rendered_by = ("size", "scale", "rate")
    in_dim = 3
    about = (
        "Slices of a scan are often further apart than their pixels. Between the fitted ones, the "
        "encoding decides what a network shows."
    )
    citations = CITATIONS

    def __init__(self, options: VolumeOptions) -> None:
        self.slices, facts = _opened(options)
        depth, height, width = self.slices.shape
        self.title = printable(Path(options.volume).name)
        self.source = printable(options.volume)
        self.size, self.spacing = (width, height, depth), facts["spacing"]
        self.facts = {"size": self.size, **facts}
        low, high = facts["range"]
        notes = [f"values of {low:.6g} to {high:.6g} count as 0 to 1"] * ((low, high) != (0, 1))
        if facts.get("left_out"):
            notes.append(
                f"{facts['left_out']} files of the folder are not DICOM files and are left out"
            )
        self.notes_on_data = tuple(notes)
        number = torch.arange(depth)
        self.is_fitted = number % options.every == 0
        self.start = self.slices[self.is_fitted].mean().view(1)
        # Slices beyond the last fitted one do not lie between two fitted slices.
        last = int(number[self.is_fitted].max())
        self.is_scored = ~self.is_fitted & (number < last) if options.every > 1 else self.is_fitted
        if options.every > 1:
            require(
                bool(self.is_scored.any()),
                f"--every {options.every}: {self.source} has {depth} slices, none of them between "
                "two that are fitted; give a smaller one",
            )
            self.evaluated_on = "slices between the fitted ones"

    @property
    def extents(self) -> list[float]:
        """Sides of the volume along x, y and z."""
        return [count * step for count, step in zip(self.size, self.spacing, strict=True)]

    @property
    def resolution(self) -> int:
        """Samples across [-1, 1], the longest side, as close as along the finest axis."""
        finest: float = min(self.spacing)
        return round(max(self.extents) / finest)

    def summary(self, config: VolumeConfig) -> list[str]:
        """Source, size, and which slices are fitted."""
        size = " x ".join(map(str, self.size))
        spacing = " x ".join(f"{distance:.4g}" for distance in self.spacing)
        fitted, scored = int(self.is_fitted.sum()), int(self.is_scored.sum())
        return [
            f"volume   {self.source}, {size}, samples {spacing} apart",
            f"slices   {fitted} are fitted, {scored} are scored",
        ]

    def digest(self) -> str:
        """Checksum of the values, their range in the file and their distances."""
        scale = torch.tensor([*self.spacing, *self.facts["range"]], dtype=torch.float64)
        return digest_of([(self.slices.shape, [self.slices, scale])])

    def resolve(self, options: VolumeOptions) -> VolumeConfig:
        """Choose encodings, bands, sigma, steps and batches by the size."""
        # Samples across [-1, 1] at the distance of the fitted slices. Nothing says what is between
        # them: an octave less than they could hold is 0.7 dB better there.
        resolved = max(self.extents) / (self.spacing[2] * options.every)
        return self.with_defaults(
            options,
            steps=1000,
            batch_size=1 << 13,
            num_bands=max(1, math.floor(math.log2(resolved)) - 1),
            sigma=recipes.default_sigma(max(1, round(resolved))),
        )

    def measures(self, config: VolumeConfig) -> Sequence[Measure]:
        """PSNR and mean SSIM of the scored slices, and PSNR of the fitted ones."""
        return (PSNR, SSIM, FITTED) if config.every > 1 else (PSNR, SSIM)

    def problem(
        self, model: nn.Module, description: CoordinateModel, config: VolumeConfig
    ) -> Problem:
        """Batches of shuffled voxels of the fitted slices."""
        device = torch.device(config.device)
        values = self.slices[self.is_fitted].flatten().to(device)
        rows = ShuffledRows(len(values), config.batch_size, seed=config.seed, device=device)

        def draw(step: int) -> tuple[Tensor, Tensor]:
            chosen = rows(step)
            points = voxel_positions(chosen, self.size, self.spacing, every=config.every)
            return points, values[chosen, None]

        shown = self._shown
        return self.trained(
            model,
            description,
            config,
            draw,
            facts={"spacing": self.spacing},
            captured=True,
            preview=lambda: [gray(self._found(model, device, shown))],
            originals=[gray(self.slices[shown])],
        )

    @property
    def _shown(self) -> int:
        """The scored slice that is nearest to the middle."""
        scored = self.is_scored.nonzero()[:, 0]
        return int(scored[len(scored) // 2])

    def _found(
        self, model: nn.Module, device: torch.device, number: int
    ) -> Float[Tensor, "height width"]:
        return _slice(model, number, self.size, self.spacing, device)

    def evaluate(self, fit: Fit[VolumeConfig]) -> Evaluation:
        """Scores, a slice, a cut from the side, and all slices as a video."""
        device = torch.device(fit.config.device)
        reconstruction = torch.stack(
            [self._found(fit.model, device, i) for i in range(self.size[2])]
        )
        # In units of the slice's own longer side.
        scale = max(self.extents[:2]) / max(self.extents)
        bands = [scale * band for band in frequency_bands(encoder_of(fit.model))]
        return self._scored(reconstruction, bands)

    def _scored(
        self, values: Float[Tensor, "depth height width"], bands: Sequence[float] = ()
    ) -> Evaluation:
        scored, truth = self.is_scored, self.slices
        scores = {
            PSNR.name: psnr(values[scored], truth[scored]),
            SSIM.name: mean_ssim(values[scored], truth[scored]),
        }
        if not bool(self.is_fitted.all()):
            scores[FITTED.name] = psnr(values[self.is_fitted], truth[self.is_fitted])
        aspect = self.spacing[2] / self.spacing[0]
        blocks = slice_blocks(
            self.title, truth, values, shown=self._shown, aspect=aspect, bands=bands
        )
        return Evaluation(scores, [*blocks])

    def notes(self, results: Sequence[Result], config: VolumeConfig) -> Iterator[Doubt]:
        """Name fits that are hardly better than one value."""
        flat = constant_psnr(Scored(gray(each)) for each in self.slices[self.is_scored])
        return doubts_of_flat_fits(results, flat, config, data="volume")

    def references(self, config: VolumeConfig) -> Mapping[str, Callable[[], Result]]:
        """Linear interpolation and a cubic spline between the fitted slices."""
        if config.every == 1:
            return {}
        from scipy.interpolate import make_interp_spline

        known = self.is_fitted.nonzero()[:, 0]
        # Slices above the last fitted one are not scored and repeat it.
        numbers = torch.arange(self.size[2]).clamp(max=int(known[-1]))

        def between(degree: int) -> Float[Tensor, "depth height width"]:
            spline = make_interp_spline(known.numpy(), self.slices[known].numpy(), k=degree)
            values = torch.from_numpy(spline(numbers.numpy())).float().clamp(0, 1)
            values[known] = self.slices[known]
            return values

        degrees = {"linear": 1, "cubic": 3} if len(known) > 3 else {"linear": 1}
        return {
            name: partial(reference, name, partial(between, degree), self._scored)
            for name, degree in degrees.items()
        }

    @classmethod
    def render(
        cls, fit: Any, path: Path, device: torch.device, given: Mapping[str, Any]
    ) -> Rendered:
        """Render all slices as frames, as far apart as their pixels."""
        assert isinstance(fit, CoordinateFit)
        try:
            x, y, z = (float(distance) for distance in fit.facts["spacing"])
            width, height, depth = fit.size
            require(_are_distances((x, y, z)), f"{path} has invalid distances between samples")
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(f"{path} contains no fit of a volume") from None
        # Pixels of a frame along the longer side of a slice, all as far apart.
        extents = width * x, height * y, depth * z
        wanted = given["size"] or max(1, round(max(width, height) * (given["scale"] or 1.0)))
        step = max(extents[:2]) / wanted
        columns, rows, count = (max(1, round(extent / step)) for extent in extents)
        require(
            columns * rows * count <= _MOST_RENDERED,
            f"{columns} x {rows} x {count} voxels are too many; give a smaller --size or --scale",
        )
        size = columns, rows, count
        spacing = [extent / n for extent, n in zip(extents, size, strict=True)]
        frames = (gray(_slice(fit.model, k, size, spacing, device)) for k in range(count))
        rate = given["rate"] or SLICES_PER_SECOND
        return Rendered(
            (columns, rows), f"{path.stem}-{columns}x{rows}x{count}", frames, count, rate
        )


def voxel_positions(
    rows: Int[Tensor, " n"], size: Sequence[int], spacing: Sequence[float], *, every: int = 1
) -> Float[Tensor, "n 3"]:
    """Positions of voxels (x, y, z); the longest side of the volume spans [-1, 1].

    Args:
        rows: numbers of the voxels in every Nth slice, along x first, then y and z.
        size: voxels along x, y and z.
        spacing: their distances.
        every: N.
    """
    width, height, _ = size
    index = [rows % width, rows // width % height, rows // (width * height) * every]
    longest = max(count * distance for count, distance in zip(size, spacing, strict=True))
    along = zip(index, size, spacing, strict=True)
    return torch.stack(
        [(i - (count - 1) / 2) * (2 * distance / longest) for i, count, distance in along], dim=-1
    )


def _slice(
    model: nn.Module,
    number: int,
    size: Sequence[int],
    spacing: Sequence[float],
    device: torch.device,
) -> Float[Tensor, "height width"]:
    """A slice that a model has, on the CPU."""
    width, height, _ = size
    rows = torch.arange(number * width * height, (number + 1) * width * height, device=device)
    return values_at(model, voxel_positions(rows, size, spacing), device).view(height, width)


def _are_distances(spacing: Sequence[float]) -> bool:
    return all(0 < distance < _FARTHEST for distance in spacing)


def _in_memory(volume: str) -> tuple[npt.NDArray[np.float32], dict[str, Any]] | None:
    """Values that Python holds, and their spacing and range; None for the name of a file."""
    if not isinstance(volume, InMemory):
        return None
    array = shares(volume.values, "a volume")
    require(array.ndim == 3, f"--volume must be (depth, height, width); got {array.shape}")
    return array, {"spacing": [1.0, 1.0, 1.0], "range": [0.0, 1.0]}


def _opened(options: VolumeOptions) -> tuple[Float[Tensor, "depth height width"], dict[str, Any]]:
    """The values, and their ``spacing`` along (x, y, z) and ``range``.

    Raises:
        UsageError: If they cannot be opened.
    """
    try:
        array, facts = _in_memory(options.volume) or read_file(
            "nerf_posenc_kinds.data.volume_reader:read_volume",
            Path(options.volume),
            options.max_pixels,
        )
        values = torch.from_numpy(array)
    except SceneError as error:
        raise UsageError(f"--volume: {error}") from None
    depth, height, width = values.shape
    require(
        min(height, width) >= _LEAST and depth >= 2,
        f"--volume {options.volume} has {depth} slices of {width} x {height}; it needs 2 of "
        f"{_LEAST} x {_LEAST}",
    )
    spacing = list(options.spacing or facts["spacing"])
    require(
        _are_distances(spacing),
        f"--volume {options.volume} has samples {spacing} apart; give their --spacing",
    )
    longer = max(height, width)
    if options.size is not None and options.size < longer:
        # Pixels are averaged; the number of slices stays, since fits are scored between them.
        rows, columns = (max(1, round(n * options.size / longer)) for n in (height, width))
        values = F.interpolate(values[None], (rows, columns), mode="area")[0]
        spacing[0], spacing[1] = spacing[0] * width / columns, spacing[1] * height / rows
    return values, {**facts, "spacing": spacing}
