"""Choose among encodings, numbers of bands or standard deviations by the errors of short fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from nerf_posenc.core.checks import default_dtype, require_coordinates
from nerf_posenc.encoders.random_fourier import GaussianEncoder
from nerf_posenc.networks import MLP, hidden_matrices
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.loop import FitState, fit, mse, predict
from nerf_posenc.training.optimizers import muon
from nerf_posenc.training.recipes import HeldOutRecipe
from nerf_posenc.training.schedules import constant

if TYPE_CHECKING:
    from jaxtyping import Float

Candidate = TypeVar("Candidate")

# Random frequencies of a short fit, and units and hidden layers after them: those of an image.
_FEATURES = 128
_WIDTH = 256
_DEPTH = 4
# Samples per step.
_BATCH = 1024
# Share of the samples that judge the fits of the others.
_HELD_OUT = 0.2
# Sigmas that are tried, in cycles per half of the longest extent: octaves, from the middle one on.
_SIGMAS = tuple(2.0**k for k in range(-6, 11))
_FIRST = 0.5
# Tolerance of values in [0, 1].
_ROUNDING = 1e-5


def choose(
    candidates: Sequence[Candidate],
    error: Callable[[Candidate], float],
    *,
    start: Candidate | None = None,
) -> tuple[Candidate, Mapping[Candidate, float]]:
    """Find the candidate of the least error, which a short fit measures.

    Args:
        candidates: values to choose from, at least one, each once.
        error: error of a candidate; it is called once for each that is tried.
        start: candidate that a descent begins at, if the error falls and then rises in their order:
            it goes to the side of the lesser error for as long as the error falls. None tries all.

    Returns:
        The candidate of the least error, and the error of each that was tried, in the order of the
        candidates.

    Examples:
        >>> choose(range(10), lambda n: (n - 6) ** 2, start=4)
        (6, {4: 4, 5: 1, 6: 0, 7: 1})
    """
    errors: dict[Candidate, float] = {}

    def error_at(i: int) -> float:
        if not 0 <= i < len(candidates):
            return math.inf
        if candidates[i] not in errors:
            errors[candidates[i]] = error(candidates[i])
        return errors[candidates[i]]

    if start is None:
        best = min(range(len(candidates)), key=error_at)
    else:
        best = candidates.index(start)
        # Both neighbors of the best are tried in the end, and no other candidate beyond them.
        step = 1 if error_at(best + 1) < error_at(best) else -1
        while error_at(best + step) < error_at(best):
            best += step
    return candidates[best], {each: errors[each] for each in candidates if each in errors}


@dataclass(frozen=True)
class SigmaChoice:
    """A standard deviation of Gaussian frequencies, and what it was chosen by.

    Attributes:
        sigma: recommended, in cycles per unit of the coordinates.
        held_out_errors: mean squared error of the samples held out, by the sigma of a short fit;
            the values are brought to a variance of 1/64.
    """

    sigma: float
    held_out_errors: Mapping[float, float] = field(repr=False)


def choose_sigma(
    points: Float[Tensor, "n in_dim"],
    values: Float[Tensor, "n out_dim"],
    *,
    num_steps: int = 100,
    seed: int = 0,
) -> SigmaChoice:
    """Choose sigma of [GaussianEncoder][nerf_posenc.GaussianEncoder] for scattered samples.

    A network is fitted for a few steps to four fifths of the samples, with one sigma after the
    other, an octave apart, until the error of the last fifth grows; a parabola through the least
    three errors gives the sigma between them. Its network and training are those that do best
    between samples: ReLU layers of 256 units and ``HeldOutRecipe``. It takes three to six times
    ``num_steps`` steps; what it costs beside a sweep is in docs/howto/choose.md.

    Args:
        points: coordinates in any unit, at least 10 points; all axes in the same unit.
        values: values at the points.
        num_steps: steps of each short fit, 1 or more.
        seed: random seed of frequencies, weights, and which samples are held out.

    Raises:
        TypeError: If the points are not floating-point numbers.
        ValueError: If there are fewer than 10 points, their number is not that of the values, all
            are in one place, or a number is not finite.

    Examples:
        >>> points = torch.rand(200, 2)
        >>> choose_sigma(points, (9 * points.sum(-1, keepdim=True)).sin(), num_steps=5)
        SigmaChoice(sigma=...)
    """
    points, half = _scaled(points, values)
    # Values of variance 1/64 about the middle of the sigmoid output.
    values = values.to(points)
    spread = values.std(0).clamp(min=1e-12)
    values = 0.5 + (values - values.mean(0)) / (8 * spread)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(points), generator=generator).to(points.device)
    count = max(1, round(_HELD_OUT * len(points)))
    held_out, fitted = order[:count], order[count:]

    def error(sigma: float) -> float:
        model = _fit(points[fitted], values[fitted], sigma, num_steps, seed)
        return float(mse(predict(model, points[held_out]), values[held_out]))

    best, errors = choose(_SIGMAS, error, start=_FIRST)
    # The least of the parabola through the logarithms of the three errors about the best; at an end
    # of the candidates there are no three.
    below, at, above = (
        math.log(max(errors.get(best * factor, math.inf), 1e-30)) for factor in (0.5, 1.0, 2.0)
    )
    bend = below - 2 * at + above
    octaves = (below - above) / (2 * bend) if 0 < bend < math.inf else 0.0
    return SigmaChoice(
        best * 2 ** max(-1.0, min(1.0, octaves)) / half,
        {sigma / half: value for sigma, value in errors.items()},
    )


def _require_samples(points: Tensor, values: Tensor, fewest: int) -> None:
    is_table = points.ndim == values.ndim == 2 and 0 not in (*points.shape, *values.shape)
    if not (is_table and fewest <= len(points) == len(values)):
        raise ValueError(
            f"points must have shape (n, in_dim) and values (n, out_dim), n {fewest} or more; got "
            f"{tuple(points.shape)} and {tuple(values.shape)}"
        )
    require_coordinates(points, points.shape[-1], name="points")
    if not (points.isfinite().all() and values.isfinite().all()):
        raise ValueError("points and values must be finite")


def _scaled(points: Tensor, values: Tensor) -> tuple[Tensor, float]:
    """Points scaled to [-1, 1] along the longest extent, and half of that.

    Raises:
        TypeError: If the points are not floating-point numbers.
        ValueError: If the samples tell nothing.
    """
    _require_samples(points, values, 10)
    low, high = points.amin(0), points.amax(0)
    half = float((high - low).max()) / 2
    if half == 0:
        raise ValueError("the points must not all be in one place")
    return ((points - (low + high) / 2) / half).to(default_dtype()), half


def fit_samples(
    points: Float[Tensor, "n in_dim"],
    values: Float[Tensor, "n out_dim"],
    sigma: float,
    num_steps: int,
    seed: int = 0,
) -> AveragedModel:
    """Fit Gaussian features and a network to samples, as `choose_sigma` does.

    Args:
        points: coordinates in [-1, 1].
        values: values in [0, 1], where the outputs of the network lie.
        sigma: standard deviation of the frequencies in cycles per unit.
        num_steps: training steps.
        seed: random seed of the frequencies, the weights and the batches.

    Returns:
        The moving average of the encoder and the network.

    Raises:
        ValueError: If a value is out of its range, or there are no samples.
    """
    _require_samples(points, values, 1)
    points, values = points.to(default_dtype()), values.to(points.device, default_dtype())
    low, high = float(values.min()), float(values.max())
    if not -_ROUNDING <= low <= high <= 1 + _ROUNDING:
        raise ValueError(
            f"values must be in [0, 1]; got {low:.7g} to {high:.7g}: scale them, and scale what "
            "the model predicts back"
        )
    return _fit(points, values, sigma, num_steps, seed)


def _fit(points: Tensor, values: Tensor, sigma: float, num_steps: int, seed: int) -> AveragedModel:
    recipe, generator = HeldOutRecipe(), torch.Generator().manual_seed(seed)
    encoder = GaussianEncoder(points.shape[1], _FEATURES, sigma=sigma, generator=generator)
    network = MLP(encoder.out_dim, values.shape[1], width=_WIDTH, depth=_DEPTH, generator=generator)
    model = nn.Sequential(encoder, network).to(points.device)
    network.start_at(values.mean(0))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(recipe.ema_decay)).eval()
    optimizer = muon(model, hidden_matrices(network), lr=recipe.lr, adam_lr=recipe.adam_lr)
    fit(
        FitState(model, optimizer, num_steps),
        ShuffledBatches(points, values, min(_BATCH, len(points)), seed=seed),
        schedule=constant,
        after_step=lambda state: average.update_parameters(model),
    )
    return average
