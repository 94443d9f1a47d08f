"""Time that a run spends outside of training, and the size of its page, by the image's size.

    python -m benchmarks.megapixels --megapixels 1 3 12 24

The images are synthetic: noise whose spectrum falls as that of photographs, 1/f in amplitude.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import numpy.typing as npt

_ASPECT = 1.5  # Of a camera's sensor.


def synthetic_photograph(megapixels: float, *, seed: int = 0) -> npt.NDArray[np.uint8]:
    """Noise with amplitudes that fall as 1/f, ``(height, width, 3)``."""
    height = round((megapixels * 1e6 / _ASPECT) ** 0.5)
    width = round(height * _ASPECT)
    generator = np.random.default_rng(seed)
    frequencies = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :]).astype(
        np.float32
    )
    frequencies[0, 0] = np.inf
    channels = []
    for _ in range(3):
        noise = generator.standard_normal((height, width), dtype=np.float32)
        values = np.fft.irfft2(np.fft.rfft2(noise) / frequencies, s=(height, width))
        channels.append(128 + 48 * (values - values.mean()) / values.std())
    return np.stack(channels, axis=-1).clip(0, 255).round().astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megapixels", type=float, nargs="+", default=[1.0, 3.0, 12.0, 24.0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("arguments", nargs="*", help="further arguments of train_fit.py, after --")
    options = parser.parse_args()
    print("| megapixels | wall s | training s | other s | page MB | folder MB |\n|" + "---|" * 6)
    with tempfile.TemporaryDirectory() as name:
        for megapixels in options.megapixels:
            file, run = Path(name, f"{megapixels:g}.png"), Path(name, f"run-{megapixels:g}")
            iio.imwrite(file, synthetic_photograph(megapixels), compress_level=1)
            command = [sys.executable, "train_fit.py", "--image", str(file), "--out", str(run)]
            started = time.perf_counter()
            subprocess.run(
                [*command, "--steps", str(options.steps), "--quiet", *options.arguments],
                check=True,
            )
            wall = time.perf_counter() - started
            fits = json.loads((run / "metrics.json").read_text())["fits"]
            training = sum(fit["seconds"] for fit in fits)
            page = (run / "report.html").stat().st_size / 1e6
            folder = sum(f.stat().st_size for f in run.rglob("*") if f.is_file()) / 1e6
            print(
                f"| {megapixels:g} | {wall:.1f} | {training:.1f} | {wall - training:.1f} "
                f"| {page:.1f} | {folder:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
