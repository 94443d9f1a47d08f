"""Attention maps for the report."""

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch import nn

from nerf_posenc_sequences.heat_maps import HeatMap
from nerf_posenc_sequences.layers.attention import Attention, RecordedAttention

_FARTHEST = 8


def self_attentions(model: nn.Module) -> list[Attention]:
    """Self-attention of every layer of a model."""
    return [m for m in model.modules() if isinstance(m, Attention) and m.positions]


@contextlib.contextmanager
def recording(attentions: Sequence[RecordedAttention]) -> Iterator[Sequence[RecordedAttention]]:
    """Let attentions keep the weights of their last pass."""
    for attention in attentions:
        attention.is_recording = True
    try:
        yield attentions
    finally:
        for attention in attentions:
            attention.is_recording, attention.recorded = False, None


def attention_by_offset(attentions: Sequence[RecordedAttention], *, is_causal: bool) -> HeatMap:
    """Fold mean attention maps along their diagonals.

    Args:
        attentions: attention layers with weights recorded, one per layer.
        is_causal: whether keys after the query are left out.

    Returns:
        One row per head; columns are offsets from the query to the key.
    """
    farthest = 0 if is_causal else _FARTHEST
    offsets = range(-_FARTHEST, farthest + 1)
    rows, names = [], []
    for layer, attention in enumerate(attentions, 1):
        assert attention.recorded is not None
        for head, weights in enumerate(attention.recorded.mean(0), 1):
            rows.append(torch.stack([weights.diagonal(offset).mean() for offset in offsets]))
            names.append(f"layer {layer}, head {head}")
    labels = [f"{offset:+d}" if offset else "0" for offset in offsets]
    return HeatMap.of("Attention by offset", torch.stack(rows), names, labels)
