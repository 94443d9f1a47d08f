"""Conversion of values in [0, 1] to 8 bits."""

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from torch import Tensor


def eight_bit(rgb: Float[Tensor, "*shape"]) -> npt.NDArray[np.uint8]:
    """Round values in [0, 1] to 8 bits."""
    rounded = (rgb.clamp(0, 1) * 255).round().byte()
    return np.asarray(rounded.cpu().numpy())
