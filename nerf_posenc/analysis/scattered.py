"""What samples at scattered points hold, and the frequencies of Gaussian features for them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from nerf_posenc.analysis.content import Spectrum
from nerf_posenc.core.encoder import Encoder, Identity, require_coordinates
from nerf_posenc.core.sinusoids import sincos
from nerf_posenc.encoders.random_fourier import GaussianEncoder
from nerf_posenc.networks import MLP, hidden_matrices
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.loop import FitState, fit, mse, predict
from nerf_posenc.training.optimizers import muon
from nerf_posenc.training.recipes import HeldOutRecipe
from nerf_posenc.training.schedules import constant

_FEATURES, _WIDTH, _DEPTH, _BATCH = 128, 256, 4, 1024
# Share of the samples that judge the fits of the others.
_HELD_OUT = 0.2
# Sigmas in cycles per half of the longest extent: where the search begins, and its ends.
_FIRST, _LEAST, _MOST = 0.5, 2.0**-6, 2.0**10

# Of a spectrum: pairs of points, frequencies of an octave, and bins of an octave of distances.
_PAIRS, _FREQUENCIES, _BINS_PER_OCTAVE = 1 << 20, 4096, 12
# The fewest pairs of a bin, the fewest within the smallest distance that is resolved, and the pairs
# that give a bin half the squared weight of one with very many.
_FEWEST_PAIRS, _RESOLVED_PAIRS, _SURE_PAIRS = 30, 200, 1000
# A spread this small beside the largest value is rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class SigmaChoice:
    """A standard deviation of Gaussian frequencies, and what it was chosen by.

    Attributes:
        sigma: recommended, in cycles per unit of the coordinates.
        held_out_errors: mean squared error of the samples held out, by the sigma of a short fit, in
            the order in which they were tried; the values are brought to a variance of 1/64.
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
    spread = values.std(0).clamp(min=1e-12)
    values = 0.5 + (values - values.mean(0)) / (8 * spread)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(points), generator=generator).to(points.device)
    count = max(1, round(_HELD_OUT * len(points)))
    held_out, fitted = order[:count], order[count:]
    errors: dict[float, float] = {}

    def error(sigma: float) -> float:
        if sigma not in errors:
            model = fit_samples(points[fitted], values[fitted], sigma, num_steps, seed)
            errors[sigma] = float(mse(predict(model, points[held_out]), values[held_out]))
        return errors[sigma]

    best = _FIRST
    factor = 2.0 if error(2 * best) < error(best) else 0.5
    while _LEAST <= best * factor <= _MOST and error(best * factor) < error(best):
        best *= factor
    # The least of the parabola through the logarithms of the three errors about the best.
    below, at, above = (math.log(max(error(best * step), 1e-30)) for step in (0.5, 1.0, 2.0))
    bend = below - 2 * at + above
    octaves = (below - above) / (2 * bend) if bend > 0 else 0.0
    return SigmaChoice(
        best * 2 ** max(-1.0, min(1.0, octaves)) / half,
        {sigma / half: value for sigma, value in errors.items()},
    )


@torch.no_grad()
def spectrum_of_samples(
    points: Float[Tensor, "n in_dim"], values: Float[Tensor, "n out_dim"], *, seed: int = 0
) -> Spectrum:
    """Estimate how the variance of scattered samples is spread over octaves of frequency.

    What is measured is the covariance, the mean product of the values at two points, by their
    distance, as geostatistics does, where there is no grid to transform. That of each octave is
    known, the mean cosine over its frequencies in all directions; the energies are the multiples of
    these that come nearest to it, where those below 0 are left out one by one. It takes a tenth of
    a second, on the CPU.

    Args:
        points: coordinates in any unit, at least 10 points; all axes in the same unit.
        values: values at the points.
        seed: random seed of the 2^20 pairs of points.

    Returns:
        The spectrum over coordinates scaled to [-1, 1] along the longest extent. Its resolution is
        that of a grid of as many points, or what the pairs can tell apart if that is less. Octave 0
        holds what is below it as well, and the last one what is above it, such as noise. The shares
        of constant values are NaN.

    Raises:
        TypeError: If the points are not floating-point numbers.
        ValueError: If there are fewer than 10 points, their number is not that of the values, all
            are in one place, or a number is not finite.

    Examples:
        >>> points = torch.rand(2000, 2, generator=torch.Generator().manual_seed(0))
        >>> spectrum_of_samples(points, (8 * math.pi * points[:, :1]).cos())
        Spectrum(resolution=45, num_nyquist_bands=5, share_below=[..., 100.0%, 100.0%, 100.0%])
    """
    in_dim = points.shape[-1]
    points, _ = _scaled(points.double().cpu(), values)
    values = values.double().cpu()
    largest, values = values.abs().max(), values - values.mean(0)
    variance = values.square().sum(-1).mean()
    if variance.sqrt() <= _ROUNDING * largest:
        variance = torch.zeros_like(variance)
    values = values / variance.sqrt().clamp(min=1e-300)
    # 1. Random pairs of points, and what grid they can tell apart.
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(len(points), (_PAIRS,), generator=generator)
    step = torch.randint(1, len(points), (_PAIRS,), generator=generator)
    second = (first + step) % len(points)
    distances = (points[first] - points[second]).norm(dim=-1)
    products = (values[first] * values[second]).sum(-1)
    least = max(float(distances.kthvalue(_RESOLVED_PAIRS).values), 1e-12)
    resolution = max(2, min(round(len(points) ** (1 / in_dim)), round(1 / least)))
    num_octaves = 1 + math.floor(math.log2(resolution / 2))
    # 2. The covariance by distance, and that of unit variance in each octave.
    pairs, distance, covariance = _covariance(distances, products, 1 / resolution)
    expected = _octave_covariances(distance, in_dim, num_octaves, generator)
    # 3. Least squares. Bins of few pairs weigh less, and at distance 0 all energies add up to 1.
    weights = (pairs / (pairs + _SURE_PAIRS)).sqrt()
    matrix = torch.cat([expected * weights[:, None], expected.new_ones(1, num_octaves)])
    shares = _non_negative_solution(matrix, torch.cat([covariance * weights, weights.new_ones(1)]))
    if not bool(shares.any()):
        # Values that are unlike at every distance are noise.
        shares[-1] = 1
    energy = variance * shares / shares.sum()
    return Spectrum(
        resolution=resolution,
        energy=tuple(energy.tolist()),
        share_below=tuple((energy.cumsum(0) / energy.sum()).tolist()),
        nyquist=math.pi * resolution / 2,
        num_nyquist_bands=num_octaves,
    )


def _covariance(distances: Tensor, products: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
    """Number, mean distance and mean product of pairs in bins of their distance.

    The bins are equally wide on a logarithmic scale; the first has all distances up to ``least``.
    """
    index = ((distances / least).clamp(min=1).log2() * _BINS_PER_OCTAVE).long()
    sums = products.new_zeros(3, int(index.max()) + 1)
    sums.index_add_(1, index, torch.stack([torch.ones_like(products), distances, products]))
    pairs, distance, product = sums[:, sums[0] >= _FEWEST_PAIRS]
    return pairs, distance / pairs, product / pairs


def _octave_covariances(
    distances: Tensor, in_dim: int, num_octaves: int, generator: torch.Generator
) -> Tensor:
    """Covariance, by distance, of unit variance in each octave, ``(distances, num_octaves)``."""
    # Frequencies in all directions: what counts is how much of each is along the distance.
    directions = torch.randn(_FREQUENCIES, in_dim, generator=generator, dtype=torch.float64)
    along = math.pi * F.normalize(directions, dim=-1)[:, 0]
    place = torch.rand(_FREQUENCIES, generator=generator, dtype=torch.float64)
    lengths = [2**0.5 * place, *(2 ** (k - 0.5 + place) for k in range(1, num_octaves))]
    cosines = [sincos(distances[:, None], along * each, layout="pka") for each in lengths]
    return torch.stack([each[:, _FREQUENCIES:].mean(1) for each in cosines], dim=-1)


def _non_negative_solution(matrix: Tensor, right_side: Tensor) -> Tensor:
    """Least squares without what would be negative, which is left out one by one."""
    active, solution = [*range(matrix.shape[1])], matrix.new_zeros(matrix.shape[1])
    while active:
        found = torch.linalg.lstsq(matrix[:, active], right_side[:, None]).solution[:, 0]
        if bool((found >= 0).all()):
            solution[active] = found
            break
        active.pop(int(found.argmin()))
    return solution


def _scaled(points: Tensor, values: Tensor) -> tuple[Tensor, float]:
    """Points scaled to [-1, 1] along the longest extent, and half of that.

    Raises:
        TypeError: If the points are not floating-point numbers.
        ValueError: If the samples tell nothing.
    """
    require_coordinates(points, points.shape[-1], name="points")
    if points.ndim != 2 or values.ndim != 2 or not 10 <= len(points) == len(values):
        raise ValueError(
            "points must have shape (n, in_dim) and values (n, out_dim), n 10 or more; got "
            f"{tuple(points.shape)} and {tuple(values.shape)}"
        )
    low, high = points.amin(0), points.amax(0)
    half = float((high - low).max()) / 2
    if not (points.isfinite().all() and values.isfinite().all() and half > 0):
        raise ValueError("points and values must be finite, and the points not all in one place")
    return (points - (low + high) / 2) / half, half


def fit_samples(
    points: Float[Tensor, "n in_dim"],
    values: Float[Tensor, "n out_dim"],
    sigma: float | None,
    num_steps: int,
    seed: int = 0,
) -> AveragedModel:
    """Fit Gaussian features and a network to samples, as `choose_sigma` does.

    Args:
        points: coordinates in [-1, 1].
        values: values in [0, 1].
        sigma: standard deviation of the frequencies in cycles per unit; None for raw coordinates.
        num_steps: training steps.
        seed: random seed of the frequencies, the weights and the batches.

    Returns:
        The moving average of the encoder and the network.
    """
    recipe, generator = HeldOutRecipe(), torch.Generator().manual_seed(seed)
    in_dim = points.shape[1]
    encoder: Encoder = Identity(in_dim)
    if sigma is not None:
        encoder = GaussianEncoder(in_dim, _FEATURES, sigma=sigma, generator=generator)
    network = MLP(encoder.out_dim, values.shape[1], width=_WIDTH, depth=_DEPTH, generator=generator)
    model = nn.Sequential(encoder, network).to(points.device)
    network.start_at(values.mean(0))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(recipe.ema_decay))
    optimizer = muon(model, hidden_matrices(network), lr=recipe.lr, adam_lr=recipe.adam_lr)
    fit(
        FitState(model, optimizer, num_steps),
        ShuffledBatches(points, values, min(_BATCH, len(points)), seed=seed),
        schedule=constant,
        after_step=lambda state: average.update_parameters(model),
    )
    return average
