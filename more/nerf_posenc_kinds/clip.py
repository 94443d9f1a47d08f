"""Clips: a network from a place and a moment of a short video to its color."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Never

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.grids import grid_positions
from nerf_posenc.fits import CoordinateFit
from nerf_posenc.metrics.image import Scored, constant_psnr, psnr, psnr_from_mse, ssim
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.checkpoints import CheckpointError
from nerf_posenc.training.coordinate_model import CoordinateModel
from nerf_posenc.training.loop import mse
from nerf_posenc_app.kinds.coordinates import (
    CITATIONS,
    PSNR,
    SSIM,
    CoordinateKind,
    check_encodings,
    doubts_of_flat_fits,
)
from nerf_posenc_app.kinds.kind import Fit, Problem, Rendered, digest_of
from nerf_posenc_app.options import CoordinateOptions, Open, Range, require
from nerf_posenc_app.terminal import printable
from nerf_posenc_app.values.blocks import Curve, Evaluation, Video, View
from nerf_posenc_app.values.finding import Doubt
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.results import Result
from nerf_posenc_kinds.data.clips import SPHERES, open_clip
from nerf_posenc_kinds.slices import values_at

_MAX_FRAMES = 10_000


@dataclass(frozen=True, kw_only=True)
class ClipOptions(CoordinateOptions[Open]):
    """Fit a short video without and with an encoding.

    Encodings: none fourier gaussian hash; networks that need no encoding: siren finer gauss
    wire mfn.

      train_fit.py --clip film.mp4
    """

    clip: str = SPHERES
    """Animated GIF, WebP or PNG; with the extra video also MP4 and similar files; or spheres,
    a built-in clip of turning spheres."""

    num_frames: Annotated[int, Range(2, 1000)] = 32
    """Number of frames to fit, from the beginning of the clip."""

    size: Annotated[int, Range(8, 2048)] = 64
    """Reduce frames to N pixels along their longer side."""

    def check(self) -> None:
        """Check ranges, and that the encodings suit a clip."""
        check_encodings(self, "a clip")
        super().check()


ClipConfig = ClipOptions[Never]


class ClipKind(CoordinateKind[ClipConfig]):
    """Frames as a function of (x, y, t): of a frame the longer side, and time, span [-1, 1]."""

    name = "clip"
    Options = ClipOptions
    rendered_by = ("size", "scale", "rate")
    in_dim, out_dim = 3, 3
    about = (
        "A clip is a function of position and time. Fast motion is a high frequency in time, as "
        "fine detail is in space, and raw coordinates blur both."
    )
    citations = CITATIONS

    def __init__(self, options: ClipOptions) -> None:
        self.clip = open_clip(options.clip, num_frames=options.num_frames, size=options.size)
        self.title, self.source = printable(self.clip.name), printable(self.clip.source)
        count, height, width, _ = self.clip.frames.shape
        self.size = width, height, count
        self.facts = {"size": self.size, "rate": self.clip.rate}
        self.start = self.clip.frames.mean((0, 1, 2))
        self.points = torch.cat([frame_points(width, height, time) for time in frame_times(count)])

    def summary(self, config: ClipConfig) -> list[str]:
        """Source, size and length."""
        width, height, count = self.size
        return [
            f"clip     {self.source}, {width} x {height}, {count} frames, "
            f"{self.clip.rate:.3g} per second, {count / self.clip.rate:.3g} s"
        ]

    def digest(self) -> str:
        """Checksum of the frames and their rate."""
        frames = self.clip.frames
        return digest_of([(frames.shape, [frames, torch.tensor(self.clip.rate)])])

    def resolve(self, options: ClipOptions) -> ClipConfig:
        """Choose encodings, bands up to the Nyquist frequency, sigma, steps and batches."""
        longest = max(self.size)
        return self.with_defaults(
            options,
            width=128,
            steps=600,
            batch_size=8192,
            num_bands=max(1, (longest // 2).bit_length()),
            sigma=recipes.default_sigma(longest),
        )

    def measures(self, config: ClipConfig) -> Sequence[Measure]:
        """PSNR of all pixels, and the mean SSIM of the frames."""
        return (PSNR, SSIM)

    def problem(
        self, model: nn.Module, description: CoordinateModel, config: ClipConfig
    ) -> Problem:
        """Batches of shuffled pixels of all frames."""
        device = torch.device(config.device)
        points, values = self.points.to(device), self.clip.frames.view(-1, 3).to(device)
        middle = self.size[2] // 2
        return self.trained(
            model,
            description,
            config,
            ShuffledBatches(points, values, config.batch_size, seed=config.seed),
            facts={"rate": self.clip.rate},
            captured=True,
            preview=lambda: [self._frames(model, device, slice(middle, middle + 1))[0]],
            originals=[self.clip.frames[middle]],
        )

    def _frames(
        self, model: nn.Module, device: torch.device, chosen: slice
    ) -> Float[Tensor, "frames height width 3"]:
        width, height, _ = self.size
        points = self.points.view(-1, height * width, 3)[chosen]
        return torch.stack([values_at(model, part, device).view(-1, width, 3) for part in points])

    def evaluate(self, fit: Fit[ClipConfig]) -> Evaluation:
        """Scores, the clip beside its reconstruction, its middle frame and a row over time."""
        reconstruction = self._frames(fit.model, torch.device(fit.config.device), slice(None))
        truth = self.clip.frames
        by_frame = [psnr(ours, theirs) for ours, theirs in zip(reconstruction, truth, strict=True)]
        similar = [ssim(ours, theirs) for ours, theirs in zip(reconstruction, truth, strict=True)]
        middle, row = self.size[2] // 2, self.size[1] // 2
        curve = Curve(
            "PSNR of each frame", "frame", "PSNR (dB)", list(range(len(reconstruction))), by_frame
        )
        return Evaluation(
            {
                PSNR.name: psnr_from_mse(float(mse(reconstruction, truth))),
                SSIM.name: sum(similar) / len(similar),
            },
            [
                View(f"{self.title}, the middle frame", truth[middle], reconstruction[middle]),
                View(
                    f"{self.title}, the middle row over time",
                    truth[:, row],
                    reconstruction[:, row],
                    is_section=True,
                ),
                Video(
                    "Original and fit",
                    torch.cat([truth, reconstruction], 2),
                    max(1, round(self.clip.rate)),
                ),
                curve,
            ],
        )

    def notes(self, results: Sequence[Result], config: ClipConfig) -> Iterator[Doubt]:
        """Name fits that are hardly better than one color."""
        return doubts_of_flat_fits(results, constant_psnr(map(Scored, self.clip.frames)), config)

    @classmethod
    def render(
        cls, fit: Any, path: Path, device: torch.device, given: Mapping[str, Any]
    ) -> Rendered:
        """Render a clip at any size and frame rate."""
        assert isinstance(fit, CoordinateFit)
        try:
            fitted_rate = float(fit.facts["rate"])
            width, height, count = fit.size
            require(0 < fitted_rate <= 1000, f"{path} has an invalid frame rate")
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(f"{path} contains no fit of a clip") from None
        longest = given["size"] or max(1, round(max(width, height) * (given["scale"] or 1.0)))
        scale, rate = longest / max(width, height), given["rate"] or fitted_rate
        width, height = max(1, round(width * scale)), max(1, round(height * scale))
        count = max(1, round(count * rate / fitted_rate))
        require(count <= _MAX_FRAMES, f"--rate {rate}: {count:,} frames are too many; give less")
        frames = (
            values_at(fit.model, frame_points(width, height, time), device).view(-1, width, 3)
            for time in frame_times(count)
        )
        name = f"{path.stem}-{width}x{height}-{rate:g}fps"
        return Rendered((width, height), name, frames, count, rate)


def frame_times(count: int) -> list[float]:
    """Times of the middles of frames; the clip spans [-1, 1]."""
    return [(2 * i + 1) / count - 1 for i in range(count)]


def frame_points(width: int, height: int, time: float) -> Float[Tensor, "pixels 3"]:
    """Pixel centers of a frame, row by row, with its time; the longer side spans [-1, 1]."""
    pixels = grid_positions((height, width), units="longer", xy=True)
    return F.pad(pixels, (0, 1), value=time).view(-1, 3)
