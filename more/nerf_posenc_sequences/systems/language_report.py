"""Blocks of the report of a language model."""

import math
from collections.abc import Sequence
from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor

from nerf_posenc_app.values.blocks import Curve, Token
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_sequences.layers.symbol_loss import IGNORED

_MOST_POINTS = 32

BITS = Measure(
    "bits_per_character",
    "bits per character",
    "",
    3,
    higher_is_better=False,
    meaning="Mean of -log2 of the probability that the model gives to the true character of test "
    "text: at 1 bit the model is as unsure as between 2 characters.",
)
PERPLEXITY = Measure(
    "perplexity",
    "perplexity",
    "",
    2,
    higher_is_better=False,
    meaning="2 to the bits per character.",
)
ACCURACY = Measure(
    "accuracy_percent",
    "accuracy",
    "%",
    1,
    meaning="Characters whose most probable prediction is right.",
)


def bits_at(length: int) -> Measure:
    """Column of the loss at four times the length of training."""
    return Measure(
        "bits_at_4x",
        f"bits at length {length}",
        "",
        3,
        higher_is_better=False,
        meaning=f"Bits per character in windows of {length} characters, four times the length of "
        "training.",
    )


def loss_by_position(title: str, losses: Float[Tensor, "windows length"]) -> Curve:
    """Mean loss along the windows, averaged over stretches of positions.

    Args:
        title: title of the chart.
        losses: losses in bits; NaN where nothing was predicted.
    """
    length = losses.shape[1]
    step = max(1, length // _MOST_POINTS)
    means = [(i, float(losses[:, i : i + step].nanmean())) for i in range(0, length, step)]
    known = [(x, y) for x, y in means if not math.isnan(y)]
    return Curve(
        title, "position", "bits per character", [x for x, _ in known], [y for _, y in known]
    )


def marked_tokens(
    inputs: Int[Tensor, "windows length"],
    targets: Int[Tensor, "windows length"],
    predicted: Int[Tensor, "windows length"],
    alphabet: Sequence[str],
) -> list[Token]:
    """Characters that were given, and those that were predicted with whether they are right.

    Args:
        inputs: input symbols of the model.
        targets: symbols to predict; ``IGNORED`` where the symbol was given.
        predicted: symbols that the model predicted.
        alphabet: characters by number; others are shown as a question mark.
    """

    def character(symbol: int) -> str:
        return alphabet[symbol] if symbol < len(alphabet) else "?"

    tokens = []
    parts = (part.flatten().tolist() for part in (inputs, targets, predicted))
    for given, truth, found in zip(*parts, strict=True):
        if truth == IGNORED:
            tokens.append(Token(character(given)))
        else:
            mark: Literal["right", "wrong"] = "right" if truth == found else "wrong"
            tokens.append(Token(character(found), mark, character(truth)))
    return tokens
