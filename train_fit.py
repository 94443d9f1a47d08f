#!/usr/bin/env python3
"""Fit a small network to a picture with and without an encoding, and show the difference."""

import contextlib
import io
import math
import platform
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import imageio.v3 as iio
import numpy as np
import numpy.typing as npt
import torch
import tyro
from torch import Tensor, nn
from tqdm import tqdm

import nerf_posenc
from nerf_posenc import recipes, report
from nerf_posenc.devices import computes_bfloat16, describe, pick_device
from nerf_posenc.fitting import FitState, ShuffledBatches, fit, predict
from nerf_posenc.metrics import psnr, psnr_from_mse, ssim
from nerf_posenc.networks import NETWORKS, num_parameters
from scenes import Picture, SceneError, open_picture

PROGRAM = "train_fit.py"

# Bands this far above the picture's Nyquist frequency pass without a warning.
SPARE_BANDS = 2

# A fit this little above one constant colour has not learned the picture.
COLLAPSED_DB = 0.5


@dataclass
class Options:
    """Fit a small network to a picture, with and without an encoding of its coordinates."""

    image: str = "cat"
    """Picture file to fit, or a bundled sample; an unknown name lists the samples."""

    bands: int = 10
    """Octaves L of the fourier encoding: sin and cos of 2^k pi x for k = 0 ... L-1."""

    encodings: tuple[recipes.Encoding, ...] = ("none", "fourier")
    """What to fit: raw coordinates, octaves, 128 random frequencies, a hash grid."""

    sigma: float | None = None
    """Spread of gaussian frequencies, cycles per unit; None is 0.09 of Nyquist."""

    size: int | None = None
    """First shrink the picture to this many pixels along its longer side."""

    steps: int | None = None
    """Optimizer steps of each fit; None is 600 on a CPU and 2000 on a GPU."""

    batch_size: int | None = None
    """Pixels a step; None is 8192 on a CPU and 65536 on a GPU."""

    network: recipes.NetworkName = "relu"
    """Network behind the encoding; all but relu are meant for raw coordinates."""

    width: int = 256
    """Units in each hidden layer."""

    depth: int = 4
    """Hidden layers."""

    optimizer: Literal["auto", "muon", "adam"] = "auto"
    """Muon on matrices with Adam on the rest, or Adam; auto is muon for relu, else adam."""

    lr: float | None = None
    """Peak learning rate; None is the best found for the network and the optimizer."""

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type the network trains in; auto is bfloat16 where the processor computes in it."""

    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:N or mps."""

    seed: int = 0
    """Of the initial weights and the order of the pixels."""

    out: Path | None = None
    """Run folder to make; None is a new one under runs/."""

    overwrite: bool = False
    """Let --out be a folder that holds files already."""

    quiet: bool = False
    """Print errors only."""


class UsageError(Exception):
    """A mistake in what was asked for; the message says how to mend it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return 0, 1 where a fit failed, 2 for a mistake in what was asked."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return run(parse(arguments), arguments)
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
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            options = tyro.cli(Options, args=list(arguments), prog=PROGRAM)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UsageError(_unboxed(printed.getvalue())) from None
    at_least_one = ("steps", "batch_size", "width", "depth", "size")
    for name in at_least_one:
        value = getattr(options, name)
        if value is not None and value < 1:
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} must be 1 or more; got {value}")
    if options.bands == 0:
        raise UsageError(
            "--bands must be 1 or more; 0 bands are the raw coordinates: --encodings none"
        )
    if not 1 <= options.bands <= 100:
        raise UsageError(f"--bands must be 1 to 100; got {options.bands}")
    if not options.encodings:
        raise UsageError("--encodings needs one name or more: none, fourier, gaussian, hash")
    if len(set(options.encodings)) < len(options.encodings):
        raise UsageError("--encodings names an encoding twice; give each once")
    if options.sigma is not None and not (math.isfinite(options.sigma) and options.sigma > 0):
        raise UsageError(f"--sigma must be a finite number above 0; got {options.sigma}")
    if options.lr is not None and not (math.isfinite(options.lr) and options.lr > 0):
        raise UsageError(f"--lr must be a finite number above 0; got {options.lr}")
    return options


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


def run(options: Options, arguments: Sequence[str]) -> int:
    """Fit what was asked for and write the run folder."""
    try:
        device = pick_device(options.device)
    except ValueError as error:
        raise UsageError(f"--device {error}") from None
    picture = open_picture(options.image)
    if options.size is not None:
        picture = picture.resized(options.size)
    precision = pick_precision(options.precision, device, options.network)
    resolve(options, picture, device)
    folder = make_run_folder(options, picture.name)
    say = (lambda line: None) if options.quiet else print
    width, height = picture.size
    say(f"picture  {picture.source}, {width} x {height}")
    say(f"device   {describe(device)}, {str(precision).removeprefix('torch.')}")
    if not options.quiet and "fourier" in options.encodings:
        warn_of_bands(options.bands, picture)

    results = []
    for encoding in options.encodings:
        try:
            results.append(fit_picture(picture, encoding, options, device, precision))
        except FloatingPointError as error:
            print(f"{PROGRAM}: error: {encoding}: {error} (--lr)", file=sys.stderr)
    if not results:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return 1
    run_details = {
        "command": shlex.join(["python", PROGRAM, *arguments]),
        "options": {**asdict(options), "out": str(folder)},
        "picture": {"name": picture.name, "source": picture.source, "size": picture.size},
        "device": describe(device),
        "precision": str(precision).removeprefix("torch."),
        "versions": {
            "nerf_posenc": nerf_posenc.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    }
    write_folder(folder, picture, results, run_details)
    say(f"\n{report.table(results)}\n")
    for note in notes(picture, results, options):
        say(f"note: {note}")
    for file in sorted(folder.iterdir()):
        say(f"wrote {file}")
    return 0 if len(results) == len(options.encodings) else 1


def resolve(options: Options, picture: Picture, device: torch.device) -> None:
    """Put numbers in place of what was left to the program.

    Raises:
        UsageError: where the optimizer does not go with the network.
    """
    on_cpu = device.type == "cpu"
    options.steps = options.steps or (600 if on_cpu else 2000)
    options.batch_size = options.batch_size or (8192 if on_cpu else 65536)
    if options.optimizer == "auto":
        options.optimizer = recipes.default_optimizer(options.network)
    try:
        options.lr = options.lr or recipes.default_rate(options.network, options.optimizer)
    except ValueError as error:
        raise UsageError(f"--network {error}") from None
    options.sigma = options.sigma or recipes.default_sigma(max(picture.size))


def write_folder(
    folder: Path,
    picture: Picture,
    results: Sequence[report.FitResult],
    run_details: dict[str, Any],
) -> None:
    """Write the figures and the pictures of a run."""
    iio.imwrite(folder / "original.png", eight_bit(picture.colours))
    for result in results:
        iio.imwrite(folder / f"{result.encoding}.png", eight_bit(result.reconstruction))
    report.write_metrics(folder / "metrics.json", results, run_details)
    report.save_comparison(folder / "comparison.png", picture.colours, results)
    report.save_curves(folder / "curves.png", results)


def notes(picture: Picture, results: Sequence[report.FitResult], options: Options) -> Iterator[str]:
    """What a person should know who reads the table."""
    flat = picture.colours.mean((0, 1)).expand_as(picture.colours)
    flat_db = psnr(flat, picture.colours)
    for result in results:
        if result.steps < (options.steps or 0):
            taken = f"{result.steps} of {options.steps} steps"
            yield f"{result.encoding} was ended early, after {taken}"
        elif result.psnr < flat_db + COLLAPSED_DB:
            yield (
                f"{result.encoding} stayed at one constant colour ({flat_db:.1f} dB); try more "
                "--steps, another --seed or a smaller --lr"
            )


def pick_precision(name: str, device: torch.device, network: str) -> torch.dtype:
    """Choose the type that the network trains in; a complex one knows float32 alone."""
    if network == "wire":
        return torch.float32
    if name != "auto":
        return torch.float32 if name == "float32" else torch.bfloat16
    return torch.bfloat16 if computes_bfloat16(device) else torch.float32


def make_run_folder(options: Options, name: str) -> Path:
    """Make the run folder, never one that another run has filled.

    Raises:
        UsageError: where it cannot be made or written, or holds files already.
    """
    try:
        if options.out is not None:
            options.out.mkdir(parents=True, exist_ok=True)
            if not options.overwrite and any(options.out.iterdir()):
                raise UsageError(
                    f"--out {options.out} holds files already; name another folder or add "
                    "--overwrite"
                )
            folder = options.out
        else:
            stamp = time.strftime("%Y%m%d-%H%M%S")
            folder = Path("runs", f"{name}-{stamp}")
            for again in range(2, 1000):
                with contextlib.suppress(FileExistsError):
                    folder.mkdir(parents=True)
                    break
                folder = Path("runs", f"{name}-{stamp}-{again}")
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        place = options.out or "runs"
        raise UsageError(
            f"cannot write to the folder {place}: {error.strerror}; use --out"
        ) from None
    return folder


def warn_of_bands(num_bands: int, picture: Picture) -> None:
    """Say so where bands lie far above what the picture's pixels can hold."""
    enough = 1 + max(0, math.floor(math.log2(picture.nyquist / math.pi)))
    if num_bands > enough + SPARE_BANDS:
        print(
            f"warning: bands above {enough} lie beyond the Nyquist frequency of a picture of "
            f"{max(picture.size)} pixels and only add noise; --bands {enough} suffices",
            file=sys.stderr,
        )


def make_model(encoding: recipes.Encoding, options: Options, picture: Picture) -> nn.Module:
    """Build the encoder and the network behind it."""
    torch.manual_seed(options.seed)
    encoder = recipes.make_encoder(
        encoding,
        2,
        resolution=max(picture.size),
        num_bands=options.bands,
        sigma=options.sigma,
        seed=options.seed,
    )
    in_dim = getattr(encoder, "out_dim", 2)
    network = NETWORKS[options.network](in_dim, 3, width=options.width, depth=options.depth)
    return nn.Sequential(encoder, network)


def fit_picture(
    picture: Picture,
    encoding: recipes.Encoding,
    options: Options,
    device: torch.device,
    precision: torch.dtype,
) -> report.FitResult:
    """Fit one encoding and measure what it recovered."""
    assert options.steps is not None
    assert options.batch_size is not None
    model = make_model(encoding, options, picture).to(device)
    coordinates = picture.coordinates().to(device)
    colours = picture.colours.reshape(-1, 3).to(device)
    batches = ShuffledBatches(coordinates, colours, options.batch_size, seed=options.seed)
    assert options.optimizer != "auto"
    assert options.lr is not None
    optimizer = recipes.make_optimizer(model, options.optimizer, options.lr)
    state = FitState(model, optimizer, options.steps)
    bar = tqdm(total=options.steps, desc=f"{encoding:8}", unit="step", disable=options.quiet)

    def show(state: FitState) -> None:
        bar.set_postfix_str(f"PSNR {psnr_from_mse(state.history[-1].loss):.2f} dB", refresh=False)
        bar.update(state.step - bar.n)

    with bar, ends_early_on_ctrl_c() as interrupted:
        fit(
            state,
            batches,
            autocast_dtype=None if precision == torch.float32 else precision,
            on_record=show,
            should_stop=lambda: bool(interrupted),
        )
    rows = 8192 if device.type == "cpu" else 1 << 18
    reconstruction = predict(model, coordinates, rows=rows).cpu().reshape(picture.colours.shape)
    return report.FitResult(
        encoding=encoding,
        parameters=num_parameters(model),
        psnr=psnr(reconstruction, picture.colours),
        ssim=ssim(reconstruction, picture.colours),
        seconds=state.seconds,
        steps=state.step,
        history=state.history,
        reconstruction=reconstruction,
    )


@contextlib.contextmanager
def ends_early_on_ctrl_c() -> Iterator[list[bool]]:
    """Let a first Ctrl-C fill the list that is given, and a second one stop the program."""
    interrupted: list[bool] = []

    def note(signum: int, frame: Any) -> None:
        if interrupted:
            raise KeyboardInterrupt
        interrupted.append(True)

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, previous)


def eight_bit(colours: Tensor) -> npt.NDArray[np.uint8]:
    """Round values in [0, 1] to 8 bits."""
    rounded = (colours.clamp(0, 1) * 255).round().to(torch.uint8)
    return np.asarray(rounded.cpu().numpy())


if __name__ == "__main__":
    sys.exit(main())
