"""Memory and time to read an image file: peak bytes per pixel above the interpreter and the file.

    python -m benchmarks.decoding [--width 4000 --height 3000]

Each file is read in a process of its own. Three float32 values per pixel, 12 bytes, are what is
kept; the limit is 20.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image

LIMIT = 20.0


def peak_bytes() -> int:
    """Largest resident memory of this process so far (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise OSError("no VmHWM in /proc/self/status")


def measure(path: Path) -> None:
    """Read one file; print peak bytes above the start and seconds."""
    from scenes.image_files import MAX_PIXELS, _rgb_from_file

    with tempfile.TemporaryDirectory() as folder:
        # Decoders import what they need on their first file.
        small = Path(folder, f"small{path.suffix}")
        Image.new("RGB", (8, 8)).save(small)
        _rgb_from_file(small, MAX_PIXELS)
    Path("/proc/self/clear_refs").write_text("5")  # Forgets the peak of the imports.
    before = peak_bytes()
    started = time.perf_counter()
    rgb = _rgb_from_file(path, MAX_PIXELS)
    seconds = time.perf_counter() - started
    print(rgb.shape[0] * rgb.shape[1], peak_bytes() - before, seconds)


def write_files(folder: Path, width: int, height: int) -> list[Path]:
    """One large file of each kind."""
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(0).integers(0, 16, (height, width))
    gray = ((x * 255 // width + y * 127 // height + noise) % 256).astype(np.uint8)
    rgb = np.stack([gray, gray[::-1], gray[:, ::-1]], axis=-1)
    color = Image.fromarray(rgb)
    color.save(folder / "rgb.png", compress_level=1)
    Image.fromarray(np.dstack([rgb, gray])).save(folder / "rgba.png", compress_level=1)
    Image.fromarray(gray).save(folder / "gray.png", compress_level=1)
    color.quantize(64).save(folder / "palette.png")
    Image.fromarray(gray > 128).save(folder / "bilevel.png")
    Image.fromarray(gray.astype(np.uint16) * 257).save(folder / "gray16.png", compress_level=1)
    color.save(folder / "rgb.jpg", quality=90)
    color.save(folder / "rgb.webp", quality=80, method=0)
    color.save(folder / "rgb.bmp")
    color.save(folder / "lzw.tif", compression="tiff_lzw")
    tifffile.imwrite(folder / "plain.tif", rgb, photometric="rgb")
    tifffile.imwrite(folder / "zip.tif", rgb, photometric="rgb", compression="zlib")
    tifffile.imwrite(folder / "rgb16.tif", rgb.astype(np.uint16) * 257, photometric="rgb")
    return sorted(folder.iterdir())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--width", type=int, default=4000)
    parser.add_argument("--height", type=int, default=3000)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.file is not None:
        measure(options.file)
        return 0
    worst = 0.0
    print(f"{options.width} x {options.height} pixels\nfile            MB  bytes/pixel  seconds")
    with tempfile.TemporaryDirectory() as folder:
        for path in write_files(Path(folder), options.width, options.height):
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.decoding", "--file", str(path)],
                capture_output=True,
                text=True,
                check=True,
            )
            pixels, peak, seconds = map(float, done.stdout.split())
            size = path.stat().st_size
            per_pixel = max(0.0, peak - size) / pixels
            worst = max(worst, per_pixel)
            print(
                f"{path.name:12} {size / 1e6:5.1f}  {per_pixel:11.1f}  {seconds:7.2f}", flush=True
            )
    print(f"largest: {worst:.1f} bytes per pixel; the limit is {LIMIT:.0f}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
