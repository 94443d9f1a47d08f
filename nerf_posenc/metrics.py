"""Measures of how close a reconstruction is to its original."""

import math

from jaxtyping import Float
from torch import Tensor


def psnr(prediction: Float[Tensor, "*shape"], target: Float[Tensor, "*shape"]) -> float:
    r"""Peak signal-to-noise ratio, $-10 \log_{10} \mathrm{MSE}$, in dB.

    Both are clamped to [0, 1] first; the mean runs over all values, in float64.

    Args:
        prediction: values with peak 1.
        target: values with peak 1, of the same shape.

    Returns:
        PSNR in dB; infinite where the two agree exactly.

    Raises:
        ValueError: where the shapes differ.

    Example:
        >>> import torch
        >>> round(psnr(torch.zeros(4), torch.full((4,), 0.1)), 2)
        20.0
    """
    _require_one_shape(prediction, target)
    # On the CPU, since not every accelerator has float64.
    difference = prediction.detach().cpu().clamp(0, 1).double()
    difference = difference - target.detach().cpu().clamp(0, 1).double()
    return psnr_from_mse(float(difference.square().mean()))


def psnr_from_mse(mse: float) -> float:
    """Convert a mean squared error, peak value 1, to dB."""
    return -10 * math.log10(mse) if mse > 0 else math.inf


def ssim(
    prediction: Float[Tensor, "height width channels"],
    target: Float[Tensor, "height width channels"],
) -> float:
    """Structural similarity (Wang et al. 2004, equation 13), mean over pixels and channels.

    Made by scikit-image (the extra ``app``) with the paper's settings: an 11 x 11 Gaussian
    window of standard deviation 1.5, K1 = 0.01, K2 = 0.03, population covariances, data
    range 1. Other settings differ by up to 0.03, so name them beside any figure.

    Args:
        prediction: picture with peak 1; clamped to [0, 1] first.
        target: the original, of the same shape.

    Returns:
        A number in [-1, 1]; NaN where a side is shorter than the window's 11 pixels.

    Raises:
        ValueError: where the shapes differ.

    Example:
        >>> import torch
        >>> picture = torch.rand(16, 16, 3)
        >>> ssim(picture, picture)
        1.0
    """
    _require_one_shape(prediction, target)
    if min(target.shape[:2]) < 11:
        return math.nan
    # Here, because a user of the encoders alone has no scikit-image.
    from skimage.metrics import structural_similarity

    score = structural_similarity(
        target.detach().cpu().double().clamp(0, 1).numpy(),
        prediction.detach().cpu().double().clamp(0, 1).numpy(),
        channel_axis=-1,
        data_range=1.0,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
    )
    return float(score)


def _require_one_shape(prediction: Tensor, target: Tensor) -> None:
    if prediction.shape != target.shape:
        raise ValueError(
            f"prediction and target must have one shape; got {tuple(prediction.shape)} and "
            f"{tuple(target.shape)}"
        )
