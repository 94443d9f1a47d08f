"""Base class of models from a source sequence to a target sequence."""

from abc import ABC, abstractmethod

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nerf_posenc_sequences.layers.attention import RecordedAttention

PADDING, BEGIN, END, UNKNOWN = range(4)
"""First symbols of every alphabet."""

Memory = tuple[Tensor, ...]
"""Encoded source of a decoder: tensors whose first dimension is the batch."""


class Seq2Seq(nn.Module, ABC):
    """Encoder and decoder.

    A source ends with ``END``; the decoder's input begins with ``BEGIN``. Both may be followed by
    ``PADDING``, which changes nothing before it.
    """

    @abstractmethod
    def encode(self, source: Int[Tensor, "batch source"]) -> Memory:
        """Encode the source for the decoder."""

    @abstractmethod
    def decode(
        self, target: Int[Tensor, "batch target"], memory: Memory
    ) -> Float[Tensor, "batch target symbols"]:
        """Logits of the symbol after each one of the target."""

    @abstractmethod
    def source_attentions(self) -> list[RecordedAttention]:
        """Attention of the decoder to the source, by layer."""

    def forward(
        self, inputs: tuple[Int[Tensor, "batch source"], Int[Tensor, "batch target"]]
    ) -> Float[Tensor, "batch target symbols"]:
        """Logits of the symbol after each one of the target, given the source."""
        source, target = inputs
        return self.decode(target, self.encode(source))


def is_symbol(symbols: Int[Tensor, "batch length"]) -> Bool[Tensor, "batch length"]:
    """True where a sequence is not padding."""
    return symbols != PADDING
