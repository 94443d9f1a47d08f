"""Options of a sequence."""

from dataclasses import dataclass
from typing import Literal

from app.parsing import UsageError

_COUNTS = ("context", "heads", "hops", "beam", "seeds")
_MOST_SEEDS = 100


@dataclass(frozen=True, kw_only=True)
class SequenceOptions:
    """What --sequence fits: texts, stories, pairs or labeled sentences, and the model."""

    sequence: str | None = None
    """Sequences to fit: a .txt file, a .tsv file of pairs or of labels and sentences, a folder of
    bAbI tasks, or docstrings, stories, numbers or sources."""

    model: str | None = None
    """Model of a sequence. Text: transformer (masked), causal, conv or bert; stories: memn2n or
    memory-network; pairs: transformer or conv; labels: self-attentive. None: the first."""

    context: int | None = None
    """Characters of a training example of a text; None: 32 masked, 128 causal, 48 words of bert."""

    heads: int | None = None
    """Attention heads of a sequence's model; None: 4."""

    hops: int | None = None
    """Hops of a memory network over its memories, or attention rows of self-attentive; None is the
    paper's."""

    tying: Literal["adjacent", "layer-wise"] = "adjacent"
    """How memn2n shares weights between hops."""

    linear_start: bool = False
    """Train memn2n without softmax until its validation loss rises."""

    random_noise: bool = False
    """Add empty memories while memn2n is trained."""

    beam: int = 1
    """Width of the beam search that translates pairs; 1 is greedy."""

    seeds: int = 1
    """Models to train at once from as many seeds; the table shows their median, for memory networks
    the one of the least training loss."""


def check_sequence_options(options: SequenceOptions) -> None:
    """Check ranges, and that no option of a sequence is given without one.

    Raises:
        UsageError: If one does not fit.
    """
    for name in _COUNTS:
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name} must be 1 or more; got {value}")
    if options.seeds > _MOST_SEEDS:
        raise UsageError(f"--seeds must be {_MOST_SEEDS} or less; got {options.seeds}")
    if options.sequence is not None:
        return
    default = SequenceOptions()
    given = [name for name in vars(default) if getattr(options, name) != getattr(default, name)]
    if given:
        names = ", ".join("--" + name.replace("_", "-") for name in given)
        raise UsageError(f"{names}: for a --sequence; name one, such as --sequence docstrings")
