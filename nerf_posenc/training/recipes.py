"""What goes with what: encoders by name, and the optimizer and rate of each network."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.encoders.hash_grid import HashGridEncoder
from nerf_posenc.encoders.random_fourier import GaussianEncoder
from nerf_posenc.networks.mlp import hidden_matrices
from nerf_posenc.training.optimizers import (
    ADAM_LR,
    MUON_ADAM_LR,
    MUON_LR,
    OptimizerGroup,
    adam,
    muon,
)

Encoding = Literal["none", "fourier", "gaussian", "hash"]
NetworkName = Literal["relu", "siren", "finer", "gauss", "wire", "mfn"]
Optimizer = Literal["muon", "adam"]

# Tancik et al. 2020 chose sigma 10 for photographs and 14 for text where the Nyquist
# frequency is 128 cycles per unit.
_SIGMA_TO_NYQUIST = 0.09

# Peak rates that did best among those tried: docs/fitting.md. The small network behind a hash
# grid has its own, with Adam that of Müller et al. 2022.
_HASH_RATES: dict[str, float] = {"muon": 0.03, "adam": 0.01}
_HASH_ADAM_RATE = 7e-3  # Of the tables, beside Muon.
_RATES: dict[tuple[str, str], float] = {
    ("relu", "muon"): MUON_LR,
    ("relu", "adam"): ADAM_LR,
    ("siren", "muon"): 2e-3,
    ("siren", "adam"): 1e-3,
    ("finer", "muon"): 2e-3,
    ("finer", "adam"): 3e-4,
    ("gauss", "muon"): 2e-3,
    ("gauss", "adam"): 3e-3,
    ("wire", "adam"): 5e-3,
    ("mfn", "muon"): 1e-2,
    ("mfn", "adam"): 1e-2,
}


@dataclass(frozen=True)
class Interpolation:
    """How Muon learns what lies between the pixels that it is given (docs/fitting.md).

    At a low rate that stays, with the exponential mean of the weights in the end: at the rate of
    ``default_rate`` it fits the given pixels so fast that it fills the gaps with noise.

    Attributes:
        rate: of Muon.
        adam_rate: of Adam beside it.
        mean_decay: share of the mean of the weights that each step keeps.
    """

    rate: float = 0.01
    adam_rate: float = 1e-3
    mean_decay: float = 0.97


INTERPOLATION = Interpolation()


def default_sigma(resolution: int) -> float:
    """Standard deviation of Gaussian frequencies for so many samples, 0.09 of Nyquist.

    Args:
        resolution: samples across [-1, 1], 1 or more.

    Returns:
        Cycles per unit of the coordinate.

    Examples:
        >>> default_sigma(512)
        11.52
    """
    return _SIGMA_TO_NYQUIST * resolution / 4


def make_encoder(
    name: Encoding,
    in_dim: int,
    *,
    resolution: int,
    num_bands: int = 10,
    sigma: float | None = None,
    seed: int = 0,
) -> nn.Module:
    """Build an encoder for coordinates in [-1, 1].

    Args:
        name: ``"none"`` passes the coordinates through; ``"fourier"`` has octaves of pi,
            ``"gaussian"`` 128 random frequencies, ``"hash"`` 8 levels of 4 features, from 16
            nodes an axis to one a sample, in tables of up to 2^19 rows.
        in_dim: number of coordinates.
        resolution: samples across [-1, 1] along the longest axis, 1 or more.
        num_bands: octaves of ``"fourier"``.
        sigma: of ``"gaussian"``, in cycles per unit; None is ``default_sigma(resolution)``.
        seed: of the random frequencies.

    Returns:
        A module with ``out_dim``, but for ``"none"``, an identity.

    Raises:
        ValueError: where the name is unknown.
    """
    if name == "none":
        return nn.Identity()
    if name == "fourier":
        return FourierEncoder(in_dim, num_bands)
    if name == "gaussian":
        sigma = default_sigma(resolution) if sigma is None else sigma
        generator = torch.Generator().manual_seed(seed)
        return GaussianEncoder(in_dim, 128, sigma=sigma, generator=generator)
    if name == "hash":
        growth = max(1.0, (resolution / 16) ** (1 / 7))
        return HashGridEncoder(in_dim, 8, features_per_level=4, growth=growth)
    raise ValueError(f"no encoding {name!r}; there are {', '.join(get_args(Encoding))}")


def default_layers(encoding: Encoding) -> tuple[int, int]:
    """Width and number of the hidden layers behind an encoding of a picture.

    A grid holds the detail itself and is read by a small network (Müller et al. 2022).
    """
    return (64, 2) if encoding == "hash" else (256, 4)


def default_optimizer(network: NetworkName) -> Optimizer:
    """Muon for the ReLU network, Adam for those whose published rates it does not beat."""
    return "muon" if network == "relu" else "adam"


def default_rate(network: NetworkName, optimizer: Optimizer, encoding: Encoding = "none") -> float:
    """Peak learning rate that did best for a network behind an encoding.

    Raises:
        ValueError: where the two do not go together.
    """
    if (network, optimizer) not in _RATES:
        raise ValueError(f"{network} has complex matrices, which {optimizer} cannot step; use adam")
    if encoding == "hash":
        return _HASH_RATES[optimizer]
    return _RATES[network, optimizer]


def make_optimizer(
    module: nn.Module,
    optimizer: Optimizer,
    rate: float,
    *,
    encoding: Encoding = "none",
    adam_rate: float | None = None,
    matrices: Iterable[Tensor] | None = None,
) -> OptimizerGroup:
    """Build the optimizer of a name: Muon on the hidden matrices and Adam on the rest, or Adam.

    Args:
        module: what to optimize.
        optimizer: ``"muon"`` or ``"adam"``.
        rate: peak learning rate, finite and positive.
        encoding: that the network reads. Behind a hash grid Muon's rate falls as the square of
            Adam's: its steps, which are as long as their rate whatever is left to learn, are else
            what keeps a long fit from its end.
        adam_rate: that of Adam beside Muon; None for its default.
        matrices: for Muon; None for all but the last of the module.

    Raises:
        ValueError: where the rate is out of its range, or there is no matrix for Muon.
    """
    if not (math.isfinite(rate) and rate > 0):
        raise ValueError(f"rate must be finite and positive; got {rate}")
    if optimizer == "adam":
        return adam(module, lr=rate)
    is_grid = encoding == "hash"
    if adam_rate is None:
        adam_rate = _HASH_ADAM_RATE if is_grid else MUON_ADAM_LR
    return muon(
        module,
        hidden_matrices(module) if matrices is None else matrices,
        lr=rate,
        adam_lr=adam_rate,
        lr_power=2.0 if is_grid else 1.0,
    )
