"""How close the recommended encoding comes to the best of a sweep, and in what share of its time.

    python -m benchmarks.recommend IMAGE ... --cache CACHE

The sweep fits every image with 4 to 10 bands, five sigmas and six finest levels at full length
(``benchmarks.forecast``: about 5 s each on two idle cores, some minutes an image in all), and keeps
what it measures under CACHE. The recommendation is made from the image alone.
"""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.forecast import BANDS, MAX_RESOLUTIONS, SIGMAS, STEPS, measured
from nerf_posenc.analysis.recommendation import recommend
from nerf_posenc.training.recipes import default_sigma
from scenes import open_image


def sweep(cache: Path, image: Path) -> tuple[dict[str, dict[float, float]], float]:
    """PSNR by encoding and by bands, sigma or finest level, and the seconds that the sweep took."""
    found: dict[str, dict[float, float]] = {"fourier": {}, "gaussian": {}, "hash": {}}
    seconds = 0.0
    cases = [("fourier", "--bands", value) for value in (*BANDS, None)]
    cases += [("gaussian", "--sigma", value) for value in (*SIGMAS, None)]
    cases += [("hash", "--max-resolution", value) for value in (*MAX_RESOLUTIONS, None)]
    for encoding, option, value in cases:
        arguments = () if value is None else (option, str(value))
        record = measured(cache, image, encoding, STEPS[encoding][0], *arguments)
        resolution = open_image(str(image), max_pixels=1 << 26).resolution
        default = {"fourier": 10.0, "gaussian": default_sigma(resolution), "hash": resolution}[
            encoding
        ]
        found[encoding][float(default if value is None else value)] = record["psnr"]
        seconds += record["seconds"]
    return found, seconds


def nearest(scores: Mapping[float, float], setting: float) -> float:
    """PSNR of the setting of a sweep that is nearest to one that is recommended."""
    return scores[min(scores, key=lambda known: abs(known - setting))]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("images", type=Path, nargs="+")
    parser.add_argument("--cache", type=Path, required=True, help="folder of the measured fits")
    options = parser.parse_args()
    for file in options.images:
        scores, seconds = sweep(options.cache, file)
        image = open_image(str(file), max_pixels=1 << 26)
        started = time.process_time()
        # Each encoding gets the steps that it takes in about the same time.
        advised = recommend(image, steps={name: steps[0] for name, steps in STEPS.items()})
        spent = time.process_time() - started
        print(f"{file.stem}: sweep {seconds:.0f} s, recommendation {spent:.2f} s of CPU time")
        print(f"  {advised.reason}")
        best = max(max(by.values()) for by in scores.values())
        reached = {}
        for encoding, by in scores.items():
            model = advised.models[encoding]
            setting = {
                "fourier": float(model.num_bands),
                "gaussian": model.sigma or 0.0,
                "hash": float(model.max_resolution or image.resolution),
            }[encoding]
            got = reached[encoding] = nearest(by, setting)
            print(
                f"  {encoding:8} recommended {setting:5.1f}: {got:.2f} dB, best of the sweep "
                f"{max(by.values()):.2f} dB at {max(by, key=lambda s: by[s]):.1f}, gap "
                f"{max(by.values()) - got:.2f} dB"
            )
        chosen = reached[advised.model.encoding]
        print(
            f"  {advised.model.encoding} is recommended: {chosen:.2f} dB, {best - chosen:.2f} dB "
            f"below the best of all; {spent / seconds:.2%} of the sweep's time"
        )


if __name__ == "__main__":
    main()
