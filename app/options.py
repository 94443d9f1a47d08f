"""Command-line options, and the combinations that are refused."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from app.conflicts import check_conflicts
from app.encoding_options import check_encodings, check_names
from app.parsing import UsageError, read_options
from app.sequence_options import SequenceOptions, check_sequence_options
from nerf_posenc.radiance.recipes import FieldName
from nerf_posenc.training.recipes import ENCODINGS, NetworkName

# Cycles per unit: far above the Nyquist frequency of any image.
_MOST_SIGMA = 1e6
_LEAST_PARAMETERS = 1000
# Nodes per axis of a grid: those of its coarsest level, and more than any image has pixels.
_LEAST_NODES, _MOST_NODES = 16, 1 << 17

ENCODING_HELP = (
    "Encodings to fit: "
    + ", ".join(f"{name} ({recipe.description})" for name, recipe in ENCODINGS.items())
    + ". None: none and fourier, and for images without --bands hash, the fastest; above 8 "
    "megapixels, beside hash, local-cosine instead of none; with "
    "--held-out none, fourier, gaussian and hash-internal; with --parameters none, fourier, hash "
    "and local-cosine; with both none, fourier, gaussian, hash-internal and local-cosine. auto: "
    "none and the best by forecast."
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Fit an image, a scene or a sequence with and without encoding."""

    image: str | None = None
    """Image to fit: a file or a bundled sample; cat if no --scene is given either."""

    images: tuple[str, ...] | None = None
    """Several images, or folders of images, each with its own run; their mean is printed last."""

    stack: Literal["auto", "on", "off"] = "auto"
    """Train the models of --images as one batched ensemble; auto: on a GPU."""

    scene: str | None = None
    """Scene to fit: a folder of posed images, or blocks, cloud, spheres or struts."""

    sequences: Annotated[SequenceOptions, tyro.conf.OmitArgPrefixes] = dataclasses.field(
        default_factory=SequenceOptions
    )

    bands: int | None = None
    """Frequency bands L of the fourier encoding: sin and cos of 2^k pi x for k = 0 ... L-1; None is
    10, on a small image at most two above its Nyquist frequency, above a megapixel all up to it;
    with --held-out the bands up to one octave below it, 10 at most."""

    encodings: Annotated[
        tuple[str, ...] | None,
        tyro.conf.arg(metavar=f"[{{{','.join(ENCODINGS)},auto}} ...]", help=ENCODING_HELP),
    ] = None

    parameters: int | None = None
    """Most parameters of the model of an image: the largest network or grid within them is fitted
    by each encoding, and what it takes in float16 and in 8 bits is printed. None: the width and the
    tables' default size."""

    sigma: float | Literal["auto"] | None = None
    """Standard deviation of the gaussian frequencies in cycles per unit; auto chooses it by
    held-out pixels of the image; None is 0.09 of Nyquist."""

    finest: int | None = None
    """Nodes per axis of the finest level of an image's hash grid; None is one per pixel. More store
    more of the image, and take more parameters and time."""

    held_out: bool = False
    """Fit every second pixel of every second row of an image, and evaluate and show those between:
    what an encoding predicts at positions that it was not given."""

    size: int | None = None
    """First reduce the images to this many pixels along their longer side."""

    steps: int | None = None
    """Training steps of each fit; None: image 600, scene 700, with --field factored 3000; on a GPU
    2000 and 5000. Above a megapixel the steps of an image grow with the root of its pixels."""

    seconds: float | None = None
    """Seconds of training of each fit of an image or a scene, instead of --steps: the learning
    rates follow the clock, and a second run does not give the same bits."""

    batch_size: int | None = None
    """Pixels or rays per step; None: 8192 and 1024; on a GPU 65536 and 8192. Images of more than 4
    megapixels have 32768."""

    network: NetworkName = "relu"
    """Network after the encoding of an image; all but relu are meant for raw coordinates."""

    field: Literal[FieldName, "auto"] = "small"
    """Field of a scene: small (with an occupancy grid), nerf, mip (mip-NeRF), or factored
    (TensoRF's grids: the best images in the shortest time). auto is factored."""

    width: int | None = None
    """Units per hidden layer; None: image 256, after a hash grid 64; scene 128; 64 for factored and
    256 for nerf and mip."""

    depth: int | None = None
    """Hidden layers; None is 4; 2 for an image after a hash grid and for factored; 8 for nerf and
    mip."""

    optimizer: Literal["auto", "muon", "adam"] = "auto"
    """Muon on matrices with Adam on the rest, or Adam; auto is muon for relu, else adam."""

    lr: float | None = None
    """Peak learning rate; None is the default of the network and the optimizer."""

    background: Literal["auto", "white", "black", "random"] = "auto"
    """Background of a scene; random during training only. auto is white for images with an
    opacity, and random for others, so that empty space cannot pass for a white wall."""

    exposure: bool = False
    """Learn a gain for each photograph and color channel, with --field factored or auto: for
    captures with automatic exposure. Test views are rendered at the mean exposure."""

    test_views: int = 25
    """Test views of a scene, evenly spread over those that are held out."""

    turntable: int = 20
    """Frames of the turntable video of a fitted scene; 0 for none."""

    video: int = 16
    """Frames of the training video, 2 or more; 0 for none."""

    figures: bool = False
    """Also write every figure for print, as PNG and SVG."""

    live: bool = False
    """Show the fits in progress on a page at 127.0.0.1; a scene's camera can be moved."""

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type that the network trains in; auto is bfloat16 if the hardware supports it."""

    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:N or mps."""

    compile: bool = False
    """Compile the model of an image first, on a GPU with CUDA graphs: a minute's wait before a
    long fit."""

    seed: int = 0
    """Seed of the initial weights and the batches."""

    out: Path | None = None
    """Run folder to create; None is a new one under runs/."""

    save_every: float = 60.0
    """Seconds between two saves of a fit; train_fit.py --resume RUN goes on from the last one."""

    max_pixels: int = 200_000_000
    """Most pixels of an image file; a larger one is refused before it is decoded."""

    overwrite: bool = False
    """Let --out be a folder that already contains files."""

    open: bool = False
    """Open the report in the browser when it is written."""

    quiet: bool = False
    """Print errors only."""

    @property
    def is_scene(self) -> bool:
        """Whether a scene is fitted."""
        return self.scene is not None

    @property
    def is_sequence(self) -> bool:
        """Whether a sequence is fitted."""
        return self.sequences.sequence is not None

    @property
    def is_auto(self) -> bool:
        """Whether the encoding is left to a forecast for the image."""
        return "auto" in (self.encodings or ())

    @property
    def scene_field(self) -> FieldName:
        """Field of a scene, with what auto stands for."""
        return "factored" if self.field == "auto" else self.field

    @property
    def _takes_series(self) -> bool:
        """Whether a series is fitted by default, beside the usual network."""
        return self.parameters is not None and self.network == "relu" and not self.is_scene

    @property
    def fitted(self) -> tuple[str, ...]:
        """Encodings of an image or a scene to fit, also if none are named."""
        if self.encodings is not None:
            return ("none",) if self.is_auto else self.encodings
        if self.is_scene and self.scene_field == "factored":
            return ("vector-matrix",)
        if self.held_out:
            series = ("local-cosine",) if self._takes_series else ()
            return ("none", "fourier", "gaussian", "hash-internal", *series)
        if self._takes_series:
            return ("none", "fourier", "hash", "local-cosine")
        with_grid = self.bands is None and not self.is_scene and self.network == "relu"
        return ("none", "fourier", "hash") if with_grid else ("none", "fourier")


def parse(arguments: Sequence[str]) -> Options:
    """Parse and check the command line.

    Raises:
        UsageError: If it cannot be parsed, a value is out of its range, or options conflict.
    """
    options = read_options(Options, arguments)
    _check_ranges(options)
    check_sequence_options(options.sequences)
    check_names(options.encodings)
    if not options.is_sequence:
        check_encodings(options)
    check_conflicts(options)
    return options


def _check_ranges(options: Options) -> None:
    counts = ("steps", "batch_size", "width", "depth", "size", "test_views")
    for name in (*counts, "max_pixels"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be 1 or more; got {value}")
    if options.finest is not None and not _LEAST_NODES <= options.finest <= _MOST_NODES:
        raise UsageError(
            f"--finest must be {_LEAST_NODES} to {_MOST_NODES:,} nodes; got {options.finest}"
        )
    if options.parameters is not None and options.parameters < _LEAST_PARAMETERS:
        raise UsageError(
            f"--parameters must be {_LEAST_PARAMETERS} or more; got {options.parameters}"
        )
    if options.turntable < 0:
        raise UsageError(f"--turntable must be 0 or more; got {options.turntable}")
    if options.video < 0 or options.video == 1:
        raise UsageError(f"--video must be 2 or more, or 0 for none; got {options.video}")
    if options.bands == 0:
        raise UsageError(
            "--bands must be 1 or more; 0 bands are the raw coordinates: --encodings none"
        )
    if options.bands is not None and not 1 <= options.bands <= 100:
        raise UsageError(f"--bands must be 1 to 100; got {options.bands}")
    is_number = options.sigma is not None and options.sigma != "auto"
    if is_number and not 0 < float(options.sigma or 0) <= _MOST_SIGMA:
        raise UsageError(
            f"--sigma must be cycles per unit, above 0 and up to {_MOST_SIGMA:g}, or auto; got "
            f"{options.sigma}"
        )
    if not 0 <= options.seed < 1 << 32:
        raise UsageError(f"--seed must be 0 to 2^32 - 1; got {options.seed}")
    for name, seconds in {"save-every": options.save_every, "seconds": options.seconds}.items():
        if not _is_positive(seconds):
            raise UsageError(f"--{name} must be a finite number of seconds above 0; got {seconds}")
    if not _is_positive(options.lr):
        raise UsageError(f"--lr must be a finite number above 0; got {options.lr}")


def _is_positive(value: float | None) -> bool:
    return value is None or (math.isfinite(value) and value > 0)
