"""Make the images of the README and the gallery, and two reports, from the program.

    python -m docs.make_run_images [NAME ...]

Writes the comparison of each run of the galleries, the training video of the default run and the
reports of `PAGES`. All take ten minutes and need the extra ``references``; those of `MORE` need the
companion with its extras ``shapes`` and ``medical``.
"""

import contextlib
import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image

import train_fit
from nerf_posenc_app.report import video

DOCS = Path(__file__).resolve().parent
RUNS = {
    "zone-plate": [
        *("--image", "zone-plate", "--size", "256", "--bands", "3", "5", "7"),
        *("--encodings", "none", "fourier"),
    ],
    "comparison": ["--image", "cat", "--bands", "10"],
    "spheres": ["--scene", "spheres", "--bands", "10"],
    "phrase": ["--audio", "phrase"],
    "brick": ["--shape", "brick"],
    "scan": ["--scan", "shepp-logan", "--encodings", "none", "fourier", "gaussian", "hash"],
    # The template of a head that nilearn brings along (pip install --no-deps nilearn).
    "volume": [
        *("--volume", "mni.nii.gz", "--size", "96", "--every", "4"),
        *("--encodings", "none", "gaussian"),
    ],
    "observed": [
        *("--image", "cat", "--size", "384", "--observed", "0.1", "--sigma", "auto"),
        *("--encodings", "none", "gaussian", "--references", "given", "linear"),
    ],
    "clip": ["--clip", "spheres", "--steps", "1000"],
}
"""Command lines by the name of the image that is made of each."""
MORE = ("phrase", "brick", "scan", "volume", "clip")
"""Those of the companion, whose images are on its own pages."""
PAGES = {"comparison": "cat.html", "spheres": "spheres.html"}
_WIDTH = 1600


def image_path(name: str) -> Path:
    """Where the image of a run is kept."""
    folder = DOCS.parent / "more/docs" if name in MORE else DOCS
    return folder / "images" / f"{name}.png"


def _head() -> Path:
    """The template, without an import of its package, which wants more."""
    package = importlib.util.find_spec("nilearn")
    assert package is not None
    assert package.origin is not None
    data = Path(package.origin).parent / "datasets" / "data"
    return data / "mni_icbm152_t1_tal_nlin_sym_09a_converted.nii.gz"


def main(names: list[str]) -> None:
    # An animated WebP plays wherever a README is shown; an MP4 does not.
    video.has_ffmpeg = lambda: False
    for name in names or RUNS:
        # The exported page names its run.
        with tempfile.TemporaryDirectory() as home, contextlib.chdir(home):
            if name == "volume":
                shutil.copy(_head(), "mni.nii.gz")
            run = Path({"comparison": "cat"}.get(name, name))
            assert train_fit.main([*RUNS[name], "--out", str(run)]) == 0
            with Image.open(run / "comparison.png") as image:
                image.thumbnail((_WIDTH, 4 * _WIDTH))
                image.convert("RGB").quantize(255).save(image_path(name), optimize=True)
            if name == "comparison":
                shutil.copy(run / "learning.webp", image_path(name).with_name("learning.webp"))
            if name in PAGES:
                shutil.copy(run / "report.html", DOCS / PAGES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
