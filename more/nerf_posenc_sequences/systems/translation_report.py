"""Blocks of the report of translations: scores, examples, and attention to the source."""

import importlib.util
from collections.abc import Sequence
from difflib import SequenceMatcher

import torch
from jaxtyping import Float
from torch import Tensor

from nerf_posenc_app.values.blocks import Curve, Passage, Token
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_sequences.data.types import Pair, Words
from nerf_posenc_sequences.heat_maps import HeatMap

EXACT = Measure(
    "exact_percent",
    "exact",
    "%",
    1,
    meaning="Test sources whose translation is right in every symbol.",
)
BLEU = Measure(
    "bleu",
    "BLEU",
    "",
    1,
    meaning="Corpus BLEU of the translations of test sources (Papineni et al. 2002), over symbols, "
    "computed by sacreBLEU; undefined where all targets have fewer than 4 symbols.",
)
EXACT_LONGER = Measure(
    "exact_longer_percent",
    "exact, longer",
    "%",
    1,
    meaning="The same as the first column for sources that are longer than any in training.",
)
BITS = Measure(
    "bits_per_symbol",
    "bits per symbol",
    "",
    3,
    higher_is_better=False,
    meaning="Mean of -log2 of the probability that the model gives to the true symbol of a test "
    "target, given all before it.",
)
_LONGEST_NGRAM = 4
MEASURES = (EXACT, BLEU, EXACT_LONGER, BITS)


def exact_percent(translations: Sequence[Words], pairs: Sequence[Pair]) -> float:
    """Share of translations that are right in every symbol; NaN if there are none."""
    right = [words == target for words, (_, target) in zip(translations, pairs, strict=True)]
    return 100 * sum(right) / len(right) if right else float("nan")


def has_sacrebleu() -> bool:
    """Whether `bleu` can be computed."""
    return importlib.util.find_spec("sacrebleu") is not None


def bleu(translations: Sequence[Words], pairs: Sequence[Pair]) -> float:
    """Corpus BLEU over symbols as they are.

    NaN without sacreBLEU, or if no target has the 4 symbols of an n-gram.
    """
    if not has_sacrebleu() or all(len(target) < _LONGEST_NGRAM for _, target in pairs):
        return float("nan")
    import sacrebleu

    hypotheses = [" ".join(words) for words in translations]
    references = [" ".join(target) for _, target in pairs]
    score = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", force=True)
    return float(score.score)


def exact_by_length(
    translations: Sequence[Words], pairs: Sequence[Pair], *, are_longer: bool = False
) -> Curve:
    """Share of exact translations by the length of the source.

    Args:
        translations: translations by a model.
        pairs: sources and true targets, one or more.
        are_longer: whether they are longer than those of training. They have a chart of their own:
            a long target can have a source that is no longer than others.
    """
    by_length: dict[int, list[bool]] = {}
    for words, (source, target) in zip(translations, pairs, strict=True):
        by_length.setdefault(len(source), []).append(words == target)
    lengths = sorted(by_length)
    return Curve(
        "Exact by source length" + (", longer pairs" if are_longer else ""),
        "source (symbols)",
        "exact (%)",
        lengths,
        [100 * sum(by_length[length]) / len(by_length[length]) for length in lengths],
    )


def translations_passage(
    translations: Sequence[Words], pairs: Sequence[Pair], joiner: str
) -> Passage:
    """Sources and their translations, with what is right and what is wrong.

    Args:
        translations: translations by a model.
        pairs: sources and true targets.
        joiner: text between the symbols of a target.
    """
    tokens: list[Token] = []
    for words, (source, target) in zip(translations, pairs, strict=True):
        tokens.append(Token(" ".join(source) + " → "))
        for marked in _marked(words, target, joiner):
            tokens += [marked, Token(joiner)]
        tokens[-1:] = [Token("\n")]
    return Passage("Test sources, translated", tokens)


def _marked(words: Words, target: Words, joiner: str) -> list[Token]:
    """Symbols of a translation, aligned with the target; a gap where symbols are missing."""
    tokens: list[Token] = []
    aligned = SequenceMatcher(a=words, b=target, autojunk=False).get_opcodes()
    for kind, start, stop, true_start, true_stop in aligned:
        truth = joiner.join(target[true_start:true_stop])
        if kind == "equal":
            tokens += [Token(word, "right") for word in words[start:stop]]
        elif kind == "insert":
            tokens.append(Token("_", "wrong", truth))
        else:
            tokens += [Token(word, "wrong", truth or "nothing") for word in words[start:stop]]
    return tokens


def source_attention(weights: Sequence[Float[Tensor, "... target source"]], pair: Pair) -> HeatMap:
    """Mean attention to the source over layers and heads.

    Args:
        weights: weights of each layer, for the pair alone.
        pair: source and target.
    """
    source, target = pair
    mean = torch.stack([each.reshape(-1, *each.shape[-2:]).mean(0) for each in weights]).mean(0)
    return HeatMap.of(
        "Attention to the source, predicting a test target",
        mean[: len(target) + 1, : len(source) + 1],
        [*target, "<end>"],
        [*source, "<end>"],
    )
