"""The protocol `Kind`: the interface between a kind of data and the program.

A kind says what is particular to its data. Everything else, the run, its folder, resuming, the
tables, the page and `compare`, knows configurations, scores and blocks alone.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast, get_args, get_type_hints

import torch
from torch import Tensor, nn

from nerf_posenc.images import MuLaw, strips, unit_range
from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.checkpoints import bytes_of
from nerf_posenc.training.loop import FitState, Loss, mse
from nerf_posenc.training.optimizers import OptimizerGroup
from nerf_posenc.training.schedules import cosine_decay
from nerf_posenc_app.options import CommonConfig, CommonOptions, Open, UsageError
from nerf_posenc_app.values.blocks import Block, Evaluation
from nerf_posenc_app.values.finding import Doubt
from nerf_posenc_app.values.measures import BATCH_PSNR, Measure, TrainingScore
from nerf_posenc_app.values.names import SEED, FitName
from nerf_posenc_app.values.results import Result, Snapshot

if TYPE_CHECKING:
    from typing import Self

    from jaxtyping import Float


Config = TypeVar("Config", bound=CommonConfig)


@dataclass(kw_only=True)
class Problem:
    """Training problem of one model.

    Attributes:
        draw_batch: function from the step to its inputs and targets.
        optimizer: steps the model's parameters.
        description: plain values from which the saved model is rebuilt.
        loss: function from prediction and targets to a scalar.
        forward: function from the inputs of a batch to the prediction; None for the model itself.
        after_step: callback after each step.
        schedule: function from progress in [0, 1) to the factor of the learning rates.
        autocast_dtype: type that the network trains in; None is float32.
        ema_decay: replace the weights in the end by their exponential moving average with this
            decay per step; None for the last weights.
        compiled: run the model through ``torch.compile``.
        captured: capture a step as a CUDA graph, where there is a GPU; see `fit`.
        preview: renders small images of the fit in progress.
        originals: the true images of `preview`.
        details: values for ``metrics.json``: ``network``, ``width`` and ``depth``, which the
            headline compares, and ``title``, its name of the encoding.
    """

    draw_batch: DrawBatch
    optimizer: OptimizerGroup
    description: Mapping[str, Any] = field(default_factory=dict)
    loss: Loss = mse
    forward: Callable[[Any], Any] | None = None
    after_step: Callable[[FitState], None] | None = None
    schedule: Callable[[float], float] = cosine_decay
    autocast_dtype: torch.dtype | None = None
    ema_decay: float | None = None
    compiled: bool = False
    captured: bool = False
    preview: Callable[[], Sequence[Tensor]] = list
    originals: Sequence[Tensor] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rendered:
    """A saved fit as ``render`` writes it.

    Attributes:
        size: width and height in pixels.
        name: stem of the file's name.
        strips: rows of a single image from top to bottom, or whole frames.
        num_frames: number of frames.
        rate: frames per second.
        note: remark for the user; None for none.
        tone: curve by which the values are linear light; None for sRGB.
    """

    size: tuple[int, int]
    name: str
    strips: Iterator[Float[Tensor, "_rows _width 3"]]
    num_frames: int = 1
    rate: float = 24.0
    note: str | None = None
    tone: MuLaw | None = None


@dataclass(frozen=True)
class RenderedFile:
    """A saved fit as ``render`` writes it, where that is no image and no video.

    Attributes:
        name: stem of the file's name.
        suffix: ending of the file's name, such as ``".wav"``.
        write: function that writes the file to a path.
        note: remark for the user; None for none.
    """

    name: str
    suffix: str
    write: Callable[[Path], None]
    note: str | None = None


@dataclass(frozen=True)
class Exportable:
    """A saved fit as ``export`` writes it.

    Attributes:
        model: module of tensors alone.
        inputs: an example of each argument, by name; the first dimension may be of any size.
        outputs: names of what it returns.
    """

    model: nn.Module
    inputs: Mapping[str, Tensor]
    outputs: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Fit(Generic[Config]):
    """A model that was trained, to be evaluated.

    Attributes:
        name: name of the fit.
        config: configuration of the run.
        model: the model.
        problem: training problem of the model.
        state: the training as it ended.
        snapshots: previews during the training.
    """

    name: FitName
    config: Config
    model: nn.Module
    problem: Problem
    state: FitState
    snapshots: list[Snapshot] = field(default_factory=list)


class Kind(ABC, Generic[Config]):
    """Data of one kind, opened, and what is particular to fits of it.

    Attributes:
        name: name of the kind; ``--name`` chooses it.
        Options: its options; ``Options[Never]`` is the configuration that `resolve` returns.
        rendered_by: options of the command ``render`` that suit its fits; none if they have nothing
            to render.
        training: score that progress, curves and video show of the loss of the batches; the PSNR
            for a mean squared error of values in [0, 1].
        title: name of the data.
        source: source of the data.
        about: lesson of a comparison of encodings on such data, for the report.
        citations: BibTeX of the papers behind it.
        notes_on_data: remarks that a reader of the table should know.
        evaluated_on: part of the data that scores are of; empty for all of it.
        facts: further values for ``metrics.json``.
    """

    name: ClassVar[str]
    Options: ClassVar[type[CommonOptions]]
    rendered_by: ClassVar[Sequence[str]] = ()
    training: TrainingScore = BATCH_PSNR

    title: str
    source: str
    about: str = ""
    citations: Sequence[str] = ()
    notes_on_data: Sequence[str] = ()
    evaluated_on: str = ""
    facts: Mapping[str, Any] = {}

    def __init__(self, options: Any) -> None:
        raise NotImplementedError

    @classmethod
    def open(cls, options: Any) -> Self:
        """Open the data that options name; by default the constructor opens it.

        Raises:
            SceneError: If it cannot be opened.
            UsageError: If it is not what the options need.
        """
        return cls(options)

    @abstractmethod
    def summary(self, config: Config) -> list[str]:
        """Lines that are printed before the first fit."""

    @abstractmethod
    def digest(self) -> str:
        """Checksum of all that a fit gets from the data; a resumed run must find it again."""

    @abstractmethod
    def resolve(self, options: Any) -> Config:
        """Replace every option that depends on the data or the device by its value.

        Args:
            options: options as the user gave them, with the device to compute on.

        Raises:
            UsageError: If options do not suit the data.
        """

    @classmethod
    def with_defaults(cls, options: CommonOptions, **defaults: Any) -> Config:
        """Resolve options: replace each one that is None by its default.

        Args:
            options: options as the user gave them.
            defaults: values by the name of the option.

        Raises:
            TypeError: If an option of the type `Open` has no value and no default.
        """
        chosen = {key: value for key, value in defaults.items() if getattr(options, key) is None}
        config = replace(options, **chosen)
        for key, hint in get_type_hints(type(config)).items():
            if Open in get_args(hint) and getattr(config, key) is None:
                raise TypeError(f"{cls.__name__}.resolve has to give {key} a default")
        # This has just been checked; types cannot say that Config is this class with another Open.
        return cast("Config", config)

    @abstractmethod
    def measures(self, config: Config) -> Sequence[Measure]:
        """Columns of the table; gains are of the first."""

    def fit_names(self, config: Config) -> Sequence[FitName]:
        """Fits of a run in the order of its table; by default each encoding, once for each seed."""
        seeds = [None, *((SEED, seed) for seed in range(1, config.num_seeds))]
        return [FitName(encoding, seed) for seed in seeds for encoding in config.encodings]

    @abstractmethod
    def build(
        self, name: FitName, config: Config, generator: torch.Generator
    ) -> tuple[nn.Module, Any]:
        """Make the model of a fit.

        Args:
            name: name of the fit.
            config: configuration of the run, resolved.
            generator: random number generator of the initial weights.

        Returns:
            The model, and its description, which `problem` is given.
        """

    @abstractmethod
    def problem(self, model: nn.Module, description: Any, config: Config) -> Problem:
        """Assemble the training problem of a model.

        Args:
            model: the model, on its device.
            description: description of the model by `build`.
            config: configuration of the run, resolved.

        Raises:
            UsageError: If the data cannot be fitted.
        """

    @abstractmethod
    def evaluate(self, fit: "Fit[Config]") -> Evaluation:
        """Score a fitted model on test data, and show it in blocks."""

    def references(self, config: Config) -> Mapping[str, Callable[[], Result]]:
        """References without training that are evaluated alike, by name; none by default.

        They are computed before the first fit. Of one that raises, the run says so and goes on.
        """
        return {}

    def notes(self, results: Sequence[Result], config: Config) -> Iterator[str | Doubt]:
        """Remarks on results, and doubts about single fits; none by default."""
        return iter(())

    def blocks_of_best(self, name: FitName, path: Path, config: Config) -> Sequence[Block]:
        """Further blocks of the best fit of a run, which would take too long for every fit.

        Args:
            name: name of the fit.
            path: file of the fit.
            config: configuration of the run.
        """
        return ()

    @classmethod
    def render(
        cls, fit: Any, path: Path, device: torch.device, given: Mapping[str, Any]
    ) -> Rendered | RenderedFile:
        """Render a saved fit, for kinds that have options in ``rendered_by``.

        Args:
            fit: the fit, as `nerf_posenc.fits.load_fit` gives it.
            path: its file, which names the result.
            device: device to compute on, on which the fit is.
            given: options of the command ``render``; None for what was not given.

        Raises:
            UsageError: If an option does not suit the fit.
        """
        raise NotImplementedError

    @classmethod
    def exportable(cls, fit: Any) -> Exportable:
        """A saved fit as ``export`` writes it.

        Raises:
            UsageError: If this kind cannot be exported.
        """
        raise UsageError(f"a fit of the kind {cls.name} cannot be exported")


def digest_of(parts: Iterable[tuple[Sequence[int], Iterable[Tensor]]]) -> str:
    """BLAKE2 checksum of tensors, each given by its shape and its parts along the first axis.

    Tensors of 8 or 16 bits count as the values in [0, 1] that they stand for.
    """
    checksum = hashlib.blake2b(digest_size=16)
    for shape, tensors in parts:
        checksum.update(repr(tuple(shape)).encode())
        for tensor in tensors:
            for strip in strips(tensor) if tensor.ndim > 1 else [tensor]:
                is_pixels = strip.dtype in (torch.uint8, torch.uint16)
                checksum.update(bytes_of((unit_range(strip) if is_pixels else strip).contiguous()))
    return checksum.hexdigest()
