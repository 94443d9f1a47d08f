"""Decoding: the target sequence that a model finds most probable, or nearly."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nerf_posenc_sequences.layers.seq2seq import BEGIN, END, PADDING, Memory, Seq2Seq

LENGTH_POWER = 0.6


def greedy(
    model: Seq2Seq, source: Int[Tensor, "batch source"], limit: int
) -> Int[Tensor, "batch _target"]:
    """Take the most probable symbol again and again.

    Args:
        model: model in evaluation mode.
        source: sequences, padded.
        limit: most symbols of a target, ``END`` included.

    Returns:
        Targets up to their ``END`` and padded, no longer than the longest.
    """
    memory = model.encode(source)
    target = torch.full((len(source), 1), BEGIN, device=source.device)
    is_over = torch.zeros(len(source), dtype=torch.bool, device=source.device)
    for _ in range(limit):
        symbols = model.decode(target, memory)[:, -1].argmax(-1)
        target = torch.cat([target, symbols.masked_fill(is_over, PADDING)[:, None]], 1)
        is_over = is_over | (symbols == END)
        if is_over.all():
            break
    return target[:, 1:]


def beam_search(
    model: Seq2Seq, source: Int[Tensor, "batch source"], limit: int, width: int
) -> Int[Tensor, "batch _target"]:
    """Follow the most probable prefixes, and take the best finished one by `normalized`.

    Of all continuations of the prefixes, the ``width`` most probable are kept. Those that end with
    ``END`` leave the beam, so that it narrows until it is empty. A prefix that is still in the beam
    at the limit counts only if nothing was finished.

    Args:
        model: model in evaluation mode.
        source: sequences, padded.
        limit: most symbols of a target, ``END`` included.
        width: number of prefixes; with 1 it is greedy decoding.

    Returns:
        Targets up to their ``END`` and padded, no longer than the limit.
    """
    batch, device = len(source), source.device
    memory: Memory = tuple(part.repeat_interleave(width, 0) for part in model.encode(source))
    prefixes = torch.full((batch, width, 1), BEGIN, device=device)
    # The prefixes are equal at first, and only one of them counts.
    scores = torch.full((batch, width), -torch.inf, device=device)
    scores[:, 0] = 0
    finished = torch.full((batch, limit), PADDING, device=device)
    best = torch.full((batch,), -torch.inf, device=device)
    rows = torch.arange(batch, device=device)
    for length in range(1, limit + 1):
        logits = model.decode(prefixes.flatten(0, 1), memory)[:, -1].float()
        continued = scores[..., None] + logits.log_softmax(-1).unflatten(0, (batch, width))
        scores, chosen = continued.flatten(1).topk(width)
        parents = chosen // logits.shape[-1]
        symbols = chosen % logits.shape[-1]
        prefixes = torch.cat([prefixes[rows[:, None], parents], symbols[..., None]], -1)
        is_over = (symbols == END) if length < limit else (symbols == END) | best.isinf()[:, None]
        ended = normalized(scores, length).masked_fill(~is_over, -torch.inf)
        top, winner = ended.max(-1)
        is_better = top > best
        padded = torch.nn.functional.pad(prefixes[rows, winner, 1:], (0, limit - length))
        finished = torch.where(is_better[:, None], padded, finished)
        best = torch.maximum(best, top)
        scores = scores.masked_fill(symbols == END, -torch.inf)
        if scores.isinf().all():
            break
    return finished


def normalized(log_probability: Float[Tensor, "*batch"], length: int) -> Float[Tensor, "*batch"]:
    """Log-probability by which sequences of different lengths are compared.

    It is divided by ((5 + length) / 6) to the power of 0.6 (Wu et al. 2016, equation 14; the power
    is that of Vaswani et al. 2017, section 6.1), since a longer sequence has more factors below 1.

    Args:
        log_probability: log probability of sequences.
        length: their number of symbols, ``END`` included.
    """
    penalty: float = ((5 + length) / 6) ** LENGTH_POWER
    return log_probability / penalty
