"""The command line: what can be asked for, and what of it is refused."""

import contextlib
import importlib.util
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import tyro

from nerf_posenc.radiance import recipes as radiance
from nerf_posenc.training import recipes

PROGRAM = "train_fit.py"

AnyOptions = TypeVar("AnyOptions")


class UsageError(Exception):
    """A mistake in what was asked for; the message says how to mend it."""


@dataclass
class Options:
    """Fit a picture or a scene with and without encoding; or: train_fit.py compare RUN ..."""

    image: str | None = None
    """Picture to fit: a file or a bundled sample; cat where no --scene is named either."""

    images: tuple[str, ...] = ()
    """Several pictures, or folders of pictures: each gets a run of its own, then their mean."""

    stack: Literal["auto", "on", "off"] = "auto"
    """Fit the pictures of --images in the same steps, each by its own model; auto: on a GPU."""

    scene: str | None = None
    """Scene to fit: a folder of posed pictures, or blocks, cloud, spheres or struts."""

    bands: int | None = None
    """Octaves L of the fourier encoding: sin and cos of 2^k pi x for k = 0 ... L-1; None is 10;
    with --held-out as many as end one octave below the Nyquist frequency, 10 at most."""

    encodings: tuple[recipes.Encoding, ...] | None = None
    """What to fit: raw coordinates, octaves, 128 random frequencies, a hash grid; None: none and
    fourier, and for pictures the hash grid, the fastest, where --bands is not given either; with
    --held-out none, fourier and gaussian."""

    sigma: float | Literal["auto"] | None = None
    """Spread of gaussian frequencies, cycles per unit; auto chooses it by pixels of the picture
    that are held out; None is 0.09 of Nyquist."""

    held_out: bool = False
    """Fit every second pixel of every second row of a picture, and measure and show those between:
    what an encoding makes of places it was not given."""

    size: int | None = None
    """First shrink the pictures to this many pixels along their longer side."""

    steps: int | None = None
    """Optimizer steps of each fit; None: picture 600, scene 700; on a GPU 2000 and 5000."""

    batch_size: int | None = None
    """Pixels or rays a step; None: 8192 and 1024; on a GPU 65536 and 8192."""

    network: recipes.NetworkName = "relu"
    """Network behind the encoding of a picture; all but relu are meant for raw coordinates."""

    field: radiance.FieldName = "small"
    """Field of a scene: small, with an occupancy grid; that of NeRF; or that of mip-NeRF."""

    width: int | None = None
    """Units in each hidden layer; None: picture 256, behind a hash grid 64; scene 128; 256 for
    nerf and mip."""

    depth: int | None = None
    """Hidden layers; None is 4; 2 for a picture behind a hash grid; 8 for nerf and mip."""

    optimizer: Literal["auto", "muon", "adam"] = "auto"
    """Muon on matrices with Adam on the rest, or Adam; auto is muon for relu, else adam."""

    lr: float | None = None
    """Peak learning rate; None is the best found for the network and the optimizer."""

    background: Literal["white", "black", "random"] = "white"
    """What is behind a scene whose pictures have an opacity; random while fitting alone."""

    test_views: int = 25
    """Views of a scene to measure by, evenly spread over those it holds out."""

    turntable: int = 20
    """Frames of the film that goes round a fitted scene; 0 for none."""

    film: int = 16
    """Frames of the film that shows the fits as they learn, 2 or more; 0 for none."""

    figures: bool = False
    """Also write every figure for print, as PNG and SVG."""

    live: bool = False
    """Show the fits as they learn on a page at 127.0.0.1; a scene's camera can be turned."""

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type the network trains in; auto is bfloat16 where the processor computes in it."""

    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:N or mps."""

    compile: bool = False
    """Compile the model of a picture first, on a GPU with CUDA graphs: a minute's wait before a
    long fit."""

    seed: int = 0
    """Of the initial weights and the order of the pixels."""

    out: Path | None = None
    """Run folder to make; None is a new one under runs/."""

    overwrite: bool = False
    """Let --out be a folder that holds files already."""

    quiet: bool = False
    """Print errors only."""

    @property
    def fitted(self) -> tuple[recipes.Encoding, ...]:
        """What to fit, also where it was left to the program."""
        if self.encodings is not None:
            return self.encodings
        if self.held_out:
            return ("none", "fourier", "gaussian")
        grid = self.bands is None and self.scene is None and self.network == "relu"
        return ("none", "fourier", "hash") if grid else ("none", "fourier")


@dataclass
class CompareOptions:
    """Write one page over several runs."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs."""

    out: Path = Path("runs/comparison.html")
    """Page to write."""

    overwrite: bool = False
    """Let --out be a file that is there already."""


def parse(arguments: Sequence[str]) -> Options:
    """Read the command line.

    Raises:
        UsageError: where it cannot be read, or a number is out of its range.
    """
    options = read_options(Options, arguments)
    at_least_one = ("steps", "batch_size", "width", "depth", "size", "test_views")
    for name in at_least_one:
        value = getattr(options, name)
        if value is not None and value < 1:
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} must be 1 or more; got {value}")
    if options.turntable < 0:
        raise UsageError(f"--turntable must be 0 or more; got {options.turntable}")
    if options.film < 0 or options.film == 1:
        raise UsageError(f"--film must be 2 or more, or 0 for none; got {options.film}")
    if options.live and importlib.util.find_spec("viser") is None:
        raise UsageError("--live needs viser: pip install 'nerf_posenc[live]'")
    given = [options.image is not None, bool(options.images), options.scene is not None]
    if sum(given) > 1:
        raise UsageError("give one of --image, --images and --scene")
    if options.held_out and options.scene is not None:
        raise UsageError("--held-out is for pictures; a scene has views that it holds out")
    if options.stack == "on" and not options.images:
        raise UsageError("--stack on is for several pictures: --images")
    if options.stack == "on" and options.live:
        raise UsageError("--live shows one picture at a time; leave out --stack on")
    if options.compile and options.scene is not None:
        raise UsageError(
            "--compile is for pictures: the rays of a scene ask a field at other places each step"
        )
    if options.scene is not None and options.field != "small":
        wrong = set(options.fitted) - {"none", "fourier"}
        if wrong:
            raise UsageError(
                f"--field {options.field} is made for the encodings none and fourier, not for "
                f"{', '.join(sorted(wrong))}; use the small field"
            )
    if options.scene is not None and options.network != "relu":
        raise UsageError(f"--network {options.network} is for pictures; a --scene has a --field")
    if options.bands == 0:
        raise UsageError(
            "--bands must be 1 or more; 0 bands are the raw coordinates: --encodings none"
        )
    if options.bands is not None and not 1 <= options.bands <= 100:
        raise UsageError(f"--bands must be 1 to 100; got {options.bands}")
    if not options.fitted:
        raise UsageError("--encodings needs one name or more: none, fourier, gaussian, hash")
    if len(set(options.fitted)) < len(options.fitted):
        raise UsageError("--encodings names an encoding twice; give each once")
    if isinstance(options.sigma, float) and not (
        math.isfinite(options.sigma) and options.sigma > 0
    ):
        raise UsageError(f"--sigma must be a finite number above 0 or auto; got {options.sigma}")
    if options.sigma == "auto" and options.scene is not None:
        raise UsageError("--sigma auto is for pictures; give a --scene a number")
    if options.sigma == "auto" and "gaussian" not in options.fitted:
        raise UsageError("--sigma auto is for gaussian features; name gaussian in --encodings")
    if options.lr is not None and not (math.isfinite(options.lr) and options.lr > 0):
        raise UsageError(f"--lr must be a finite number above 0; got {options.lr}")
    return options


def read_options(kind: type[AnyOptions], arguments: Sequence[str]) -> AnyOptions:
    """Read options as the parser knows them; its message becomes one line.

    Raises:
        UsageError: where they cannot be read.
    """
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            return tyro.cli(kind, args=list(arguments), prog=PROGRAM)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UsageError(_unboxed(printed.getvalue())) from None


def _unboxed(message: str) -> str:
    """Put the parser's boxed message into one line, without the help that follows."""
    sections: list[list[str]] = [[]]
    for line in message.splitlines()[1:]:
        text = line.strip(" │|")
        if text and set(text) <= set("─-╰╯+"):
            sections.append([])
        elif text:
            sections[-1].append(text)
    said = [" ".join(sections[0]).removesuffix(".")]
    said += [" ".join(part[:2]) for part in sections[1:] if part[:1] == ["Perhaps you meant:"]]
    return f"{'; '.join(said)} (see {PROGRAM} --help)"
