"""From a name or a path to a system with its data."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nerf_posenc_sequences.data.files import open_text_file, open_tsv
from nerf_posenc_sequences.data.numbers import make_numbers
from nerf_posenc_sequences.data.stories import open_babi_folder
from nerf_posenc_sequences.data.topics import open_chapters, open_topics
from nerf_posenc_sequences.data.types import Data, Indexing, LabeledSentences, Pairs, Stories, Text
from nerf_posenc_sequences.data.world import make_stories
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.system import System, SystemOptions
from nerf_posenc_sequences.systems.bert import BertSystem
from nerf_posenc_sequences.systems.indexing import IndexingSystem
from nerf_posenc_sequences.systems.language import LanguageSystem
from nerf_posenc_sequences.systems.memn2n import MemN2NSystem
from nerf_posenc_sequences.systems.memory_network import MemoryNetworkSystem
from nerf_posenc_sequences.systems.self_attentive import SelfAttentiveSystem
from nerf_posenc_sequences.systems.translation import TranslationSystem

# Questions of each built-in task, as in bAbI's 1k.
_STORIES_TO_TRAIN = 1000
_STORIES_TO_TEST = 1000

BUILT_IN: Mapping[str, Callable[[int], Data]] = MappingProxyType(
    {
        "topics": lambda seed: open_topics(),
        "stories": lambda seed: make_stories(_STORIES_TO_TRAIN, _STORIES_TO_TEST, seed),
        "numbers": lambda seed: make_numbers(seed=seed),
        "chapters": lambda seed: open_chapters(),
        "indexing": lambda seed: Indexing(),
    }
)
"""Data that is made or found on every machine, by name; the seed is that of what is made."""

SystemBuilder = Callable[[Any, SystemOptions], System]

SYSTEMS: Mapping[type[Data], Mapping[str, SystemBuilder]] = MappingProxyType(
    {
        Text: {
            "transformer": LanguageSystem,
            "causal": LanguageSystem,
            "conv": LanguageSystem,
            "bert": BertSystem,
        },
        Stories: {"memn2n": MemN2NSystem, "memory-network": MemoryNetworkSystem},
        Pairs: {"transformer": TranslationSystem, "conv": TranslationSystem},
        LabeledSentences: {"self-attentive": SelfAttentiveSystem},
        Indexing: {"indexing": IndexingSystem},
    }
)
"""Systems by the kind of data and by name; the first of a kind is its default."""

# Their punctuation would be learned as if it were language.
_NO_PROSE = (".csv", ".json", ".jsonl")

_KINDS = {
    Text: "a text",
    Stories: "stories",
    Pairs: "pairs",
    LabeledSentences: "labeled sentences",
    Indexing: "questions about letters",
}


def open_sequence(name_or_path: str, options: SystemOptions) -> System:
    """Open data and build the system that is asked for.

    An existing file or folder is always preferred.

    Args:
        name_or_path: a ``.txt`` file, a ``.tsv`` file of pairs or of labels and sentences, a folder
            of bAbI tasks, or one of ``BUILT_IN``.
        options: the system's; a model of None is the first that suits the data.

    Raises:
        SequenceError: If there is no such data, it cannot be used, or the model does not suit it.
    """
    data = open_data(name_or_path, options)
    systems = SYSTEMS[type(data)]
    model = options.model or next(iter(systems))
    if model not in systems:
        known = {name for by_name in SYSTEMS.values() for name in by_name}
        reason = "does not fit" if model in known else "is none of the models for"
        raise SequenceError(
            f"--model {model} {reason} {_KINDS[type(data)]} ({name_or_path}); it takes "
            f"{', '.join(systems)}"
        )
    system = systems[model](data, replace(options, model=model))
    _require_used(options, system)
    return system


def _require_used(options: SystemOptions, system: System) -> None:
    """Refuse an option that would change nothing."""
    default = SystemOptions()
    for field in fields(SystemOptions):
        is_own = field.name in {*system.uses, "model", "width", "seed"}
        if not is_own and getattr(options, field.name) != getattr(default, field.name):
            used = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(system.uses))
            raise SequenceError(
                f"--{field.name.replace('_', '-')} has no effect on the model {system.model} on "
                f"{system.name}; it takes --width, {used}"
            )


def open_data(name_or_path: str, options: SystemOptions) -> Data:
    """Read a file or a folder, or make built-in data.

    Raises:
        SequenceError: If there is none, or it cannot be used.
    """
    path = Path(name_or_path)
    try:
        exists, is_folder = path.exists(), path.is_dir()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SequenceError(f"no sequence at {path}: {reason}") from None
    if is_folder:
        return open_babi_folder(path)
    if exists:
        if path.suffix.lower() == ".tsv":
            labeled = {"self-attentive": True, "transformer": False, "conv": False}
            return open_tsv(path, labeled=labeled.get(options.model or ""))
        if path.suffix.lower() in _NO_PROSE:
            raise SequenceError(
                f"{path} is not a text file: write its sentences to a .txt file, or two columns "
                "with a tab between them to a .tsv file"
            )
        return open_text_file(path)
    if name_or_path in BUILT_IN:
        return BUILT_IN[name_or_path](options.seed)
    raise SequenceError(
        f"no sequence at {path}; give a .txt or .tsv file, a folder of bAbI tasks, or built-in "
        f"data: {', '.join(BUILT_IN)}"
    )
