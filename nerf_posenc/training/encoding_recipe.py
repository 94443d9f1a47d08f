"""One row of the table of encodings: how the program builds and trains an encoding."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor, nn

from nerf_posenc.core.encoder import Encoder
from nerf_posenc.training.optimizers import MUON_ADAM_LR


@dataclass(frozen=True)
class EncoderDescription:
    """Description of the encoder of a model; the descriptions of models derive from it.

    Attributes:
        encoding: name of a row of ``ENCODINGS``.
        in_dim: number of coordinates in [-1, 1].
        resolution: samples across [-1, 1] along the longest axis, 1 or more.
        num_bands: frequency bands.
        sigma: standard deviation of random frequencies, in cycles per unit; None is
            ``default_sigma(resolution)``.
        num_features: most trained features of a grid; None for its default size.
        seed: random seed of the initial weights.
    """

    encoding: str = "fourier"
    _: KW_ONLY
    in_dim: int = 2
    resolution: int = 512
    num_bands: int = 10
    sigma: float | None = None
    num_features: int | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class HeldOutRecipe:
    """Learning rates for fits that are evaluated between the fitted pixels (docs/experiments.md).

    Attributes:
        lr: learning rate of Muon.
        adam_lr: learning rate of Adam beside it.
        ema_decay: decay of the moving average, per step.
    """

    lr: float = 0.01
    adam_lr: float = 1e-3
    ema_decay: float = 0.97


@dataclass(frozen=True, kw_only=True)
class EncodingRecipe:
    """One row of the table of encodings.

    Attributes:
        title: name at the beginning of a sentence.
        build: makes the encoder, or any module with ``out_dim``, the number of its features, from
            its description and a random number generator, which is None for torch's own.
        options_used: options of the description that the encoder depends on: ``"num_bands"``,
            ``"sigma"``, ``"num_features"``.
        is_raw: whether the features are the coordinates themselves; of a radiance field, directions
            are then raw too.
        is_grid: whether the features are trained values of a grid. A small network reads them, so
            that bfloat16 is no faster on a CPU.
        network: name of the network that follows.
        layers: width and number of the hidden layers that follow; None for the default of an image
            or of the radiance field.
        lrs: peak learning rate by optimizer; None for the network's own.
        muon_adam_lr: peak learning rate of Adam beside Muon.
        muon_lr_power: power of the schedule's factor that Muon's learning rate follows. Its steps
            are as long as the rate, so a long fit converges only if it falls faster than Adam's.
        fills_gaps: whether a fast fit fills the gaps between the fitted pixels with noise. An
            evaluation between them then takes the ``held_out`` rates of the optimizer.
    """

    title: str
    build: Callable[[EncoderDescription, torch.Generator | None], nn.Module]
    options_used: tuple[str, ...] = ()
    is_raw: bool = False
    is_grid: bool = False
    network: str = "relu"
    layers: tuple[int, int] | None = None
    lrs: Mapping[str, float] | None = None
    muon_adam_lr: float = MUON_ADAM_LR
    muon_lr_power: float = 1.0
    fills_gaps: bool = False

    def encoder(
        self, model: EncoderDescription, generator: torch.Generator | None = None
    ) -> Encoder:
        """Build the encoder of a description.

        Raises:
            TypeError: If it is a module without ``out_dim``.
        """
        module = self.build(model, generator)
        return module if isinstance(module, Encoder) else _OfModule(module, model.in_dim)


class _OfModule(Encoder):
    """Any module with ``out_dim`` as an encoder."""

    def __init__(self, module: nn.Module, in_dim: int) -> None:
        out_dim = getattr(module, "out_dim", None)
        if not isinstance(out_dim, int) or isinstance(out_dim, bool) or out_dim < 1:
            raise TypeError(
                f"{type(module).__name__} needs an attribute out_dim, the number of its features, "
                f"1 or more; got {out_dim!r}"
            )
        super().__init__(in_dim, out_dim)
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.module(x)
        if features.shape != (*x.shape[:-1], self.out_dim):
            # A loss would repeat a missing row or column.
            raise ValueError(
                f"{type(self.module).__name__} gives {tuple(features.shape)} for coordinates "
                f"{tuple(x.shape)}, and its out_dim is {self.out_dim}"
            )
        return features
