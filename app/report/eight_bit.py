"""Conversion of values in [0, 1] to 8 bits."""

import numpy as np
import numpy.typing as npt
from jaxtyping import Shaped
from torch import Tensor

from nerf_posenc.images import to_eight_bits


def eight_bit(rgb: Shaped[Tensor, "*shape"]) -> npt.NDArray[np.uint8]:
    """Round values in [0, 1], or 16 bits, to 8 bits."""
    return np.asarray(to_eight_bits(rgb).cpu().numpy())
