"""How close forecasts come to the fits that they forecast.

    python -m benchmarks.forecast FOLDER --cache CACHE

Every fit of ``STEPS`` runs at full length with the program's own settings, once per image of the
folder; its PSNR in total and by octave is kept as JSON under CACHE, so that a second call only
runs what is missing (``--cached``: nothing). Then the law that forecasts rest on is tested: of the
second half of the images by a law of the first half, and of each image by a law of all others. The
law of all of them is written to ``nerf_posenc/analysis/calibration.py``. Full fits of 12 images
take two hours on one core, the rest a few seconds.
"""

import argparse
import itertools
import json
import math
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from app.cli import parse
from app.kinds.image.image import ImageKind
from app.kinds.image.options import ImageOptions
from app.kinds.kind import View
from app.runs.train import fit_alone
from benchmarks import calibration
from benchmarks.calibration import Fit
from nerf_posenc.analysis.law import TransferLaw
from nerf_posenc.analysis.texture import Detail, detail
from nerf_posenc.metrics.spectrum import psnr_by_band
from nerf_posenc.training.recipes import default_sigma
from scenes import open_image

_MODULE = Path(__file__).parent.parent / "nerf_posenc" / "analysis" / "calibration.py"

# Steps that take about 5 s and 30 s on two cores, and the default 600.
STEPS = {"fourier": (300, 1800), "gaussian": (240, 1440), "hash": (600, 800, 4800)}
# Settings whose recovery is measured beside that of the default, on images of the first half.
BANDS = (4, 5, 6, 7, 8, 9)
SIGMAS = (6, 10, 30, 50)
MAX_RESOLUTIONS = (384, 1536, 2304, 3072, 6144)
SWEPT = ("kodim01", "kodim03")
# So few fits of a length cannot tell the weights of three traits.
_FEW = 5


def cache_file(cache: Path, image_file: Path, encoding: str, steps: int, *arguments: str) -> Path:
    """Where a fit is kept."""
    label = "".join(arguments).replace("--", "-")
    return cache / f"{image_file.stem}-{encoding}-{steps}{label}.json"


def measured(
    cache: Path, image_file: Path, encoding: str, steps: int, *arguments: str
) -> dict[str, Any]:
    """PSNR of a fit at full length, in total and by octave; from the cache if it is there.

    Args:
        cache: folder of the JSON files.
        image_file: image to fit.
        encoding: encoding of the fit.
        steps: training steps of the fit.
        arguments: further options of the program.
    """
    file = cache_file(cache, image_file, encoding, steps, *arguments)
    if file.exists():
        found: dict[str, Any] = json.loads(file.read_text())
        return found
    words = ["--image", str(image_file), "--encodings", encoding, "--steps", str(steps)]
    _, options = parse([*words, "--video", "0", "--device", "cpu", "--quiet", *arguments])
    assert isinstance(options, ImageOptions)
    kind = ImageKind(options)
    config = kind.resolve(options)
    started = time.process_time()
    result = fit_alone(kind, encoding, config)
    seconds = time.process_time() - started
    (view,) = result.blocks(View)
    record = {
        "image": image_file.stem,
        "encoding": encoding,
        "steps": steps,
        "arguments": list(arguments),
        "seconds": seconds,
        "psnr": result.scores["psnr_db"],
        "bands": [asdict(band) for band in psnr_by_band(view.reconstruction, view.original)],
        "history": [(record.step, record.loss) for record in result.history],
    }
    cache.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record))
    return record


class Measurements:
    """The fits of all images, measured or from the cache.

    Args:
        cache: folder of the JSON files.
        images: files.
        only_cached: leave out what is not in the cache.
    """

    def __init__(self, cache: Path, images: list[Path], *, only_cached: bool) -> None:
        self._cache, self._only_cached = cache, only_cached
        self.files = {image.stem: image for image in images}
        self.details: dict[str, Detail] = {
            name: detail(open_image(str(file), max_pixels=1 << 26))
            for name, file in self.files.items()
        }

    def fit(self, name: str, encoding: str, steps: int, *arguments: str) -> Fit | None:
        """One fit; None if it is to be left out."""
        if (
            self._only_cached
            and not cache_file(self._cache, self.files[name], encoding, steps, *arguments).exists()
        ):
            return None
        record = measured(self._cache, self.files[name], encoding, steps, *arguments)
        return Fit.from_record(record, self.details[name])

    def of_length(self, names: list[str], encoding: str, steps: int) -> dict[str, Fit]:
        """Fits of so many steps by image."""
        found = {name: self.fit(name, encoding, steps) for name in names}
        return {name: fit for name, fit in found.items() if fit is not None}

    def sweeps(self, encoding: str, steps: int) -> list[tuple[Fit, dict[float, Fit]]]:
        """Fits with other bands, sigmas or finest levels, and the default's among them."""
        option, settings = {
            "fourier": ("--bands", BANDS),
            "gaussian": ("--sigma", SIGMAS),
            "hash": ("--max-resolution", MAX_RESOLUTIONS),
        }[encoding]
        default_setting = {"fourier": 10, "gaussian": default_sigma(768), "hash": 768}[encoding]
        found = []
        for name in SWEPT:
            default = self.fit(name, encoding, steps)
            fits = {s: self.fit(name, encoding, steps, option, str(s)) for s in settings}
            if default is None or None in fits.values():
                continue
            by_setting = {
                _law_setting(encoding, s): fit
                for s, fit in [*fits.items(), (default_setting, default)]
                if fit is not None
            }
            found.append((default, by_setting))
        return found


def _law_setting(encoding: str, value: float) -> float:
    """A setting as `TransferLaw` has it."""
    if encoding == "fourier":
        return float(value)
    return math.log2(value / calibration.RESOLUTION if encoding == "hash" else value)


def calibrate(measurements: Measurements, encoding: str, names: list[str]) -> TransferLaw:
    """Law of one encoding by the fits of these images."""
    by_length = {n: measurements.of_length(names, encoding, n) for n in STEPS[encoding]}
    lengths = tuple(n for n, fits in by_length.items() if fits)
    parts = [_length(measurements, encoding, n, names) for n in lengths]
    sweeps = measurements.sweeps(encoding, lengths[0])
    settings, rows = calibration.offsets(sweeps) if sweeps else ((), ())
    return TransferLaw(
        resolution=calibration.RESOLUTION,
        follows_nyquist=encoding == "hash",
        steps=lengths,
        # A longer fit recovers no less; a few images may say otherwise of what hardly counts.
        recovery=tuple(itertools.accumulate((recovery for recovery, _ in parts), _larger)),
        weights=tuple(weights for _, weights in parts),
        settings=settings,
        offsets=rows,
        errors=tuple(0.0 for _ in lengths),
        size_gain=calibration.SIZE_GAINS[encoding],
    )


def _length(
    measurements: Measurements, encoding: str, steps: int, names: list[str]
) -> tuple[tuple[float, ...], tuple[float, float, float]]:
    """Recovery and weights of one length; weights of the shortest if it has few fits."""
    fits = list(measurements.of_length(names, encoding, steps).values())
    known = None
    if len(fits) < _FEW:
        most = measurements.of_length(names, encoding, STEPS[encoding][0])
        known = calibration.calibrated_length(list(most.values()), encoding)[1]
    return calibration.calibrated_length(fits, encoding, known)


def _larger(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(max(pair) for pair in zip(one, other, strict=True))


def errors(
    measurements: Measurements, encoding: str, steps: int, trained: list[str], tested: list[str]
) -> dict[str, float]:
    """Forecast less measured PSNR of images, by a law of others, in dB."""
    found = {}
    for name, fit in measurements.of_length(tested, encoding, steps).items():
        others = [each for each in trained if each != name]
        if not measurements.of_length(others, encoding, steps):
            continue
        recovery, weights = _length(measurements, encoding, steps, others)
        law = TransferLaw(
            resolution=calibration.RESOLUTION,
            follows_nyquist=encoding == "hash",
            steps=(steps,),
            recovery=(recovery,),
            weights=(weights,),
            errors=(0.0,),
        )
        found[name] = calibration.psnr(fit, law, steps) - calibration.measured_psnr(fit)
    return found


def report(label: str, encoding: str, steps: int, found: dict[str, float]) -> float:
    """Print errors; return the largest."""
    largest = max((abs(e) for e in found.values()), default=0.0)
    rms = math.sqrt(sum(e * e for e in found.values()) / max(1, len(found)))
    each = " ".join(f"{name.removeprefix('kodim')} {e:+.2f}" for name, e in found.items())
    print(f"{encoding:8} {steps:5} steps, {label}: rms {rms:.2f}, largest {largest:.2f} dB: {each}")
    return largest


def report_sizes(measurements: Measurements, encoding: str, law: TransferLaw) -> None:
    """Print forecasts of reduced images beside measured fits."""
    steps = STEPS[encoding][0]
    for name, size in itertools.product(("kodim03", "kodim09"), (384, 128)):
        fit = measurements.fit(name, encoding, steps, "--size", str(size))
        if fit is None:
            continue
        image = open_image(str(measurements.files[name]), max_pixels=1 << 26).resized(size)
        fit = replace(fit, detail=detail(image))
        found = calibration.psnr(fit, law, steps, resolution=size)
        print(
            f"{encoding:8} {steps:5} steps, {name} at {size}: measured "
            f"{calibration.measured_psnr(fit):.2f}, forecast {found:.2f} ± "
            f"{law.error(steps, size):.1f} dB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="of the images")
    parser.add_argument("--cache", type=Path, required=True, help="folder of the measured fits")
    parser.add_argument("--cached", action="store_true", help="use measured fits alone")
    options = parser.parse_args()
    images = sorted(options.folder.glob("*.png"))
    measurements = Measurements(options.cache, images, only_cached=options.cached)
    names = [image.stem for image in images]
    first, second = names[: len(names) // 2], names[len(names) // 2 :]
    laws = {}
    for encoding in STEPS:
        law = calibrate(measurements, encoding, names)
        largest: list[float] = []
        for steps in law.steps:
            halves = errors(measurements, encoding, steps, first, second)
            left_out = errors(measurements, encoding, steps, names, names)
            found = max(
                report("first half to second", encoding, steps, halves),
                report("each left out", encoding, steps, left_out),
            )
            # A long fit of few images is not taken to be forecast better than a short one of many.
            largest.append(max(round(found, 1), *largest, 0.0))
        laws[encoding] = replace(law, errors=tuple(largest))
        report_sizes(measurements, encoding, laws[encoding])
    calibration.write(_MODULE, laws)
    print(f"wrote {_MODULE}")


if __name__ == "__main__":
    main()
