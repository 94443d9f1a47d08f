"""A sequence: characters that a Transformer fills in, without and with sinusoidal positions.

`SinusoidalEncoder` and `FourierEncoder` share one core: here it tells positions in a text apart, as
there points of an image.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Never

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc import SinusoidalEncoder
from nerf_posenc.training import muon
from nerf_posenc.training.batches import DrawBatch
from nerf_posenc_app.kinds.kind import Fit, Kind, Problem, digest_of
from nerf_posenc_app.options import CommonOptions, Open, Range, UsageError, require
from nerf_posenc_app.terminal import printable
from nerf_posenc_app.values.blocks import Evaluation, Passage, Token
from nerf_posenc_app.values.finding import Doubt
from nerf_posenc_app.values.measures import Measure, TrainingScore
from nerf_posenc_app.values.names import GUESS, FitName
from nerf_posenc_app.values.results import Result

TOPICS = "topics"
"""Python's help topics, a text that every Python has; an existing file of this name goes first."""

BITS = Measure(
    "bits_per_character",
    "bits per character",
    "",
    3,
    higher_is_better=False,
    meaning="Mean of -log2 of the probability that the model gives to a hidden character of the "
    "test text",
)
ACCURACY = Measure(
    "accuracy_percent", "accuracy", "%", 1, meaning="Hidden characters that are predicted correctly"
)

ENCODINGS = ("none", "sinusoidal")
_MAX_BYTES = 200_000_000
# Share of the characters that are hidden (Devlin et al. 2019).
_HIDDEN = 0.15
_TEST_SHARE = 0.1
# Maximum number of scored windows of the test text, and of windows on the page.
_SCORED, _SHOWN = 1024, 10
_HEADS = 4
_CONTEXT = 32
# Fewer hidden characters say little of an encoding.
_FEW = 100
# Target that cross_entropy ignores by default.
_GIVEN = -100


@dataclass(frozen=True, kw_only=True)
class SequenceOptions(CommonOptions[Open]):
    """Fill in hidden characters, without and with positions.

    Encodings: none sinusoidal.

      train_fit.py --sequence text.txt
    """

    sequence: str = TOPICS
    """UTF-8 text file, or topics, the built-in help texts of Python."""

    context: Annotated[int, Range(4, 4096)] = _CONTEXT
    """Number of characters that the model sees at once."""


class MaskedTransformer(nn.Module):
    """Transformer that predicts hidden characters from those around them (Devlin et al. 2019).

    Attention does not depend on the order of its inputs: without positions the model sees which
    characters surround a hidden one, but not where they stand.

    Args:
        num_symbols: number of characters, and one more for what is hidden.
        length: characters of a window.
        width: width of the embeddings.
        depth: number of layers.
        has_positions: whether sinusoidal positions are added to the embeddings.
        generator: random number generator of the initial weights.
    """

    positions: Tensor

    def __init__(
        self,
        num_symbols: int,
        length: int,
        *,
        width: int,
        depth: int,
        has_positions: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_symbols, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, _HEADS, 4 * width, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        table = SinusoidalEncoder(width).table(length)
        self.register_buffer("positions", table if has_positions else torch.zeros_like(table))
        nn.init.normal_(self.embedding.weight, std=width**-0.5, generator=generator)
        for matrix in self.matrices():
            nn.init.xavier_uniform_(matrix, generator=generator)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.zeros_(layer.bias)

    def matrices(self) -> list[nn.Parameter]:
        """Weights of attention and of the feed-forward networks."""
        return [parameter for parameter in self.layers.parameters() if parameter.ndim == 2]

    def forward(self, symbols: Tensor) -> Tensor:
        """Logits ``(batch, length, num_symbols)`` of symbols ``(batch, length)``."""
        # Scale embeddings to variance 1; sines and cosines have variance 1/2.
        x = math.sqrt(self.embedding.embedding_dim) * self.embedding(symbols) + self.positions
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.norm(x) @ self.embedding.weight.T
        return logits


SequenceConfig = SequenceOptions[Never]


class SequenceKind(Kind[SequenceConfig]):
    """A text, whose last tenth is for testing."""

    name = "sequence"
    Options = SequenceOptions
    training = TrainingScore(
        Measure("loss", "loss", "bits", 3, higher_is_better=False), lambda loss: loss / math.log(2)
    )
    about = (
        "Attention is blind to order: without positions the model sees which characters surround a "
        "hidden one, but not where they stand. Sinusoids of the position tell them apart."
    )
    citations = (
        "@inproceedings{vaswani2017attention, title={Attention Is All You Need}, author={Vaswani, "
        "Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and "
        "Gomez, Aidan N. and Kaiser, {\\L}ukasz and Polosukhin, Illia}, booktitle={NeurIPS}, "
        "year={2017}}",
    )

    def __init__(self, options: SequenceOptions) -> None:
        text, self.title, self.source = _read(options.sequence)
        cut = round(len(text) * (1 - _TEST_SHARE))
        self.alphabet = sorted(set(text))
        number = {character: i for i, character in enumerate(self.alphabet)}
        symbols = torch.tensor([number[character] for character in text])
        self.train, self.test = symbols[:cut], symbols[cut:]
        needed = round(options.context / _TEST_SHARE)
        require(
            len(self.test) >= options.context,
            f"--sequence {options.sequence} has {len(text):,} characters, and {needed:,} are "
            f"needed for --context {options.context}; use a longer text or a smaller --context",
        )

    def summary(self, config: SequenceConfig) -> list[str]:
        """Source, and how much there is to train and to test."""
        counts = f"{len(self.train):,} characters to train, {len(self.test):,} to test"
        return [f"sequence {self.source}, {counts}, {len(self.alphabet)} distinct"]

    def digest(self) -> str:
        """Checksum of the text."""
        return digest_of((part.shape, [part]) for part in (self.train, self.test))

    def resolve(self, options: SequenceOptions) -> SequenceConfig:
        """Choose the model and the length of the training."""
        encodings = options.encodings or ENCODINGS
        unknown = [name for name in encodings if name not in ENCODINGS]
        require(
            not unknown, f"--sequence takes {' and '.join(ENCODINGS)}, not {', '.join(unknown)}"
        )
        width = options.width or 96
        require(width % _HEADS == 0, f"--width must be a multiple of {_HEADS}; got {width}")
        precision = "float32" if options.precision == "auto" else options.precision
        return self.with_defaults(
            replace(options, precision=precision),
            encodings=encodings,
            width=width,
            depth=2,
            steps=800,
            batch_size=64,
            lr=0.02,
        )

    def measures(self, config: SequenceConfig) -> Sequence[Measure]:
        """Bits per hidden character, and how many are right."""
        return (BITS, replace(ACCURACY, count=len(self._tested(config))))

    def references(self, config: SequenceConfig) -> Mapping[str, Callable[[], Result]]:
        """A guess by how often each character occurs in training."""

        def compute() -> Result:
            bits, percent = guessed(self.train, self._tested(config), len(self.alphabet))
            scores = {BITS.name: bits, ACCURACY.name: percent}
            return Result(
                name=FitName(GUESS), seconds=0.0, evaluation=Evaluation(scores), is_reference=True
            )

        return {GUESS: compute}

    def notes(self, results: Sequence[Result], config: SequenceConfig) -> Iterator[str | Doubt]:
        """Doubt scores of few hidden characters."""
        count = len(self._tested(config))
        for fit in results:
            if count < _FEW and not fit.is_reference:
                reason = f"was tested on {count} hidden characters only"
                yield Doubt(fit.name, reason, "Use a longer text")

    def _tested(self, config: SequenceConfig) -> Tensor:
        """Hidden characters of the test text that are scored."""
        _, targets = self._test_windows(config, _SCORED)
        return targets[targets != _GIVEN]

    def build(
        self, name: FitName, config: SequenceConfig, generator: torch.Generator
    ) -> tuple[nn.Module, dict[str, Any]]:
        """A Transformer, the same for both encodings."""
        assert config.width is not None
        assert config.depth is not None
        model = MaskedTransformer(
            len(self.alphabet) + 1,
            config.context,
            width=config.width,
            depth=config.depth,
            has_positions=name.encoding == "sinusoidal",
            generator=generator,
        )
        return model, {"kind": self.name, "encoding": name.encoding}

    def problem(
        self, model: nn.Module, description: dict[str, Any], config: SequenceConfig
    ) -> Problem:
        """Random windows of the text with characters hidden, the same for both encodings."""
        assert config.lr is not None
        assert isinstance(model, MaskedTransformer)
        return Problem(
            draw_batch=self._batches(config),
            optimizer=muon(model, model.matrices(), lr=config.lr, adam_lr=1e-2),
            description=description,
            loss=lambda logits, targets: F.cross_entropy(
                logits.float().flatten(0, 1), targets.flatten(), ignore_index=_GIVEN
            ),
            autocast_dtype=torch.bfloat16 if config.precision == "bfloat16" else None,
            details={"network": "transformer", "width": config.width, "depth": config.depth},
        )

    def _batches(self, config: SequenceConfig) -> DrawBatch:
        def draw(step: int) -> tuple[Tensor, Tensor]:
            generator = torch.Generator().manual_seed(config.seed * 1_000_003 + step)
            most = len(self.train) - config.context + 1
            starts = torch.randint(most, (config.batch_size, 1), generator=generator)
            windows = self.train[starts + torch.arange(config.context)]
            inputs, targets = self._hidden(windows, generator)
            return inputs.to(config.device), targets.to(config.device)

        return draw

    def _hidden(self, windows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Windows with characters hidden, and the characters that were hidden."""
        is_hidden = torch.rand(windows.shape, generator=generator) < _HIDDEN
        # Every window has one, so that a batch always has a loss.
        is_hidden[:, 0] |= ~is_hidden.any(-1)
        hidden = windows.masked_fill(is_hidden, len(self.alphabet))
        return hidden, windows.masked_fill(~is_hidden, _GIVEN)

    def _test_windows(self, config: SequenceConfig, count: int) -> tuple[Tensor, Tensor]:
        windows = self.test[: len(self.test) // config.context * config.context]
        windows = windows.view(-1, config.context)[:count]
        return self._hidden(windows, torch.Generator().manual_seed(0))

    @torch.no_grad()
    def evaluate(self, fit: Fit[SequenceConfig]) -> Evaluation:
        """Bits per hidden character of the test text, and an example with predictions."""
        nats, right = [], []
        inputs, targets = self._test_windows(fit.config, _SCORED)
        for given, truth in zip(inputs.split(64), targets.split(64), strict=True):
            logits = fit.model(given.to(fit.config.device)).float().cpu()
            is_hidden = truth != _GIVEN
            predicted, expected = logits[is_hidden], truth[is_hidden]
            nats.append(F.cross_entropy(predicted, expected, reduction="none"))
            right.append((predicted.argmax(-1) == expected).float())
        scores = {
            BITS.name: float(torch.cat(nats).mean()) / math.log(2),
            ACCURACY.name: 100 * float(torch.cat(right).mean()),
        }
        return Evaluation(scores, [self._passage(fit.model, fit.config)])

    @torch.no_grad()
    def _passage(self, model: nn.Module, config: SequenceConfig) -> Passage:
        """The beginning of the test text, with what the model fills in."""
        inputs, targets = self._test_windows(config, _SHOWN)
        predicted = model(inputs.to(config.device)).argmax(-1).cpu()
        names = [*self.alphabet, "?"]
        tokens = []
        for given, truth, found in zip(
            *(part.flatten().tolist() for part in (inputs, targets, predicted)), strict=True
        ):
            if truth == _GIVEN:
                tokens.append(Token(names[given]))
            else:
                mark: Literal["right", "wrong"] = "right" if found == truth else "wrong"
                tokens.append(Token(names[found], mark, names[truth]))
        return Passage("Hidden characters, filled in", tokens)


def guessed(train: Tensor, test: Tensor, size: int) -> tuple[float, float]:
    """Bits and percent right of guesses by how frequent answers are in training.

    Args:
        train: answers of the training data, of shape ``(n,)``, from 0 on.
        test: true answers, of shape ``(m,)``.
        size: number of different answers.
    """
    # One more per class, for answers that do not occur in training.
    counts = torch.bincount(train, minlength=size).double() + 1
    bits = -(counts / counts.sum()).log2()[test].mean()
    return float(bits), 100 * float((test == counts.argmax()).double().mean())


def _read(name_or_path: str) -> tuple[str, str, str]:
    """Text, title and source of a file, or of the built-in text.

    Raises:
        UsageError: If there is no such file, or it is no text.
    """
    path = Path(name_or_path)
    try:
        if name_or_path == TOPICS and not path.exists():
            from pydoc_data.topics import topics

            return "\n".join(topics.values()), TOPICS, "Python's help topics"
        what = "it is a folder" if path.is_dir() else "there is no such file"
        require(path.is_file(), f"--sequence {path}: {what}; give a text file")
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        require(
            len(content) <= _MAX_BYTES,
            f"--sequence {path} has more than {_MAX_BYTES / 1e6:g} MB; give a part of it",
        )
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise UsageError(f"--sequence {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"--sequence {path} is not UTF-8 text (byte {error.start + 1}); save it as UTF-8"
        ) from None
    require("\0" not in text, f"--sequence {path} is a binary file; give a text file")
    return text, printable(path.stem), printable(str(path))
