"""How close forecasts come to the fits that they forecast.

    python -m benchmarks.forecast FOLDER --cache CACHE

Every fit of ``MODELS`` runs at full length with the program's own settings, once per image of the
folder; its PSNR in total and by octave is kept as JSON under CACHE, so that a second call only
runs what is missing.
"""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from app.config import resolve
from app.image_task import ImageTask
from app.options import parse
from app.stop import Stop
from app.task import FitControl
from nerf_posenc.metrics.spectrum import psnr_by_band
from scenes import open_image

# Steps that take about 5 s and 30 s on two cores.
STEPS = {"fourier": (300, 1800), "gaussian": (240, 1440), "hash": (800, 4800)}


def measured(
    cache: Path, image_file: Path, encoding: str, steps: int, *arguments: str
) -> dict[str, Any]:
    """PSNR of a fit at full length, in total and by octave; from the cache if it is there.

    Args:
        cache: folder of the JSON files.
        image_file: to fit.
        encoding: to fit it with.
        steps: of the fit.
        arguments: further options of the program.
    """
    label = "".join(arguments).replace("--", "-")
    file = cache / f"{image_file.stem}-{encoding}-{steps}{label}.json"
    if file.exists():
        found: dict[str, Any] = json.loads(file.read_text())
        return found
    image = open_image(str(image_file), max_pixels=1 << 26)
    options = parse(
        [*("--encodings", encoding, "--steps", str(steps), "--video", "0", "--quiet"), *arguments]
    )
    if options.size is not None:
        image = image.resized(options.size)
    whole = image.size
    if options.held_out:
        image = image.split_held_out()
    config = resolve(options, image.resolution, torch.device("cpu"))
    task = ImageTask(image, whole, config)
    started = time.process_time()
    result = task.fit(encoding, FitControl(Stop()))
    seconds = time.process_time() - started
    record = {
        "image": image_file.stem,
        "encoding": encoding,
        "steps": steps,
        "arguments": list(arguments),
        "seconds": seconds,
        "psnr": result.psnr,
        "bands": [asdict(band) for band in psnr_by_band(result.reconstruction, task.truth())],
        "history": [(record.step, record.loss) for record in result.history],
    }
    cache.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record))
    return record


def measure_all(cache: Path, images: list[Path]) -> None:
    """Run every fit that is missing, the short ones of all images first."""
    for length in range(2):
        for image in images:
            for encoding, steps in STEPS.items():
                record = measured(cache, image, encoding, steps[length])
                print(
                    f"{image.stem} {encoding:8} {steps[length]:5} steps {record['psnr']:6.2f} dB, "
                    f"{record['seconds']:.0f} s",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="of the images")
    parser.add_argument("--cache", type=Path, required=True, help="folder of the measured fits")
    options = parser.parse_args()
    images = sorted(options.folder.glob("*.png"))
    # Halves of the images take turns, so that an unfinished run has some of each.
    half = len(images) // 2
    images = [image for pair in zip(images[:half], images[half:], strict=True) for image in pair]
    measure_all(options.cache, images)


if __name__ == "__main__":
    main()
