"""What else could fit an image: other optimizers and tricks beside ours, at equal seconds.

Each is tried at a few rates on the first image for a third of the time; the best goes on. The
schedule is laid over the seconds, as in time_to_psnr. SOAP, Shampoo and schedule-free Adam are
those of pytorch_optimizer (``pip install --no-deps pytorch_optimizer``); the first two step the
hidden matrices, with our Adam on the rest, as Muon does.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.time_to_psnr import with_mlp
from benchmarks.timing import Clock, machine
from nerf_posenc import FourierEncoder, HashGridEncoder
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.images import Image
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks.mlp import hidden_matrices
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.corner_cache import cache_corners
from nerf_posenc.training.devices import keep_freed_memory
from nerf_posenc.training.loop import FitState, fit, predict
from nerf_posenc.training.optimizers import OptimizerGroup, adam, muon
from scenes import open_image


class Progressive(Encoder):
    """Bands that are opened from coarse to fine over the first half of the fit."""

    def __init__(self, encoder: FourierEncoder, clock: Callable[[], float]) -> None:
        super().__init__(encoder.in_dim, encoder.out_dim)
        self.encoder, self.clock = encoder, clock

    def forward(self, x: Tensor) -> Tensor:
        """Encode ``(n, in_dim)`` to ``(n, out_dim)``."""
        features: Tensor = self.encoder(x, progress=min(1.0, 2 * self.clock()))
        return features


@dataclass(frozen=True)
class Method:
    """A way to train.

    Attributes:
        optimizer: from the model and a rate to what steps it.
        rates: to choose from.
        decays: whether the rate follows the cosine.
        progressive: open the bands from coarse to fine.
        solves: fit the last layer to all pixels in the end.
    """

    optimizer: Callable[[nn.Module, float], OptimizerGroup]
    rates: Sequence[float]
    decays: bool = True
    progressive: bool = False
    solves: bool = False


def ours(module: nn.Module, rate: float) -> OptimizerGroup:
    """Muon on the hidden matrices, Adam on the rest."""
    is_grid = isinstance(next(module.children()), HashGridEncoder)
    return recipes.make_optimizer(module, "muon", rate, encoding="hash" if is_grid else "fourier")


def quick_adam(module: nn.Module, lr: float) -> OptimizerGroup:
    """Adam on everything with the moments that it has beside Muon."""
    return adam(module, lr=lr, betas=(0.9, 0.95))


def eager_first_layer(module: nn.Module, rate: float) -> OptimizerGroup:
    """Ours with three times the rate in the first layer."""
    first, *others = hidden_matrices(module)
    quick, rest = muon(module, [first], lr=3 * rate), muon(module, others, lr=rate)
    shared = {id(p) for p in [first, *others]}
    # The Adam of the second group would step the first matrix as well.
    parameters = [p for p in module.parameters() if id(p) not in shared]
    last = torch.optim.Adam(parameters, lr=1e-2, betas=(0.9, 0.95), eps=1e-15, fused=True)
    return OptimizerGroup([quick.optimizers[0], rest.optimizers[0], last])


def from_library(
    name: str, module: nn.Module, rate: float, *, everything: bool = False, **settings: Any
) -> OptimizerGroup:
    """An optimizer of pytorch_optimizer, on the hidden matrices or on everything."""
    try:
        import pytorch_optimizer
    except ImportError:
        raise SystemExit("needs: pip install --no-deps pytorch_optimizer") from None
    make = getattr(pytorch_optimizer, name)
    if everything:
        return OptimizerGroup([make(module.parameters(), lr=rate, **settings)])
    matrices = list(hidden_matrices(module))
    chosen = {id(matrix) for matrix in matrices}
    rest = [p for p in module.parameters() if id(p) not in chosen]
    beside = torch.optim.Adam(rest, lr=1e-2, betas=(0.9, 0.95), eps=1e-15, fused=True)
    return OptimizerGroup([make(matrices, lr=rate, **settings), beside])


SOAP = partial(from_library, "SOAP", weight_decay=0.0, precondition_frequency=10)
SHAMPOO = partial(
    from_library,
    "ScalableShampoo",
    weight_decay=0.0,
    start_preconditioning_step=5,
    preconditioning_compute_steps=10,
)
SCHEDULE_FREE = partial(
    from_library, "ScheduleFreeAdamW", everything=True, betas=(0.9, 0.95), eps=1e-15
)

METHODS = {
    "ours": Method(ours, (0.03, 0.05, 0.1)),
    "Adam, 0.9 and 0.95": Method(quick_adam, (3e-3, 1e-2, 2e-2)),
    "SOAP": Method(SOAP, (3e-3, 1e-2, 3e-2)),
    "Shampoo": Method(SHAMPOO, (1e-3, 3e-3, 1e-2)),
    "schedule-free Adam": Method(SCHEDULE_FREE, (1e-3, 3e-3, 1e-2), decays=False),
    "ours, first layer x 3": Method(eager_first_layer, (0.03, 0.05, 0.1)),
    "ours, last layer solved": Method(ours, (0.03, 0.05, 0.1), solves=True),
    "ours, progressive bands": Method(ours, (0.05, 0.1), progressive=True),
}


@torch.no_grad()
def solve_last_layer(model: nn.Sequential, coordinates: Tensor, rgb: Tensor) -> None:
    """Two Gauss-Newton steps of the last layer against all pixels, in float64."""
    encoder, network = model
    assert isinstance(network, nn.Sequential)
    *layers, last, _ = network
    assert isinstance(last, nn.Linear)
    trunk = nn.Sequential(encoder, *layers)
    for _ in range(2):
        grams = torch.zeros(3, last.in_features + 1, last.in_features + 1, dtype=torch.float64)
        sides = torch.zeros(3, last.in_features + 1, dtype=torch.float64)
        for x, y in zip(coordinates.split(8192), rgb.split(8192), strict=True):
            hidden = trunk(x)
            z = torch.cat([hidden, torch.ones_like(hidden[:, :1])], 1)
            guess = torch.sigmoid(last(hidden))
            slope = guess * (1 - guess)
            for channel in range(3):
                rows = z * slope[:, channel, None]
                grams[channel] += (rows.T @ rows).double()
                sides[channel] += (rows.T @ (y - guess)[:, channel]).double()
        ridge = 1e-6 * grams.diagonal(dim1=1, dim2=2).mean() * torch.eye(last.in_features + 1)
        steps = torch.linalg.solve(grams + ridge, sides).float()
        last.weight.add_(steps[:, :-1])
        last.bias.add_(steps[:, -1])


def score(
    method: Method, setup: str, rate: float, image: Image, seconds: float, seed: int
) -> tuple[float, int]:
    """PSNR after so many seconds and the steps taken; a fit that diverges has neither."""
    coordinates, rgb = image.coordinates.reshape(-1, 2), image.rgb.reshape(-1, 3)
    batches = ShuffledBatches(coordinates, rgb, 8192, seed=seed)

    def run(seconds: float) -> FitState:
        clock = Clock(seconds)
        generator = torch.Generator().manual_seed(seed)
        encoder: Encoder
        if setup == "hash":
            encoder = recipes.make_encoder(
                "hash", 2, resolution=image.resolution, generator=generator
            )
            model = with_mlp(encoder, width=64, depth=2, generator=generator)
        else:
            encoder = FourierEncoder(2, 10)
            shown = Progressive(encoder, clock.progress) if method.progressive else encoder
            model = with_mlp(shown, generator=generator)
        state = FitState(model, method.optimizer(model, rate), num_steps=1 << 40)
        draw_batch, forward = cache_corners(encoder, model[1], batches)
        schedule = clock.schedule if method.decays else lambda _: 1.0
        return fit(
            state,
            draw_batch,
            forward=forward,
            schedule=schedule,
            should_stop=clock.is_over,
            autocast_dtype=torch.bfloat16 if setup == "bands" else None,
            record_every=1000,
        )

    try:
        run(0.3)
        state = run(seconds)
    except FloatingPointError:
        return -math.inf, 0
    for optimizer in state.optimizer.optimizers:
        if hasattr(optimizer, "eval"):
            optimizer.eval()
    if method.solves:
        assert isinstance(state.model, nn.Sequential)
        solve_last_layer(state.model, coordinates, rgb)
    reconstruction = predict(state.model, coordinates).reshape(image.rgb.shape)
    return psnr(reconstruction, image.rgb), state.step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", nargs="+", default=["cat"])
    parser.add_argument("--size", type=int, default=384, help="longer side of the images")
    parser.add_argument("--setup", choices=("bands", "hash"), default="bands")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    options = parser.parse_args()
    keep_freed_memory()
    images = [open_image(name).resized(options.size) for name in options.images]
    print(f"{machine()}\n{options.setup}, {options.seconds:g} s, {options.seeds} seeds")
    for name in options.methods:
        method = METHODS[name]
        if method.progressive and options.setup == "hash":
            continue
        tried = {
            rate: score(method, options.setup, rate, images[0], options.seconds / 3, seed=0)[0]
            for rate in method.rates
        }
        rate = max(tried, key=lambda rate: tried[rate])
        cells = []
        for image in images:
            runs = [
                score(method, options.setup, rate, image, options.seconds, seed)
                for seed in range(options.seeds)
            ]
            db, steps = (statistics.median(column) for column in zip(*runs, strict=True))
            cells.append(f"{db:.2f} ({steps:.0f} steps)")
        shown = ", ".join(cells)
        print(
            f"{name:<26} {rate:<7g} {shown}   of { ({k: round(v, 2) for k, v in tried.items()}) }",
            flush=True,
        )


if __name__ == "__main__":
    main()
