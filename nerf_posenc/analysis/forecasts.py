"""Forecast of what a fit of an image recovers, in total and by octave, without fitting."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from nerf_posenc.analysis.calibration import LAWS
from nerf_posenc.analysis.content import Spectrum, spectrum
from nerf_posenc.analysis.texture import Detail, detail
from nerf_posenc.images import Image
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.metrics.spectrum import octave_edges
from nerf_posenc.training.coordinate_model import CoordinateModel
from nerf_posenc.training.recipes import default_sigma, get_recipe

BATCH_SIZE = 8192
"""Pixels per step of the fits that the forecast is calibrated on."""


# Grids with another finest level than the default were up to 1.7 dB off their forecasts
# (docs/howto/forecast.md), which the error of the default grid does not cover.
_MAX_RESOLUTION_ERROR = 0.7


@dataclass(frozen=True)
class OctaveForecast:
    """PSNR within one octave of spatial frequency.

    Attributes:
        octave: k of the ring around 2^k pi rad per unit.
        low: lower bound in rad per unit.
        high: upper bound in rad per unit.
        psnr: forecast, dB.
    """

    octave: int
    low: float
    high: float
    psnr: float


@dataclass(frozen=True)
class Forecast:
    """What a fit of an image will recover.

    Attributes:
        encoding: encoding of the coordinates.
        steps: length of the fit.
        psnr: over all pixels, dB.
        error: error of ``psnr``, dB: as far off as it was at most on Kodak photographs, each
            forecast by laws that were calibrated without it; what the laws look at was chosen with
            all of them.
        octaves: PSNR within each octave, from 0 on; the mean color is left out.
    """

    encoding: str
    steps: int
    psnr: float
    error: float
    octaves: tuple[OctaveForecast, ...] = field(repr=False)

    def __repr__(self) -> str:
        return (
            f"Forecast({self.encoding!r}, {self.psnr:.1f} ± {self.error:.1f} dB after "
            f"{self.steps:,} steps)"
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class ImageTraits:
    """What a forecast takes from an image; measure it once to forecast several encodings.

    Attributes:
        spectrum: energy by octave.
        detail: how hard it is to fit.
        bounds: bounds of each octave, rad per unit.
    """

    spectrum: Spectrum
    detail: Detail
    bounds: Sequence[tuple[float, float]] = field(repr=False)

    @classmethod
    def from_image(cls, image: Image) -> "ImageTraits":
        """Measure an image's fitted pixels."""
        # Without the first ring, which has the mean alone.
        bounds = list(itertools.pairwise(octave_edges(image.size[1], image.size[0])))[1:]
        return cls(spectrum(image), detail(image), bounds)


def forecast(
    image: Image | ImageTraits,
    model: CoordinateModel,
    *,
    steps: int,
    optimizer: str = "muon",
    batch_size: int = BATCH_SIZE,
) -> Forecast:
    """Forecast the PSNR of a fit in total and by octave, without a step of it.

    The energy of each octave is known beforehand; how much of it a fit recovers after so many
    steps is nearly the same for all photographs. `TransferLaw` has those shares, calibrated on
    photographs of the Kodak set by ``python -m benchmarks.forecast``, for the networks and the
    optimizer of the program, 768 pixels long; for other sizes the error is larger. Text and
    drawings may be further off than it says.

    Args:
        image: its fitted pixels, or what was measured of them.
        model: ``"fourier"``, ``"gaussian"`` or ``"hash"`` with the network of its recipe;
            bands, sigma and max_resolution are taken into account.
        steps: length of the fit, 1 or more.
        optimizer: optimizer of the fit.
        batch_size: pixels per step.

    Returns:
        The PSNR of all fitted pixels, not of held-out ones.

    Raises:
        ValueError: If the law is not calibrated for the model, the optimizer or the batches, or
            ``steps`` is below 1.

    Examples:
        >>> import torch
        >>> from nerf_posenc.images import pixel_centers
        >>> waves = 0.5 + 0.25 * pixel_centers(96, 64).mul(40).cos()
        >>> image = Image.from_rgb(torch.cat((waves, waves[..., :1]), dim=-1))
        >>> forecast(image, CoordinateModel("fourier"), steps=600).steps
        600
    """
    if steps < 1:
        raise ValueError(f"steps must be 1 or more; got {steps}")
    reason = why_not(model, optimizer=optimizer, batch_size=batch_size)
    if reason is not None:
        raise ValueError(reason)
    known = image if isinstance(image, ImageTraits) else ImageTraits.from_image(image)
    law, content = LAWS[model.encoding], known.spectrum
    recovered = law.recovered(
        content.energy,
        known.detail,
        resolution=content.resolution,
        steps=steps,
        setting=_setting(model, content.resolution),
    )
    lost = [e * 10 ** (-r / 10) for e, r in zip(content.energy, recovered, strict=True)]
    octaves = tuple(
        OctaveForecast(k, low, high, psnr_from_mse(part))
        for k, (part, (low, high)) in enumerate(zip(lost, known.bounds, strict=True))
    )
    total = psnr_from_mse(math.fsum(lost))
    error = law.error(steps, content.resolution)
    if model.encoding == "hash" and model.max_resolution is not None:
        error += _MAX_RESOLUTION_ERROR
    return Forecast(model.encoding, steps, total, error, octaves)


def why_not(
    model: CoordinateModel, *, optimizer: str = "muon", batch_size: int = BATCH_SIZE
) -> str | None:
    """Reason why a fit cannot be forecast; None if it can.

    Args:
        model: options of the model that is fitted.
        optimizer: optimizer of the fit.
        batch_size: pixels per step.
    """
    if model.encoding not in LAWS:
        return f"no forecast for {model.encoding!r}; there is one for {', '.join(LAWS)}"
    width, depth = get_recipe(model.encoding).layers
    is_default = model == CoordinateModel(
        model.encoding,
        width=width,
        depth=depth,
        num_bands=model.num_bands,
        sigma=model.sigma,
        max_resolution=model.max_resolution,
    )
    if not is_default or optimizer != "muon" or batch_size != BATCH_SIZE:
        return (
            f"the forecast for {model.encoding} is calibrated for {depth} ReLU layers of {width}, "
            f"Muon and batches of {BATCH_SIZE:,}; got {model}, {optimizer} and {batch_size:,}"
        )
    return None


def _setting(model: CoordinateModel, resolution: int) -> float | None:
    """Bands of Fourier features, log2 of Gaussian ones' sigma or of a grid's nodes per pixel."""
    if model.encoding == "fourier":
        return float(model.num_bands)
    if model.encoding == "gaussian":
        sigma = default_sigma(resolution) if model.sigma is None else model.sigma
        return math.log2(sigma)
    if model.encoding == "hash" and model.max_resolution is not None:
        return math.log2(model.max_resolution / resolution)
    return None
