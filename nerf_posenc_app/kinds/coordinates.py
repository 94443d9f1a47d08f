"""Base of kinds with networks on coordinates: models, optimizers, measures, curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Never, TypeVar

import torch
from torch import Tensor, nn

from nerf_posenc.core.checks import unknown_name
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.fits import describe_fit
from nerf_posenc.networks import MLP
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.coordinate_model import CoordinateModel, make_coordinate_model
from nerf_posenc.training.devices import fastest_dtype
from nerf_posenc.training.schedules import constant
from nerf_posenc_app.kinds.kind import Kind, Problem
from nerf_posenc_app.options import CommonOptions, CoordinateOptions, UsageError, require
from nerf_posenc_app.values.finding import Doubt
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result

if TYPE_CHECKING:
    from jaxtyping import Float

PSNR = Measure(
    "psnr_db",
    "PSNR",
    "dB",
    2,
    meaning="-10 log10 of the mean squared error of the scored pixels or test views, with values "
    "in [0, 1]; 10 dB more is a tenth of the error",
)
SSIM = Measure(
    "ssim",
    "SSIM",
    "",
    4,
    meaning="Structural similarity, 1 for equal images: Wang et al. 2004, 11 x 11 Gaussian window, "
    "sigma 1.5, mean over channels, and over all windows around the scored pixels",
    least_gain=0.002,
)

CITATIONS = (
    "@inproceedings{mildenhall2020nerf, title={NeRF: Representing Scenes as Neural Radiance Fields "
    "for View Synthesis}, author={Mildenhall, Ben and Srinivasan, Pratul P. and Tancik, Matthew "
    "and Barron, Jonathan T. and Ramamoorthi, Ravi and Ng, Ren}, booktitle={ECCV}, year={2020}}",
    "@inproceedings{tancik2020fourier, title={Fourier Features Let Networks Learn High Frequency "
    "Functions in Low Dimensional Domains}, author={Tancik, Matthew and Srinivasan, Pratul P. and "
    "Mildenhall, Ben and Fridovich-Keil, Sara and Raghavan, Nithin and Singhal, Utkarsh and "
    "Ramamoorthi, Ravi and Barron, Jonathan T. and Ng, Ren}, booktitle={NeurIPS}, year={2020}}",
)
ABOUT = (
    "A small network on raw coordinates learns low frequencies first. An encoding gives it sines "
    "and cosines of the coordinates, or other features, to learn finer detail from."
)

DEFAULT_ENCODINGS = ("none", "fourier", "hash")
"""Encodings that are fitted if none are named."""

# A fit this little above one constant color has not learned the image.
_COLLAPSED_DB = 0.5
# More than this above a constant, batches were learned.
_LEARNED_DB = 4.0
# An image this near to its mean color is one constant color: 8 bits store no difference.
_CONSTANT_DB = 60.0


# Options that describe the model, under the same names.
_MODEL_OPTIONS = {field.name for field in fields(CoordinateModel)} - {"encoding"}

Coordinates = TypeVar("Coordinates", bound=CoordinateOptions[Never])


class CoordinateKind(Kind[Coordinates]):
    """Data that an encoder and a network map coordinates in [-1, 1] to.

    Attributes:
        in_dim: number of coordinates.
        out_dim: number of values.
        size: samples along each axis.
        start: values that a network starts at; None for the middle of their range.
    """

    in_dim: int
    out_dim: int = 1
    size: Sequence[int]
    start: Float[Tensor, " out_dim"] | None = None

    @property
    def resolution(self) -> int:
        """Fitted samples along the longest axis."""
        return max(self.size)

    @classmethod
    def with_defaults(cls, options: CommonOptions, **defaults: Any) -> Coordinates:
        """Resolve options as `Kind` does; encodings default to ``DEFAULT_ENCODINGS``."""
        return super().with_defaults(options, **{"encodings": DEFAULT_ENCODINGS, **defaults})

    def model(self, name: FitName, config: Coordinates) -> CoordinateModel:
        """Describe the model of a fit: the options of the same names, and what the data says."""
        chosen = {key: value for key, value in vars(config).items() if key in _MODEL_OPTIONS}
        if name.swept is not None:
            chosen[name.swept[0]] = name.swept[1]
        # Options that still have several values belong to another encoding.
        chosen = {k: value for k, value in chosen.items() if not isinstance(value, tuple)}
        sizes = {"in_dim": self.in_dim, "out_dim": self.out_dim, "resolution": self.resolution}
        return CoordinateModel(name.encoding, **{**chosen, **sizes})

    def build(
        self, name: FitName, config: Coordinates, generator: torch.Generator
    ) -> tuple[nn.Module, CoordinateModel]:
        """An encoder and a network."""
        model = self.model(name, config)
        encoder, network = make_coordinate_model(model, generator=generator)
        if self.start is not None and isinstance(network, MLP):
            network.start_at(self.start)
        return nn.Sequential(encoder, network), model

    def trained(
        self,
        model: nn.Module,
        description: CoordinateModel,
        config: Coordinates,
        draw_batch: DrawBatch,
        *,
        is_between: bool = False,
        facts: dict[str, Any] | None = None,
        **particular: Any,
    ) -> Problem:
        """Assemble the training problem of a model: optimizer, learning rates and precision.

        Args:
            model: the encoder and the network, one after the other.
            description: description of the model.
            config: resolved configuration.
            draw_batch: function from the step to its inputs and targets.
            is_between: whether the fit is evaluated between the fitted samples.
            facts: values that the saved fit is given back with.
            particular: further attributes of the problem.
        """
        encoding, optimizer = description.encoding, config.optimizer
        recipe = recipes.get_recipe(encoding)
        if optimizer == "auto":
            optimizer = recipes.default_optimizer(encoding)
        # Sinusoids that are fitted fast fill the gaps between the samples with noise; raw
        # coordinates cannot, and a hash grid does at any learning rate.
        is_slow = is_between and recipe.fills_gaps
        held_out = recipes.get_optimizer(optimizer).held_out if is_slow else None
        if held_out is not None:
            particular |= {"schedule": constant, "ema_decay": held_out.ema_decay}
        usual = recipes.default_lr(optimizer, encoding) if held_out is None else held_out.lr
        lr, adam_lr = config.lr or usual, None if held_out is None else held_out.adam_lr
        # Complex numbers have no half precision.
        is_complex = any(parameter.is_complex() for parameter in model.parameters())
        precision = "float32" if is_complex else config.precision
        dtype = precision_for(precision, torch.device(config.device), is_small=recipe.is_grid)
        return Problem(
            draw_batch=draw_batch,
            optimizer=recipes.make_optimizer(
                model, optimizer, lr, encoding=encoding, adam_lr=adam_lr
            ),
            description=describe_fit(self.name, description, self.size, **(facts or {})),
            autocast_dtype=dtype,
            details={
                "title": recipe.title,
                "network": recipe.network,
                "width": description.layers[0],
                "depth": description.layers[1],
                **{option: getattr(description, option) for option in recipe.options_used},
            },
            **particular,
        )


def suiting_encodings() -> list[str]:
    """Names that ``--encodings`` takes: encodings, and networks that need none."""
    return [*recipes.ENCODINGS, *recipes.implicit_networks()]


def check_encodings(
    options: CoordinateOptions,
    what: str,
    *,
    suiting: Sequence[str] | None = None,
    built: Sequence[str] | None = None,
) -> None:
    """Check that every encoding is known and suits, and that no option is for another.

    Args:
        options: options that may name encodings.
        what: name of the data for the message, such as ``"an image"``.
        suiting: names of the encodings that suit; None for those of coordinates in general.
        built: encodings that models are built with; None for those that are named, or the default.

    Raises:
        UsageError: Naming the encodings that suit, or the option and its encoding.
    """
    suiting = suiting_encodings() if suiting is None else suiting
    for name in options.encodings or ():
        is_network = name in recipes.implicit_networks()
        if isinstance(name, recipes.OwnEncoding):
            is_network = name.recipe is None
            # One of the user's own suits where all of its kind do.
            like = recipes.implicit_networks() if is_network else recipes.ENCODINGS
            suits = {*like} <= {*suiting}
        else:
            suits = name in suiting
            is_known = suits or is_network or name in recipes.ENCODINGS
            parts = name.split(",")
            require(
                len(parts) == 1 or not {*parts} <= {*suiting},
                f"--encodings takes names with spaces between them: {' '.join(parts)}",
            )
            require(is_known, f"--encodings: {unknown_name('encoding', name, list(suiting))}")
        require(suits, f"--encodings: {what} takes {', '.join(suiting)}, not {name}")
        if is_network and options.optimizer != "auto":
            try:
                recipes.default_lr(options.optimizer, name)
            except ValueError as error:
                raise UsageError(f"--optimizer: {error}") from None
    names = built or options.encodings or DEFAULT_ENCODINGS
    for option, name in (("--bands", "num_bands"), ("--sigma", "sigma")):
        using = " or ".join(recipes.encodings_with(name))
        require(
            getattr(options, name) is None or bool(recipes.encodings_with(name, names)),
            f"{option} is for the encoding {using}, and this run fits {', '.join(names)}; fit "
            f"{using} too, or leave {option} out",
        )


def precision_for(precision: str, device: torch.device, *, is_small: bool) -> torch.dtype:
    """Type that a network trains in.

    Args:
        precision: ``float32``, ``bfloat16`` or ``auto``.
        device: device to compute on.
        is_small: whether the network is so small that bfloat16 is no faster, and less exact: it
            caps a hash grid near 64 dB.
    """
    if precision != "auto":
        return torch.float32 if precision == "float32" else torch.bfloat16
    return fastest_dtype(device, is_small=is_small)


def frequency_bands(encoder: Encoder) -> list[float]:
    """Frequency bands in rad per unit; none if they are random or trained."""
    bands = encoder.frequency_bands
    return [] if bands is None else [float(band) for band in bands.flatten()]


def doubts_of_flat_fits(
    results: Sequence[Result],
    flat: float,
    config: CoordinateOptions,
    measure: Measure = PSNR,
    data: str = "image",
    *,
    first: str = "",
    others: str = "",
) -> Iterator[Doubt]:
    """Name fits that are hardly better than a constant.

    Args:
        results: the fits.
        flat: PSNR of a constant.
        config: configuration of the run.
        measure: PSNR that the fits are scored by.
        data: noun for the fitted data, such as ``"image"`` or ``"sound"``.
        first: advice before that on the training.
        others: noun for the scored data where it differs from the fitted data but is measured in
            the same way, such as ``"other views"``; empty where it does not.
    """
    length = "--steps" if config.seconds is None else "--seconds"
    for fit in results:
        is_judged = not fit.is_reference and fit.is_complete and flat < _CONSTANT_DB
        if is_judged and fit.scores[measure.name] < flat + _COLLAPSED_DB:
            scores = f"{fit.scores[measure.name]:.2f} dB; a constant scores {flat:.1f} dB"
            batches = fit.history[-1].score if fit.history and others else flat
            if batches > flat + _LEARNED_DB:
                fitted = f"learned what it was fitted to ({batches:.1f} dB)"
                reason = f"{fitted} and not the {others} ({scores})"
                encodings = [fit.name.encoding]
                if recipes.encodings_with("num_bands", encodings):
                    advice = "Give fewer --bands"
                elif recipes.encodings_with("sigma", encodings):
                    advice = "Give a smaller --sigma"
                else:
                    advice = "Try another encoding"
            else:
                reason = f"did not learn the {data} ({scores})"
                advice = f"Try more {length}, another --seed or a smaller --lr"
            yield Doubt(fit.name, reason, f"{first}{advice}")


def encoder_of(model: nn.Module) -> Encoder:
    """The encoder that a model begins with."""
    return next(module for module in model.modules() if isinstance(module, Encoder))
