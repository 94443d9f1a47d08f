"""Loss of predicted symbols."""

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

IGNORED = -100
"""Target that is not predicted, as in PyTorch's cross-entropy."""


def symbol_loss(
    logits: Float[Tensor, "batch length symbols"], targets: Int[Tensor, "batch length"]
) -> Tensor:
    """Mean cross-entropy of all targets but those that are ``IGNORED``, in nats."""
    flat = logits.float().flatten(0, 1)
    return F.cross_entropy(flat, targets.flatten(), ignore_index=IGNORED)
