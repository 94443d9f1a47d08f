"""Scans in closed form: filtered back-projection, and the algebraic reconstruction technique."""

import numpy as np
import skimage  # It imports its parts, and SciPy, when they are used.
import torch
from jaxtyping import Float
from torch import Tensor

# Passes over all projections; SART is sharpest after a few and then fits the noise.
_PASSES = 10


def back_projection(
    sinogram: Float[Tensor, "angles detectors"], degrees: Float[Tensor, " angles"]
) -> Float[Tensor, "detectors detectors"]:
    """Filtered back-projection with the ramp filter (Kak and Slaney 1988, chapter 3).

    Args:
        sinogram: sum of the values along each line, with a pixel's length as the unit.
        degrees: angle of each projection.
    """
    reconstruction = skimage.transform.iradon(
        sinogram.T.double().numpy(), degrees.double().numpy(), circle=True
    )
    return torch.from_numpy(np.ascontiguousarray(reconstruction)).float()


def algebraic_reconstruction(
    sinogram: Float[Tensor, "angles detectors"], degrees: Float[Tensor, " angles"]
) -> Float[Tensor, "detectors detectors"]:
    """SART (Andersen and Kak 1984): each projection corrects the image, pass after pass.

    Args:
        sinogram: sum of the values along each line, with a pixel's length as the unit.
        degrees: angle of each projection.
    """
    columns, angles = sinogram.T.double().contiguous().numpy(), degrees.double().numpy()
    reconstruction = None
    for _ in range(_PASSES):
        reconstruction = skimage.transform.iradon_sart(
            columns, angles, image=reconstruction, clip=(0.0, 1.0)
        )
    return torch.from_numpy(np.ascontiguousarray(reconstruction)).float()
