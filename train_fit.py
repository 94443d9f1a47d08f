#!/usr/bin/env python3
"""Fit a picture or a radiance field with and without an encoding, and show the difference."""

import contextlib
import importlib.util
import io
import math
import platform
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar

import numpy as np
import torch
import tyro
from torch import Tensor

import nerf_posenc
from nerf_posenc import radiance, recipes, report
from nerf_posenc.devices import computes_bfloat16, describe, keep_freed_memory, pick_device
from nerf_posenc.filming import filmed_truth, sampled_windows
from nerf_posenc.live import LivePage
from nerf_posenc.metrics import psnr
from nerf_posenc.radiance import FieldOptions
from nerf_posenc.sigma import choose_sigma
from nerf_posenc.training import Audience, Nobody, Training
from nerf_posenc.trials import try_picture, try_pictures, try_scene
from scenes import BUILT_IN, Picture, Scene, SceneError, open_picture, open_scene

PROGRAM = "train_fit.py"

AnyOptions = TypeVar("AnyOptions")

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")

DEFAULT_BANDS = 10

# Bands this far above the picture's Nyquist frequency pass without a warning.
SPARE_BANDS = 2

# A fit this little above one constant colour has not learned the picture.
COLLAPSED_DB = 0.5

# More pictures share no steps: by then they fill any GPU, and the memory grows with each.
MOST_STACKED = 16


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
    """Octaves L of the fourier encoding: sin and cos of 2^k pi x for k = 0 ... L-1; None is 10."""

    encodings: tuple[recipes.Encoding, ...] | None = None
    """What to fit: raw coordinates, octaves, 128 random frequencies, a hash grid; None: none and
    fourier, and for pictures the hash grid, the fastest, where --bands is not given either."""

    sigma: float | Literal["auto"] | None = None
    """Spread of gaussian frequencies, cycles per unit; auto chooses it by pixels of the picture
    that are held out; None is 0.09 of Nyquist."""

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


class UsageError(Exception):
    """A mistake in what was asked for; the message says how to mend it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return 0, 1 where a fit failed, 2 for a mistake in what was asked."""
    arguments = sys.argv[1:] if arguments is None else arguments
    keep_freed_memory()
    try:
        if arguments[:1] == ["compare"]:
            return compare(read_options(CompareOptions, arguments[1:]))
        options = parse(arguments)
        if options.images:
            return run_each(options, arguments)
        return 0 if len(run(options, arguments)) == len(options.fitted) else 1
    except (UsageError, SceneError) as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return 2
    except torch.OutOfMemoryError:
        print(f"{PROGRAM}: error: out of device memory; use --batch-size", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{PROGRAM}: stopped", file=sys.stderr)
        return 130


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


def compare(options: CompareOptions) -> int:
    """Write one page over several runs."""
    if not options.runs:
        raise UsageError("compare needs the folder of one run or more")
    if options.out.exists() and not options.overwrite:
        raise UsageError(f"--out {options.out} is there already; name another or add --overwrite")
    try:
        results = report.write_comparison(options.out, options.runs)
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot write {options.out}: {error.strerror}; use --out") from None
    print(f"{report.table(results)}\n\nwrote {options.out}")
    return 0


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


def run_each(options: Options, arguments: Sequence[str]) -> int:
    """Fit several pictures, each in a folder of its own; one that fails does not stop the rest."""
    files = pictures_of(options.images)
    device = device_of(options)
    parent = run_folder(options, "pictures")
    shares_steps = options.stack == "on" or (options.stack == "auto" and device.type == "cuda")
    say = speaker(options)
    waiting: list[Job] = []
    scores: dict[str, dict[str, float]] = {}
    finished = 0

    def finish_each(jobs: Sequence[Job]) -> None:
        nonlocal finished
        for job in jobs:
            results = finish(job, arguments)
            finished += len(results) == len(options.fitted)
            if results:
                scores[job.folder.name] = {result.encoding: result.psnr for result in results}

    for number, file in enumerate(files):
        say(f"\n[{number + 1} of {len(files)}] {file}")
        name = f"{number:03}-{Path(file).stem}"
        mine = replace(options, image=file, images=(), out=parent / name)
        try:
            job = prepare(mine, device)
        except (UsageError, SceneError) as error:
            print(f"{PROGRAM}: error: {error}", file=sys.stderr)
            continue
        if shares_steps and not options.live:
            waiting.append(job)
        else:
            fit_encodings(job)
            finish_each([job])
    fit_stacked(waiting)
    finish_each(waiting)
    table = report.table_of_pictures(scores, options.fitted)
    if scores:
        (parent / "pictures.txt").write_text(table + "\n", encoding="utf-8")
    else:
        with contextlib.suppress(OSError):
            parent.rmdir()
    say(f"\n{table}\n\nwrote {parent}/")
    return 0 if finished == len(files) else 1


def pictures_of(names: Sequence[str]) -> list[str]:
    """Files and samples, with the pictures of a folder in its place.

    Raises:
        UsageError: where a folder holds none.
    """
    files: list[str] = []
    for name in names:
        folder = Path(name)
        if folder.is_dir():
            found = sorted(f for f in folder.iterdir() if f.suffix.lower() in PICTURE_SUFFIXES)
            if not found:
                raise UsageError(f"--images {name} holds no picture")
            files += map(str, found)
        else:
            files.append(name)
    return files


def device_of(options: Options) -> torch.device:
    """Where to compute.

    Raises:
        UsageError: where that is not there.
    """
    try:
        return pick_device(options.device)
    except ValueError as error:
        raise UsageError(f"--device {error}") from None


def speaker(options: Options) -> Callable[[str], None]:
    """What prints a line, but for ``--quiet``."""
    return (lambda line: None) if options.quiet else print


@dataclass
class Job:
    """A picture or a scene to be fitted.

    Attributes:
        subject: what is fitted.
        options: resolved.
        device: where to compute.
        folder: of the run, made.
        results: of the encodings fitted so far, but for those that failed.
    """

    subject: Picture | Scene
    options: Options
    device: torch.device
    folder: Path
    results: list[report.FitResult] = dataclass_field(default_factory=list)


def run(options: Options, arguments: Sequence[str]) -> list[report.FitResult]:
    """Fit what was asked for and write the run folder; return the fits that did not fail."""
    job = prepare(options, device_of(options))
    fit_encodings(job)
    return finish(job, arguments)


def prepare(options: Options, device: torch.device) -> Job:
    """Open what is to be fitted, settle what was left to the program and make the run folder.

    Raises:
        UsageError: where options do not go together, or the folder cannot be made.
        SceneError: where there is nothing to open.
    """
    say = speaker(options)
    subject = open_subject(options, say)
    size = subject.size if isinstance(subject, Picture) else subject.train.size
    resolve(options, size, device)
    folder = run_folder(options, subject.name)
    say(f"{kind_of(subject):8} {subject.source}, {size[0]} x {size[1]}")
    if isinstance(subject, Scene):
        say(f"views    {len(subject.train)} to fit, {len(subject.test)} to measure by")
        for note in subject.notes:
            say(f"note: {note}")
    say(f"device   {describe(device)}")
    if isinstance(subject, Picture) and not options.quiet and "fourier" in options.fitted:
        warn_of_bands(options.bands or DEFAULT_BANDS, max(size))
    if options.sigma == "auto" and isinstance(subject, Picture):
        say("choosing sigma by held-out pixels ...")
        options.sigma = sigma_of(subject, options, device)
        say(f"sigma    {options.sigma:.2f} cycles per unit")
    return Job(subject, options, device, folder)


def kind_of(subject: Picture | Scene) -> str:
    """What it is called."""
    return "picture" if isinstance(subject, Picture) else "scene"


def fit_encodings(job: Job) -> None:
    """Fit with one encoding after the other."""
    with contextlib.ExitStack() as stack:
        audience: Audience = Nobody()
        if job.options.live:
            audience = page = stack.enter_context(live_page(job.subject, job.device))
            print(f"live     {page.url}", flush=True)
        for encoding in job.options.fitted:
            fit_alone(job, encoding, audience)


def fit_alone(job: Job, encoding: recipes.Encoding, audience: Audience) -> None:
    """Fit with one encoding; say so where it fails."""
    try:
        job.results.append(fit_one(job, encoding, audience))
    except FloatingPointError as error:
        print(f"{PROGRAM}: error: {encoding}: {error} (--lr)", file=sys.stderr)


def fit_stacked(jobs: Sequence[Job]) -> None:
    """Fit pictures that share their steps, those with batches of one size together."""
    groups: dict[int, list[Job]] = {}
    for job in jobs:
        assert isinstance(job.subject, Picture)
        assert job.options.batch_size is not None
        batch_size = min(job.options.batch_size, math.prod(job.subject.size))
        groups.setdefault(batch_size, []).append(job)
    for group in groups.values():
        for start in range(0, len(group), MOST_STACKED):
            stack = group[start : start + MOST_STACKED]
            for encoding in stack[0].options.fitted:
                fit_together(stack, encoding)


def fit_together(jobs: Sequence[Job], encoding: recipes.Encoding) -> None:
    """Fit pictures in the same steps; where that fails, each alone."""
    names = ", ".join(job.subject.name for job in jobs)
    speaker(jobs[0].options)(f"\n{encoding}: {names}")
    pictures = [job.subject for job in jobs if isinstance(job.subject, Picture)]
    if len(jobs) > 1:
        try:
            results = try_pictures(
                [(picture.coordinates(), picture.colours) for picture in pictures],
                encoding,
                training_of(encoding, jobs[0], Nobody()),
                **layers_of(encoding, jobs[0].options),
                sigmas=[sigma_given(job.options) for job in jobs],
            )
        except (FloatingPointError, torch.OutOfMemoryError) as error:
            reason = str(error).splitlines()[0]
            print(f"note: {encoding}: {reason}; now each picture alone", file=sys.stderr)
        else:
            for job, result in zip(jobs, results, strict=True):
                job.results.append(result)
            return
    for job in jobs:
        fit_alone(job, encoding, Nobody())


def finish(job: Job, arguments: Sequence[str]) -> list[report.FitResult]:
    """Write the run folder and say what came of it; return the fits that did not fail."""
    subject, options, folder, results = job.subject, job.options, job.folder, job.results
    if not results:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return []
    size = subject.size if isinstance(subject, Picture) else subject.train.size
    run_details = {
        "command": shlex.join(["python", PROGRAM, *arguments]),
        "options": {**asdict(options), "out": str(folder)},
        kind_of(subject): {"name": subject.name, "source": subject.source, "size": size},
        "device": describe(job.device),
        "training": {
            encoding: {
                "rate": rate_of(encoding, options),
                "precision": str(precision_of(encoding, options, job.device)).removeprefix(
                    "torch."
                ),
            }
            for encoding in options.fitted
        },
        "versions": {
            "nerf_posenc": nerf_posenc.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    }
    truth = write_run(folder, subject, results, options, run_details)
    say = speaker(options)
    say(f"\n{report.table(results)}\n")
    for note in notes(results, options, flat_psnr(truth)):
        say(f"note: {note}")
    for file in sorted(folder.iterdir()):
        say(f"wrote {file}{'/' if file.is_dir() else ''}")
    return results


def open_subject(options: Options, say: Callable[[str], None]) -> Picture | Scene:
    """Open what is to be fitted, in the size that was asked for."""
    if options.scene is None:
        options.image = options.image or "cat"
        picture = open_picture(options.image)
        return picture if options.size is None else picture.resized(options.size)
    if options.scene in BUILT_IN and not Path(options.scene).is_dir():
        say(f"rendering the built-in scene {options.scene} ...")
    scene = open_scene(options.scene, size=options.size)
    return replace(scene, test=scene.test.subset(options.test_views))


def sigma_of(picture: Picture, options: Options, device: torch.device) -> float:
    """Choose the spread of gaussian frequencies from the picture."""
    precision = precision_of("gaussian", options, device)
    return choose_sigma(
        picture.coordinates().reshape(*picture.colours.shape[:2], 2),
        picture.colours,
        device,
        autocast_dtype=None if precision == torch.float32 else precision,
        seed=options.seed,
    )


def write_run(
    folder: Path,
    subject: Picture | Scene,
    results: Sequence[report.FitResult],
    options: Options,
    run_details: dict[str, Any],
) -> Tensor:
    """Write all that the run folder holds; return what the fits were measured by."""
    report.write_metrics(folder / "metrics.json", results, run_details)
    if isinstance(subject, Picture):
        pictures = [r for r in results if isinstance(r, report.PictureResult)]
        report.write_picture_run(folder, subject.colours, pictures, figures=options.figures)
        shown = report.shown_picture(subject.name, subject.colours, pictures)
        filmed = sampled_windows(subject.colours, subject.colours)
        films = {}
        truth = subject.colours
    else:
        fields = [r for r in results if isinstance(r, report.SceneResult)]
        truth = subject.test.over(behind(options))
        report.write_scene_run(folder, truth, fields, figures=options.figures)
        shown = report.shown_views(truth, fields)
        films = {r.encoding: r.film for r in fields if r.film is not None}
        filmed = [filmed_truth(subject.test, behind(options))]
    learning = report.write_film(folder / "learning", filmed, results)
    report.write_page(
        folder / "report.html",
        subject.name,
        shown,
        results,
        run_details,
        films=films,
        learning=learning,
    )
    return truth


def resolve(options: Options, size: tuple[int, int], device: torch.device) -> None:
    """Put numbers in place of what was left to the program.

    Raises:
        UsageError: where the optimizer does not go with the network.
    """
    options.encodings = options.fitted
    options.bands = options.bands or DEFAULT_BANDS
    on_cpu = device.type == "cpu"
    is_scene = options.scene is not None
    full = options.field != "small"
    if is_scene:
        options.steps = options.steps or (700 if on_cpu else 5000)
        options.batch_size = options.batch_size or (1024 if on_cpu or full else 8192)
        options.width = options.width or (256 if full else 128)
        options.depth = options.depth or (8 if full else 4)
    else:
        options.steps = options.steps or (600 if on_cpu else 2000)
        options.batch_size = options.batch_size or (8192 if on_cpu else 65536)
    if options.optimizer == "auto":
        options.optimizer = recipes.default_optimizer(options.network)
    try:
        recipes.default_rate(options.network, options.optimizer)
    except ValueError as error:
        raise UsageError(f"--network {error}") from None
    if options.sigma != "auto":
        options.sigma = options.sigma or recipes.default_sigma(max(size))


def behind(options: Options) -> float:
    """Grey behind the views that a scene is measured by."""
    return 0.0 if options.background == "black" else 1.0


def flat_psnr(truth: Tensor) -> float:
    """PSNR of one constant colour, the mean."""
    return psnr(truth.flatten(0, -2).mean(0).expand_as(truth), truth)


def notes(results: Sequence[report.FitResult], options: Options, flat_db: float) -> Iterator[str]:
    """What a person should know who reads the table."""
    for result in results:
        if result.steps < (options.steps or 0):
            taken = f"{result.steps} of {options.steps} steps"
            yield f"{result.encoding} was ended early, after {taken}"
        elif result.psnr < flat_db + COLLAPSED_DB:
            yield (
                f"{result.encoding} stayed at one constant colour ({flat_db:.1f} dB); try more "
                "--steps, another --seed or a smaller --lr"
            )


def rate_of(encoding: recipes.Encoding, options: Options) -> float:
    """Peak learning rate of a fit, by options that are resolved."""
    assert options.optimizer != "auto"
    if options.lr is not None:
        return options.lr
    if options.scene is not None:
        return {"muon": radiance.MUON_LR, "adam": radiance.ADAM_LR}[options.optimizer]
    return recipes.default_rate(options.network, options.optimizer, encoding)


def precision_of(encoding: recipes.Encoding, options: Options, device: torch.device) -> torch.dtype:
    """Type that a fit's network trains in."""
    if options.network == "wire":
        # Complex numbers have no half precision.
        return torch.float32
    if options.precision != "auto":
        return torch.float32 if options.precision == "float32" else torch.bfloat16
    # The small network behind a picture's grid is no faster in bfloat16 on a CPU, and less exact.
    is_small = encoding == "hash" and options.scene is None and device.type == "cpu"
    return torch.bfloat16 if computes_bfloat16(device) and not is_small else torch.float32


def run_folder(options: Options, name: str) -> Path:
    """Make the run folder.

    Raises:
        UsageError: where it cannot be made or written, or holds files already.
    """
    try:
        return report.make_run_folder(options.out, name, overwrite=options.overwrite)
    except FileExistsError as error:
        if options.out is not None and options.out.is_dir():
            raise UsageError(f"--out {error}; name another folder or add --overwrite") from None
        raise UsageError(f"--out {options.out} is a file; name a folder") from None
    except OSError as error:
        place = options.out or "runs"
        raise UsageError(
            f"cannot write to the folder {place}: {error.strerror}; use --out"
        ) from None


def warn_of_bands(num_bands: int, resolution: int) -> None:
    """Say so where bands lie far above what so many pixels across [-1, 1] can hold."""
    # Half a cycle a pixel is pi * resolution / 2 rad per unit.
    enough = 1 + max(0, math.floor(math.log2(resolution / 2)))
    if num_bands > enough + SPARE_BANDS:
        print(
            f"warning: bands above {enough} lie beyond the Nyquist frequency of a picture of "
            f"{resolution} pixels and only add noise; --bands {enough} suffices",
            file=sys.stderr,
        )


def live_page(subject: Picture | Scene, device: torch.device) -> LivePage:
    """Page that shows the fits of a picture or a scene."""
    if isinstance(subject, Picture):
        whole, _ = sampled_windows(subject.colours, subject.colours)
        return LivePage(subject.name, original=whole)
    pixels = 96**2 if device.type == "cpu" else 512**2
    return LivePage(subject.name, poses=subject.train.world_from_camera, pixels=pixels)


def training_of(encoding: recipes.Encoding, job: Job, audience: Audience) -> Training:
    """How to fit with one encoding."""
    options = job.options
    assert options.steps is not None
    assert options.batch_size is not None
    assert options.optimizer != "auto"
    precision = precision_of(encoding, options, job.device)
    return Training(
        options.steps,
        options.batch_size,
        options.optimizer,
        rate_of(encoding, options),
        job.device,
        None if precision == torch.float32 else precision,
        options.seed,
        options.quiet,
        options.film,
        audience,
        options.compile,
    )


class Layers(TypedDict):
    """The model of a picture, but for the spread of its frequencies."""

    network: recipes.NetworkName
    width: int
    depth: int
    num_bands: int


def layers_of(encoding: recipes.Encoding, options: Options) -> Layers:
    """The model of a picture, by options that are resolved."""
    assert options.bands is not None
    width, depth = recipes.default_layers(encoding)
    return Layers(
        network=options.network,
        width=options.width or width,
        depth=options.depth or depth,
        num_bands=options.bands,
    )


def sigma_given(options: Options) -> float | None:
    """Spread of gaussian frequencies, by options that are resolved."""
    assert options.sigma != "auto"
    return options.sigma


def fit_one(job: Job, encoding: recipes.Encoding, audience: Audience) -> report.FitResult:
    """Fit the picture or the scene with one encoding."""
    subject, options = job.subject, job.options
    training = training_of(encoding, job, audience)
    if isinstance(subject, Picture):
        return try_picture(
            subject.coordinates(),
            subject.colours,
            encoding,
            training,
            **layers_of(encoding, options),
            sigma=sigma_given(options),
        )
    assert options.bands is not None
    field = FieldOptions(
        options.field,
        encoding,
        num_bands=options.bands,
        sigma=sigma_given(options),
        width=options.width,
        depth=options.depth,
        seed=options.seed,
    )
    try:
        return try_scene(
            subject.train,
            subject.test,
            field,
            training,
            background=options.background,
            film=job.folder / f"turntable_{encoding}" if options.turntable else None,
            num_frames=options.turntable,
        )
    except ValueError as error:
        raise UsageError(f"--scene {options.scene}: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
