"""The tables of encodings, networks and optimizers, with their learning rates.

A new encoding is an `Encoder` in a file of its own and one row of ``ENCODINGS``; a new network or
optimizer is a function and a row of its table.
"""

import inspect
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from nerf_posenc.core.checks import require_positive, unknown_name
from nerf_posenc.core.encoder import Encoder, Identity
from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.encoders.random_fourier import GaussianEncoder
from nerf_posenc.networks import (
    MLP,
    MultiplicativeFilterNetwork,
    finer,
    gauss,
    hidden_matrices,
    siren,
    wire,
)
from nerf_posenc.training.encoding_recipe import EncoderDescription as EncoderDescription
from nerf_posenc.training.encoding_recipe import EncodingRecipe as EncodingRecipe
from nerf_posenc.training.encoding_recipe import HeldOutRecipe as HeldOutRecipe
from nerf_posenc.training.grid_sizes import hash_grid
from nerf_posenc.training.optimizers import ADAM_LR, MUON_LR, OptimizerGroup
from nerf_posenc.training.optimizers import adam as make_adam
from nerf_posenc.training.optimizers import muon as make_muon

Recipe = TypeVar("Recipe")

_DRAWING = threading.Lock()

# Tancik et al. 2020 chose sigma 10 for photographs and 14 for text at a Nyquist frequency of 128
# cycles per unit.
_SIGMA_TO_NYQUIST = 0.09


# Share of the Nyquist frequency that the last band may reach: one at it is constant at the samples,
# and those beyond are noise between them (docs/howto/choose.md).
_BANDS_TO_NYQUIST = 0.75


def default_bands(resolution: int) -> int:
    """Default number of octave bands: the last is at most at three quarters of Nyquist.

    Args:
        resolution: samples across [-1, 1], 1 or more.

    Examples:
        >>> [default_bands(n) for n in (64, 128, 451, 512)]
        [5, 6, 8, 8]
    """
    # Band L - 1 has 2^(L - 1) pi rad per unit, and half a cycle per sample is pi resolution / 2.
    return 1 + max(0, math.floor(math.log2(_BANDS_TO_NYQUIST * resolution / 2)))


def default_sigma(resolution: int) -> float:
    """Default standard deviation of Gaussian frequencies: 0.09 of the Nyquist frequency.

    Args:
        resolution: samples across [-1, 1], 1 or more.

    Returns:
        Cycles per unit of the coordinate.

    Examples:
        >>> default_sigma(512)
        11.52
    """
    return _SIGMA_TO_NYQUIST * resolution / 4


def _gaussian(model: EncoderDescription, generator: torch.Generator | None) -> Encoder:
    sigma = default_sigma(model.resolution) if model.sigma is None else model.sigma
    return GaussianEncoder(model.in_dim, 128, sigma=sigma, generator=generator)


def _hash_grid(model: EncoderDescription, generator: torch.Generator | None) -> Encoder:
    return hash_grid(
        model.in_dim, model.resolution, num_features=model.num_features, generator=generator
    )


ENCODINGS: dict[str, EncodingRecipe] = {
    "none": EncodingRecipe(
        title="A network on raw coordinates",
        build=lambda model, _: Identity(model.in_dim),
        is_raw=True,
    ),
    "fourier": EncodingRecipe(
        title="Positional encoding",
        build=lambda model, _: FourierEncoder(model.in_dim, model.num_bands),
        options_used=("num_bands",),
        fills_gaps=True,
    ),
    "gaussian": EncodingRecipe(
        title="Random Fourier features", build=_gaussian, options_used=("sigma",), fills_gaps=True
    ),
    # A small network reads the grid (Müller et al. 2022); Muon's rate: docs/experiments.md.
    "hash": EncodingRecipe(
        title="A hash grid",
        build=_hash_grid,
        options_used=("num_features",),
        is_grid=True,
        layers=(64, 2),
        lrs={"muon": 0.03, "adam": 0.01},
        muon_adam_lr=7e-3,
        muon_lr_power=2.0,
    ),
}
"""Encodings by name."""


@dataclass(frozen=True, kw_only=True)
class NetworkRecipe:
    """One row of the table of networks.

    Attributes:
        title: name at the beginning of a sentence.
        build: makes the network; called with ``in_dim, out_dim, width=, depth=, generator=``.
        optimizer: name of the default optimizer.
        lrs: peak learning rate by optimizer, where it is not the optimizer's own.
    """

    title: str
    build: Callable[..., nn.Module]
    optimizer: str = "adam"
    lrs: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class OptimizerRecipe:
    """One row of the table of optimizers.

    Attributes:
        build: makes the optimizer; called with ``module, matrices, lr=, adam_lr=, lr_power=``,
            where the last two are for what takes the module's other parameters beside the
            matrices, and for the schedule.
        lr: default peak learning rate.
        held_out: learning rates for evaluation between the fitted pixels; None for the usual ones.
    """

    build: Callable[..., OptimizerGroup]
    lr: float
    held_out: HeldOutRecipe | None = None


# The rates did best among those tried: docs/experiments.md.
NETWORKS: dict[str, NetworkRecipe] = {
    "relu": NetworkRecipe(title="A ReLU network", build=MLP, optimizer="muon"),
    # With the paper's weights 4 to 6 dB less after 220 steps: cat and kodim05 at 256 pixels.
    "siren": NetworkRecipe(
        title="SIREN", build=partial(siren, weight_scale=1.5), lrs={"muon": 2e-3, "adam": 1e-3}
    ),
    "finer": NetworkRecipe(
        title="FINER", build=finer, optimizer="muon", lrs={"muon": 2e-3, "adam": 3e-4}
    ),
    "gauss": NetworkRecipe(
        title="A network of Gaussian bumps",
        build=partial(gauss, scale=13.0),
        optimizer="muon",
        lrs={"muon": 2e-3},
    ),
    # Ahead of complex wavelets and of the paper's omega 20 and scale 10: docs/experiments.md.
    "wire": NetworkRecipe(
        title="WIRE",
        build=partial(wire, omega=9.0, scale=4.5, real=True),
        lrs={"muon": 2e-3, "adam": 4e-3},
    ),
    "mfn": NetworkRecipe(
        title="A multiplicative filter network",
        build=MultiplicativeFilterNetwork,
        lrs={"muon": 1e-2, "adam": 1e-2},
    ),
}
"""Networks by name; all but relu also stand among encodings, for themselves on raw coordinates."""

OPTIMIZERS: dict[str, OptimizerRecipe] = {
    "muon": OptimizerRecipe(build=make_muon, lr=MUON_LR, held_out=HeldOutRecipe()),
    "adam": OptimizerRecipe(
        build=lambda module, matrices, *, lr, **_: make_adam(module, lr=lr), lr=ADAM_LR
    ),
}
"""Optimizers by name."""


def _row(what: str, name: str, table: Mapping[str, Recipe]) -> Recipe:
    if name not in table:
        raise ValueError(unknown_name(what, name, table))
    return table[name]


class OwnEncoding(str):
    """Name of an encoding or a network of your own, which carries its row.

    It is a string, so that options and names of fits take it as any name. The tables stay as they
    are: two runs in one process may have two classes of one name.

    Attributes:
        recipe: row of the encoding; None for a network on raw coordinates.
        network: row of the network; None for an encoding.
        path: file that it is from; empty for none, as in a notebook.
        digest: checksum of the file and of what it computes; empty if unknown.
    """

    recipe: EncodingRecipe | None
    network: NetworkRecipe | None
    path: str
    digest: str

    def __new__(cls, name: str, value: Any, *, path: str = "", digest: str = "") -> "OwnEncoding":
        """Name an encoding or a network.

        Args:
            name: its name.
            value: an `EncodingRecipe`; or a class of modules with ``out_dim``, the number of
                features, that is called with the number of coordinates; or a class of networks on
                raw coordinates, that is called with ``in_dim, out_dim, width=, depth=``. A class
                may draw random numbers from torch's own generator, which starts at the seed of the
                fit.
            path: file that it is from.
            digest: checksum of the file and of what it computes.

        Raises:
            TypeError: If the value is none of these.
        """
        made = super().__new__(cls, name)
        made.path, made.digest, made.recipe, made.network = path, digest, None, None
        if isinstance(value, EncodingRecipe):
            made.recipe = value
        elif not (isinstance(value, type) and issubclass(value, nn.Module)):
            raise TypeError(
                f"an encoding is an EncodingRecipe or a class of modules with out_dim, not {value}"
            )
        elif _needs_out_dim(value):
            made.network = NetworkRecipe(title=f"The network {name}", build=_seeded(value))
        else:
            build = _seeded(value)
            made.recipe = EncodingRecipe(
                title=f"The encoding {name}",
                build=lambda model, generator: build(model.in_dim, generator=generator),
            )
        return made

    def __deepcopy__(self, memo: Any) -> "OwnEncoding":
        # `dataclasses.asdict` copies the values of fields.
        return self


def own_encodings(names: Iterable[str | None]) -> list[OwnEncoding]:
    """Those of some encodings that are of your own."""
    return [name for name in names if isinstance(name, OwnEncoding)]


def _needs_out_dim(value: type[nn.Module]) -> bool:
    """Whether a class needs the number of outputs, as networks do and encodings do not."""
    out_dim = inspect.signature(value).parameters.get("out_dim")
    return out_dim is not None and out_dim.default is out_dim.empty


def _seeded(value: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """Build a module that draws random numbers from torch's own generator."""

    def build(*dims: int, generator: torch.Generator | None = None, **layers: int) -> nn.Module:
        seed = 0 if generator is None else int(torch.randint(1 << 62, (), generator=generator))
        # All threads have the same generator, which is put back as it was.
        with _DRAWING, torch.random.fork_rng(devices=[]):
            torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
            return value(*dims, **layers)

    return build


def implicit_networks() -> list[str]:
    """Names of the networks that stand among encodings, as they need none."""
    return [name for name in NETWORKS if name != "relu"]


def get_recipe(encoding: str) -> EncodingRecipe:
    """Look up an encoding's row of the table; of a network, that of raw coordinates before it.

    Raises:
        ValueError: If the name is unknown.
    """
    if isinstance(encoding, OwnEncoding) and encoding.recipe is not None:
        return encoding.recipe
    if isinstance(encoding, OwnEncoding) or encoding in implicit_networks():
        network = get_network(encoding)
        return replace(ENCODINGS["none"], title=network.title, network=encoding)
    if encoding not in ENCODINGS:
        raise ValueError(
            f"{unknown_name('encoding', encoding, ENCODINGS)}; one of your own is code, which runs "
            f"only if you name it: to fit with --encodings FILE.py:{encoding}, to render and "
            f"export with --encoding FILE.py:{encoding}, in Python with encodings=[{encoding}]"
        )
    return ENCODINGS[encoding]


def encodings_with(option: str, encodings: Iterable[str] | None = None) -> list[str]:
    """Names of the encodings, of these or of all, that use an option such as ``"num_bands"``."""
    names = ENCODINGS if encodings is None else encodings
    known = (name for name in names if isinstance(name, OwnEncoding) or name in ENCODINGS)
    return [name for name in known if option in get_recipe(name).options_used]


def make_encoder(model: EncoderDescription, generator: torch.Generator | None = None) -> Encoder:
    """Build an encoder for coordinates in [-1, 1].

    Args:
        model: description of the encoder, or of the model that begins with it.
        generator: random number generator of frequencies and initial features; None for torch's
            own.

    Raises:
        ValueError: If the name is unknown, or a grid has no size within the number of features.

    Examples:
        >>> make_encoder(EncoderDescription("fourier", resolution=512, num_bands=8)).out_dim
        32
    """
    return get_recipe(model.encoding).encoder(model, generator)


def get_network(network: str) -> NetworkRecipe:
    """Look up a network's row of the table.

    Raises:
        ValueError: If the name is unknown.
    """
    if isinstance(network, OwnEncoding) and network.network is not None:
        return network.network
    return _row("network", network, NETWORKS)


def get_optimizer(optimizer: str) -> OptimizerRecipe:
    """Look up an optimizer's row of the table.

    Raises:
        ValueError: If the name is unknown.
    """
    return _row("optimizer", optimizer, OPTIMIZERS)


def default_optimizer(encoding: str) -> str:
    """Name of the optimizer that suits the network after an encoding.

    Raises:
        ValueError: If the name is unknown.
    """
    return get_network(get_recipe(encoding).network).optimizer


def default_lr(optimizer: str, encoding: str = "none") -> float:
    """Default peak learning rate for the network after an encoding (docs/experiments.md).

    Raises:
        ValueError: If a name is unknown.
    """
    recipe = get_recipe(encoding)
    lr = get_network(recipe.network).lrs.get(optimizer, get_optimizer(optimizer).lr)
    return (recipe.lrs or {}).get(optimizer, lr)


def make_optimizer(
    module: nn.Module,
    optimizer: str,
    lr: float,
    *,
    encoding: str = "none",
    adam_lr: float | None = None,
    matrices: Iterable[Tensor] | None = None,
) -> OptimizerGroup:
    """Build an optimizer: Muon on the hidden matrices with Adam on the rest, or Adam alone.

    Args:
        module: its parameters are optimized.
        optimizer: one of ``OPTIMIZERS``.
        lr: peak learning rate, finite and positive.
        encoding: encoding whose features the network takes.
        adam_lr: peak learning rate of Adam beside Muon; None for the encoding's own.
        matrices: weights that Muon steps; None for all but the last of the module.

    Raises:
        ValueError: If a name is unknown, a learning rate is out of its range, or Muon has no
            matrix.
    """
    recipe = get_recipe(encoding)
    adam_lr = recipe.muon_adam_lr if adam_lr is None else adam_lr
    require_positive(lr=lr, adam_lr=adam_lr)
    return get_optimizer(optimizer).build(
        module,
        hidden_matrices(module) if matrices is None else matrices,
        lr=lr,
        adam_lr=adam_lr,
        lr_power=recipe.muon_lr_power,
    )
