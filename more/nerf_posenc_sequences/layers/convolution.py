"""The gated convolution of ConvS2S (Gehring et al. 2017, section 3.2)."""

import math

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

SHRINK = math.sqrt(0.5)
"""Factor of the sum of a layer's input and output, which keeps its variance."""


class GatedConvolution(nn.Module):
    """Convolution with a gated linear unit and a residual connection times sqrt(0.5).

    Args:
        width: width of the embeddings.
        kernel_size: number of neighbors that are seen; odd if not causal.
        is_causal: whether a position sees itself and earlier ones alone.
    """

    def __init__(self, width: int, kernel_size: int, *, is_causal: bool) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(width, 2 * width, kernel_size)
        before = kernel_size - 1 if is_causal else kernel_size // 2
        self.padding = (before, kernel_size - 1 - before)

    def gated(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        """Convolve and gate, without the residual connection."""
        padded = F.pad(x.mT, self.padding)
        return F.glu(self.convolution(padded), dim=-2).mT

    def forward(
        self, x: Float[Tensor, "batch length width"]
    ) -> Float[Tensor, "batch length width"]:
        """Run the layer."""
        return (x + self.gated(x)) * SHRINK
