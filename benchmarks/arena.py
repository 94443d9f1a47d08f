"""Images by every method at equal size, tuning and processor time, into one CSV with a row a fit.

A signal is an image whose every second pixel of every second row is fitted; the pixels diagonally
between them say what the fit is worth between its samples. A method has one number for every three
fitted values, whatever layers it has, and processor time of one thread, over which its learning
rate falls by a cosine. The methods of a signal take turns of a second, so that a slow minute is
slow for all.

Each method is tuned by at most 14 trials, on images that are not scored: its optimizer,
its learning rate, and its bandwidth, by factors of two, for as long as they help. The floors need
no training: a cosine transform of as many numbers, and interpolation of as many pixels.

    python -m benchmarks.arena tune KODIM01.PNG KODIM02.PNG --seconds 5
    python -m benchmarks.arena fit --seconds 5 20 --seeds 3
    python -m benchmarks.arena fit --methods MINE.PY:Network --seconds 5 20 --seeds 3
    python -m benchmarks.arena page

A network of your own is a class that is called with ``in_dim, out_dim, width=, bandwidth=``.
Results that the CSV already holds are kept. `page` writes the tables of docs/results.md.
"""

import argparse
import csv
import hashlib
import itertools
import math
import platform
import re
import runpy
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image as Picture
from PIL import ImageDraw, ImageFont
from torch import Tensor, nn

import nerf_posenc
from nerf_posenc import FourierEncoder, GaussianEncoder, HashGridEncoder
from nerf_posenc.core.encoder import Encoder, Identity
from nerf_posenc.core.grids import grid_positions
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks import MLP, MultiplicativeFilterNetwork, finer, gauss, siren, wire
from nerf_posenc.networks.mlp import hidden_matrices
from nerf_posenc.training.batches import DrawBatch, ShuffledBatches
from nerf_posenc.training.corner_cache import cache_corners
from nerf_posenc.training.devices import keep_freed_memory
from nerf_posenc.training.grid_sizes import hash_grid
from nerf_posenc.training.loop import FitState, fit, predict
from nerf_posenc.training.optimizers import OptimizerGroup, adam, muon
from nerf_posenc.training.recipes import OwnEncoding, default_bands, default_sigma
from nerf_posenc.training.schedules import cosine_decay
from nerf_posenc_app.data import open_image
from nerf_posenc_app.kinds.image.floors import fewer_pixels, is_gray, lowest_cosines
from nerf_posenc_app.own_encodings import imported

RESULTS = Path(__file__).with_name("arena.csv")
TUNED = Path(__file__).with_name("arena_tuned.csv")
SCENES = Path(__file__).parents[1] / "scenes"
PAGE = Path(__file__).parents[1] / "docs/results.md"
# Two numbers for six values: a method has to leave something out.
VALUES_PER_NUMBER = 3
BATCH = 8192
TRIALS = 14
RESAMPLES = 2000


# Signals


@dataclass(frozen=True)
class Signal:
    """An image of which a quarter of the pixels is fitted.

    Attributes:
        name: its name in the tables.
        rgb: values in [0, 1] of shape ``(height, width, channels)``, both sides even.
    """

    name: str
    rgb: Tensor

    @property
    def fitted(self) -> Tensor:
        """Every second pixel of every second row."""
        return self.rgb[::2, ::2]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of what is fitted."""
        return self.fitted.shape[0], self.fitted.shape[1]

    @property
    def num_numbers(self) -> int:
        """Most numbers of a method."""
        return self.fitted.numel() // VALUES_PER_NUMBER

    @property
    def digest(self) -> str:
        """Checksum of the values, rounded to 16 bits."""
        rounded = (self.rgb * 65535).round().to(torch.uint16)
        return hashlib.sha256(rounded.numpy().tobytes()).hexdigest()[:12]

    def scores(self, fitted: Tensor, between: Tensor) -> tuple[float, float]:
        """PSNR of the fitted pixels, and of those diagonally between them."""
        return psnr(fitted, self.fitted), psnr(between, self.rgb[1::2, 1::2])

    def coordinates(self, shift: float) -> Tensor:
        """Coordinates of the fitted pixels, moved by so many of them along both axes."""
        step = 2 / max(self.size)
        return grid_positions(self.size, units="longer", xy=True) + shift * step


def signal_of(name: str, rgb: Tensor) -> Signal:
    """Make a signal of an image, whose middle square of at most 512 pixels is taken.

    Channels that are equal everywhere are one.
    """
    side = min(512, *rgb.shape[:2]) // 2 * 2
    top, left = ((length - side) // 2 for length in rgb.shape[:2])
    middle = rgb[top : top + side, left : left + side].float()
    return Signal(name, middle[..., :1] if is_gray(middle) else middle)


def drawn_by(scene: str, **settings: float) -> Tensor:
    """An image of scenes/ by its formula."""
    image: Tensor = runpy.run_path(str(SCENES / f"{scene}.py"))["image"](512, **settings)
    return image[..., None] if image.ndim == 2 else image


def zone_plate() -> Tensor:
    """Rings that reach Nyquist's frequency of the fitted pixels, 64 cycles per unit, at r = 1."""
    radius = grid_positions((512, 512), units="longer", xy=True).norm(dim=-1, keepdim=True)
    rings = 0.5 + 0.5 * torch.cos(64 * math.pi * radius.square())
    return torch.where(radius <= 1, rings, 0.5)


FIXED = ImageFont.load_default_imagefont()


def text() -> Tensor:
    """Lines of words, drawn by a font of fixed pixels."""
    picture = Picture.new("L", (256, 256), 255)
    words = " ".join((nerf_posenc.__doc__ or "").split()) + " "
    for line in range(21):
        start = 7 * line
        ImageDraw.Draw(picture).text(
            (2, 12 * line), (words * 9)[start : start + 60], fill=0, font=FIXED
        )
    drawn = torch.from_numpy(np.asarray(picture).copy()).float() / 255
    return drawn.repeat_interleave(2, 0).repeat_interleave(2, 1)[..., None]


def photograph(name: str) -> Tensor:
    """One of the free photographs that scikit-image holds."""
    from skimage import data

    values = torch.from_numpy(getattr(data, name)()).float() / 255
    return values if values.ndim == 3 else values[..., None]


SIGNALS: dict[str, Callable[[], Tensor]] = {
    "zone plate": zone_plate,
    "star": partial(drawn_by, "star"),
    "band-limited": partial(drawn_by, "bandlimited", share=0.25),
    "text": text,
    "cat": lambda: open_image("cat").rgb,
    "astronaut": partial(photograph, "astronaut"),
    "coffee": partial(photograph, "coffee"),
    "gravel": partial(photograph, "gravel"),
}


# Methods


@dataclass(frozen=True)
class Method:
    """A way to fit a signal.

    Attributes:
        build: function from the signal, a width and a bandwidth to a fresh model; a bandwidth of
            1 is what its authors or our rules take.
        lrs: the learning rates at which tuning starts, by optimizer.
        bfloat16: whether it trains under autocast.
        factor: factor of the bandwidth from one trial to the next; 1 for none.
    """

    build: Callable[[Signal, int, float], nn.Module]
    lrs: dict[str, float]
    bfloat16: bool = True
    factor: float = 1.5


def after(encoder: Encoder, signal: Signal, width: int, depth: int = 4) -> nn.Module:
    """ReLU network after an encoder, which starts at the mean color."""
    network = MLP(encoder.out_dim, signal.rgb.shape[-1], width=width, depth=depth)
    network.start_at(signal.fitted.mean((0, 1)))
    return nn.Sequential(encoder, network)


def with_bands(signal: Signal, width: int, bandwidth: float) -> nn.Module:
    """Positional encoding; a bandwidth of two is one band more."""
    num_bands = default_bands(max(signal.size)) + round(math.log2(bandwidth))
    return after(FourierEncoder(2, num_bands), signal, width)


def with_random_bands(signal: Signal, width: int, bandwidth: float) -> nn.Module:
    """Random Fourier features, 64 where 128 would take most of the numbers."""
    sigma = default_sigma(max(signal.size)) * bandwidth
    count = 128 if signal.rgb.shape[-1] == 3 else 64
    return after(GaussianEncoder(2, count, sigma=sigma), signal, width)


def with_our_grid(signal: Signal, width: int, bandwidth: float) -> nn.Module:
    """The layout that `num_features` asks for, with eight tenths of the numbers in its tables."""
    most = round(0.8 * signal.num_numbers)
    encoder = hash_grid(2, round(max(signal.size) * bandwidth), num_features=most)
    return after(encoder, signal, width, depth=2)


def with_their_grid(signal: Signal, width: int, bandwidth: float) -> nn.Module:
    """12 levels of 2, from 16 nodes to one for each pixel, in the largest tables that fit."""
    growth = (max(signal.size) * bandwidth / 16) ** (1 / 11)
    for log2_rows in range(19, 4, -1):
        encoder = HashGridEncoder(2, 12, log2_table_size=log2_rows, growth=growth)
        if encoder.table.numel() <= 0.8 * signal.num_numbers:
            break
    return after(encoder, signal, width, depth=2)


def on_coordinates(make: Callable[..., nn.Module], **scales: float) -> Callable[..., nn.Module]:
    """A network on raw coordinates, whose scales follow the bandwidth."""

    def build(signal: Signal, width: int, bandwidth: float) -> nn.Module:
        scaled = {name: value * bandwidth for name, value in scales.items()}
        return make(2, signal.rgb.shape[-1], width=width, **scaled)

    return build


BY_ADAM = {"adam": 1e-3}
BY_BOTH = {"muon": 2e-3, "adam": 1e-3}
OURS = {"muon": 0.05, "adam": 2e-3}

METHODS = {
    "raw coordinates": Method(
        lambda signal, width, _: after(Identity(2), signal, width), OURS, factor=1
    ),
    "positional encoding": Method(with_bands, OURS, factor=2),
    "Gaussian features": Method(with_random_bands, OURS),
    "SIREN": Method(on_coordinates(siren, weight_scale=1.0), BY_BOTH, factor=1.25),
    "FINER": Method(on_coordinates(finer, omega=30.0), BY_BOTH),
    "WIRE, real": Method(on_coordinates(partial(wire, real=True), omega=20.0, scale=10.0), BY_BOTH),
    "Gauss": Method(on_coordinates(gauss, scale=30.0), BY_BOTH),
    "MFN": Method(
        on_coordinates(MultiplicativeFilterNetwork, input_scale=256.0), {"muon": 1e-2, "adam": 1e-2}
    ),
    "hash grid, instant-NGP": Method(with_their_grid, {"ngp": 1e-2, "muon": 0.03}, bfloat16=False),
    "hash grid, ours": Method(with_our_grid, {"ngp": 1e-2, "muon": 0.03}, bfloat16=False),
}


def method_of(name: str) -> Method:
    """A method of the table, or a network from a file, FILE.py:CLASS."""
    if name in METHODS:
        return METHODS[name]
    own = imported(name)
    if not isinstance(own, OwnEncoding) or own.network is None:
        raise SystemExit(f"{name} is no network: it takes in_dim, out_dim, width=, bandwidth=")
    return Method(on_coordinates(own.network.build, bandwidth=1.0), BY_BOTH, bfloat16=False)


def optimizer_of(name: str, module: nn.Module, lr: float) -> OptimizerGroup:
    """Adam, instant-NGP's (Müller et al. 2022, section 4), or Muon on the hidden matrices."""
    if name == "muon":
        first = module[0] if isinstance(module, nn.Sequential) else module
        # Adam's rate for the rest, in the ratio that the program has.
        adam_lr = lr / (1.5 if isinstance(first, HashGridEncoder) else 5)
        return muon(module, hidden_matrices(module), lr=lr, adam_lr=adam_lr)
    return adam(module, lr=lr, betas=(0.9, 0.99)) if name == "ngp" else adam(module, lr=lr)


def count(module: nn.Module) -> int:
    """Numbers that are learned."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def widest(method: Method, signal: Signal, bandwidth: float) -> int:
    """Largest width whose model has no more numbers than are allowed."""
    low, high = 4, 1024
    while high - low > 1:
        middle = (low + high) // 2
        fits = count(method.build(signal, middle, bandwidth)) <= signal.num_numbers
        low, high = (middle, high) if fits else (low, middle)
    return low


# Fits


@dataclass(frozen=True)
class Settings:
    """What tuning chooses."""

    optimizer: str
    lr: float
    bandwidth: float


class Turns:
    """A fit of a signal, run a turn at a time, on a clock of processor time."""

    def __init__(
        self, method: Method, settings: Settings, signal: Signal, seconds: float, seed: int
    ) -> None:
        self.signal = signal
        self.autocast = torch.bfloat16 if method.bfloat16 else None
        width = widest(method, signal, settings.bandwidth)
        torch.manual_seed(seed)
        model = method.build(signal, width, settings.bandwidth)
        self.batches: DrawBatch = ShuffledBatches(
            signal.coordinates(0).reshape(-1, 2), signal.fitted.flatten(0, 1), BATCH, seed=seed
        )
        self.forward: Callable[[Any], Any] | None = None
        if isinstance(model, nn.Sequential) and isinstance(model[0], Encoder):
            self.batches, self.forward = cache_corners(model[0], model[1], self.batches)
        optimizer = optimizer_of(settings.optimizer, model, settings.lr)
        self.state = FitState(model, optimizer, num_steps=1 << 40)
        self.seconds, self.used = seconds, 0.0
        self.has_failed = False

    @property
    def is_over(self) -> bool:
        """Whether the time is used up, or the loss is not a number."""
        return self.has_failed or self.used >= self.seconds

    def turn(self, seconds: float) -> None:
        """Go on for so long, or to the end."""
        before, started = self.used, time.process_time()

        def used() -> float:
            return before + time.process_time() - started

        due = min(self.seconds, before + seconds)
        try:
            fit(
                self.state,
                self.batches,
                forward=self.forward,
                schedule=lambda _: cosine_decay(min(1.0, used() / self.seconds)),
                should_stop=lambda: used() >= due,
                autocast_dtype=self.autocast,
                record_every=1000,
            )
        except FloatingPointError:
            self.has_failed = True
        self.used = used()

    def scores(self) -> tuple[float, float]:
        """PSNR of the fitted pixels and of those between."""
        if self.has_failed:
            return 0.0, 0.0
        found = (
            predict(self.state.model, self.signal.coordinates(shift).flatten(0, 1))
            for shift in (0, 0.5)
        )
        return self.signal.scores(*(each.reshape(self.signal.fitted.shape) for each in found))


def in_turns(fits: Sequence[Turns]) -> None:
    """Run fits to their end, a second of each at a time."""
    while any(not each.is_over for each in fits):
        for each in fits:
            if not each.is_over:
                each.turn(1.0)


def floors(signal: Signal) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Name, fitted pixels and pixels between of what needs no training."""
    size, image = signal.size, signal.fitted
    at = [torch.arange(length) + 0.5 for length in size]
    mean = image.mean((0, 1)).expand_as(image)
    yield "mean color", mean, mean
    for name, kept in (("cosine transform", lowest_cosines), ("interpolation", fewer_pixels)):
        yield name, kept(image, signal.num_numbers), kept(image, signal.num_numbers, *at)


# Tuning


def tune(name: str, images: Sequence[Signal], seconds: float) -> dict[str, Any]:
    """Search for the best settings: a move that helps is made again, as far as it helps."""
    method = method_of(name)
    tried: dict[Settings, float] = {}

    def score(settings: Settings) -> float:
        if settings not in tried:
            fits = [Turns(method, settings, image, seconds, seed=0) for image in images]
            in_turns(fits)
            tried[settings] = statistics.mean(each.scores()[0] for each in fits)
            print(f"{name:<24} {settings} {tried[settings]:.2f}", flush=True)
        return tried[settings]

    best = max((Settings(*start, bandwidth=1.0) for start in method.lrs.items()), key=score)
    all_moves = [(1.0, 2.0), (1.0, 0.5)]
    if method.factor != 1:
        all_moves += [(method.factor, 1.0), (1 / method.factor, 1.0)]
    moves = list(all_moves)
    while moves and len(tried) < TRIALS:
        move = moves.pop(0)
        wider, faster = move
        settings = Settings(best.optimizer, best.lr * faster, round(best.bandwidth * wider, 6))
        if score(settings) > score(best):
            best = settings
            moves = [move, *(other for other in all_moves if other != move)]
    return {"method": name, **asdict(best), "psnr_db": f"{score(best):.3f}", "trials": len(tried)}


# The record


UNTRAINED = {"optimizer": "", "lr": 0, "bandwidth": 0, "steps": 0, "cpu_s": 0}
KEY = ("signal", "seed", "budget_s", "method")


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV; none if there is no such file."""
    return list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []


def append(path: Path, row: dict[str, Any]) -> None:
    """Write a row at the end of a CSV, after a line of names in a new one."""
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def run(names: Sequence[str], signals: Sequence[str], budgets: Sequence[float], seeds: int) -> None:
    """Fit all that the record lacks, one seed after the other."""
    settings = {
        row["method"]: Settings(row["optimizer"], float(row["lr"]), float(row["bandwidth"]))
        for row in read(TUNED)
    }
    if missing := [name for name in names if name not in settings]:
        raise SystemExit(f"{missing[0]} has no settings: run `python -m benchmarks.arena tune`")
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    about = {
        "torch": torch.__version__,
        "machine": model[1] if model else platform.machine(),
        "threads": torch.get_num_threads(),
        "commit": commit.stdout.strip(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }

    def write(key: tuple[str, ...], numbers: int, scores: tuple[float, float], **how: Any) -> None:
        row: dict[str, Any] = dict(zip(KEY, key, strict=True))
        row |= {"digest": signal.digest, "values": signal.fitted.numel(), "parameters": numbers}
        row |= {"psnr_db": f"{scores[0]:.3f}", "between_db": f"{scores[1]:.3f}"}
        append(RESULTS, row | how | about)
        print(*key, row["psnr_db"], row["between_db"], flush=True)

    for seed, budget, which in itertools.product(range(seeds), budgets, signals):
        signal = signal_of(which, SIGNALS[which]())
        known = {tuple(row[key] for key in KEY) for row in read(RESULTS)}
        for name, fitted, between in floors(signal):
            if (key := (which, "0", "0", name)) not in known:
                scores = signal.scores(fitted.float(), between.float())
                write(key, signal.num_numbers, scores, **UNTRAINED)
        keys = {name: (which, str(seed), f"{budget:g}", name) for name in names}
        fits = {
            name: Turns(method_of(name), settings[name], signal, budget, seed)
            for name, key in keys.items()
            if key not in known
        }
        in_turns(list(fits.values()))
        for name, each in fits.items():
            how = asdict(settings[name]) | {"steps": each.state.step, "cpu_s": f"{each.used:.2f}"}
            write(keys[name], count(each.state.model), each.scores(), **how)


# The page


def scores_by(rows: Sequence[dict[str, str]], column: str) -> dict[str, dict[str, list[float]]]:
    """Scores of the seeds, by method and signal."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in sorted(rows, key=lambda row: list(SIGNALS).index(row["signal"])):
        of_method = found.setdefault(row["method"], {})
        of_method.setdefault(row["signal"], []).append(float(row[column]))
    return found


def ranks(scores: dict[str, dict[str, list[float]]]) -> dict[str, tuple[float, float, float, bool]]:
    """Mean rank over the signals, its 95% interval, and whether the best may be no better.

    The interval is that of `RESAMPLES` draws of as many signals with replacement. A method ties
    with the best if 0 is in the interval of their mean difference.
    """
    means = np.array([list(map(np.mean, by_signal.values())) for by_signal in scores.values()])
    placed = (-means).argsort(0).argsort(0) + 1
    behind = means - means[means.mean(1).argmax()]
    count = means.shape[1]
    draws = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))
    low, high = np.percentile(placed[:, draws].mean(-1), [2.5, 97.5], axis=1)
    is_tied = np.percentile(behind[:, draws].mean(-1), 97.5, axis=1) >= 0
    return dict(zip(scores, zip(placed.mean(1), low, high, is_tied, strict=True), strict=True))


def tables(record: Sequence[dict[str, str]]) -> str:
    """The tables of the page: all signals together, then each of them at each budget."""
    trained = [row for row in record if row["cpu_s"] != "0"]
    untrained = [row for row in record if row["cpu_s"] == "0"]
    budgets = sorted({row["budget_s"] for row in trained}, key=float)
    rows_of = {budget: [r for r in trained if r["budget_s"] == budget] for budget in budgets}
    fitted = {budget: scores_by(rows, "psnr_db") for budget, rows in rows_of.items()}
    between = overall(scores_by(rows_of[budgets[-1]], "between_db"))
    means = {budget: overall(scores) for budget, scores in fitted.items()}
    ranked = {budget: ranks(scores) for budget, scores in fitted.items()}
    order = sorted(between, key=lambda name: -means[budgets[-1]][name])
    floors_fitted = scores_by(untrained, "psnr_db")
    floors_between = overall(scores_by(untrained, "between_db"))

    heads = [f"{budget} s | rank (95%)" for budget in budgets]
    lines = row_of("method", *heads, "between the pixels", "settings", "steps")
    lines.append("|---" * (2 * len(budgets) + 4) + "|")
    for name in order:
        cells = []
        for budget in budgets:
            rank, low, high, is_tied = ranked[budget][name]
            mark = "**" if is_tied else ""
            cells.append(f"{mark}{means[budget][name]:.2f}{mark}")
            cells.append(f"{rank:.1f} ({low:.1f} to {high:.1f})")
        longest = [row for row in rows_of[budgets[-1]] if row["method"] == name]
        how = f"{longest[0]['optimizer']} {float(longest[0]['lr']):g}"
        how += f", x {float(longest[0]['bandwidth']):.3g}"
        steps = statistics.mean(int(row["steps"]) for row in longest)
        lines += row_of(shown(name), *cells, f"{between[name]:.2f}", how, f"{steps:.0f}")
    for name, mean in overall(floors_fitted).items():
        cells = [f"{mean:.2f}", ""] * len(budgets)
        lines += row_of(f"*{name}*", *cells, f"{floors_between[name]:.2f}", "", "")
    for budget, scores in fitted.items():
        signals = list(scores[order[0]])
        seeds = len({row["seed"] for row in rows_of[budget]})
        several = f"{seeds} seeds, mean and standard deviation" if seeds > 1 else "one seed"
        lines += ["", f"After {budget} s, {several}:", "", *row_of("", *signals)]
        lines.append("|---" * (len(signals) + 1) + "|")
        for name in order:
            lines += row_of(shown(name), *map(spread, scores[name].values()))
        for name, by_signal in floors_fitted.items():
            lines += row_of(f"*{name}*", *map(spread, by_signal.values()))
    return "\n".join(lines)


def row_of(*cells: str) -> list[str]:
    """A row of a table of Markdown."""
    return [f"| {' | '.join(cells)} |"]


def overall(scores: dict[str, dict[str, list[float]]]) -> dict[str, float]:
    """Mean over the signals of the means over their seeds."""
    return {
        name: statistics.mean(map(statistics.mean, by_signal.values()))
        for name, by_signal in scores.items()
    }


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation."""
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{deviation}"


def shown(name: str) -> str:
    """Name of a method; of one from a file, that of its class."""
    return name.rpartition(":")[2]


def page_with(text: str, record: Sequence[dict[str, str]]) -> str:
    """The page with its tables written anew."""
    pattern = re.compile("(<!-- arena -->\n).*(<!-- end of arena -->)", re.DOTALL)
    return pattern.sub(lambda match: f"{match[1]}{tables(record)}\n{match[2]}", text)


def main() -> None:
    """Tune, fit, or write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    tuning = commands.add_parser("tune", help="choose settings on images that are not scored")
    tuning.add_argument("images", nargs="+")
    fitting = commands.add_parser("fit", help="fit what the record lacks")
    fitting.add_argument("--signals", nargs="+", default=list(SIGNALS))
    fitting.add_argument("--seeds", type=int, default=3)
    for command, seconds in ((tuning, [5.0]), (fitting, [5.0, 20.0])):
        command.add_argument("--methods", nargs="+", default=list(METHODS))
        command.add_argument("--seconds", nargs="+", type=float, default=seconds)
    commands.add_parser("page", help="write the tables of docs/results.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    if options.command == "tune":
        images = [signal_of(Path(name).stem, open_image(name).rgb) for name in options.images]
        known = {row["method"] for row in read(TUNED)}
        for name in (name for name in options.methods if name not in known):
            append(TUNED, tune(name, images, options.seconds[0]))
    elif options.command == "fit":
        run(options.methods, options.signals, options.seconds, options.seeds)
    else:
        PAGE.write_text(page_with(PAGE.read_text(), read(RESULTS)))


if __name__ == "__main__":
    main()
