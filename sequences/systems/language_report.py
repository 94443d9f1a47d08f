"""What the report shows of a language model."""

import math
from collections.abc import Sequence
from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor

from nerf_posenc.training.system import Curve, Token

# Not predicted, as in PyTorch's cross-entropy.
IGNORED = -100
_MOST_POINTS = 32


def loss_by_position(title: str, losses: Float[Tensor, "windows length"]) -> Curve:
    """Mean loss along the windows, averaged over stretches of positions.

    Args:
        title: of the chart.
        losses: in bits; NaN where nothing was predicted.
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
        inputs: what the model was given.
        targets: what it had to predict; ``IGNORED`` where it was given.
        predicted: what it predicted.
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
