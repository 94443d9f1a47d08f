"""What the fits of an image are compared with: baselines that are evaluated alike."""

import bisect
import io
import math
import time
from collections.abc import Callable, Mapping

import numpy as np
import PIL.Image
import torch
from torch import Tensor

from app.blocks import Evaluation, FitName
from app.kinds.coordinates import PSNR, SSIM
from app.kinds.image.interpolation import interpolate_held_out, linear, radial
from app.kinds.image.reconstruction import view_of
from app.kinds.kind import Result
from app.terminal import printable
from nerf_posenc.images import Image, to_eight_bits
from nerf_posenc.metrics.image import psnr, ssim

BYTES_PER_PARAMETER = 2
"""Of a parameter in float16."""


def reference_result(image: Image, name: str, num_parameters: int) -> Result | None:
    """Compute a reference and evaluate it; None if there is no JPEG of so few bytes.

    Args:
        image: the image that the fits are made of.
        name: one of ``REFERENCES``.
        num_parameters: parameters whose bytes in float16 a JPEG may take.
    """
    started, scores = time.perf_counter(), {}
    if name == "jpeg":
        found = jpegs(image)(BYTES_PER_PARAMETER * num_parameters)
        if found is None:
            return None
        num_bytes, values = found
        scores["bpp_float16"] = 8 * num_bytes / math.prod(image.whole_size)
    elif name in _SCATTERED:
        values = _SCATTERED[name](image)
    else:
        values = interpolate_held_out(image, name)
    seconds = time.perf_counter() - started
    truth = image.evaluated.pixels
    if image.evaluated.is_large:
        values = to_eight_bits(values)
    scores[PSNR.name] = psnr(values, truth, image.evaluated.weights)
    scores[SSIM.name] = ssim(values, truth, image.valid)
    view = view_of(image, values, printable(image.name))
    return Result(
        name=FitName(name),
        seconds=seconds,
        evaluation=Evaluation(scores, [view]),
        is_reference=True,
    )


def given(image: Image) -> Tensor:
    """The values that are fitted, and their mean color where there are none."""
    values = image.rgb.clamp(0, 1)
    if image.weights is None:
        return values
    return torch.where(image.weights[..., None] > 0, values, image.mean_color())


def _non_local_means(image: Image) -> Tensor:
    """Denoise by patches that look alike (Buades et al. 2005), the deviation being known."""
    from skimage.restoration import denoise_nl_means

    noisy, sigma = given(image).numpy(), float((image.rgb - image.evaluated.rgb).std())
    cleaned = denoise_nl_means(
        noisy, h=0.8 * sigma, sigma=sigma, patch_size=5, patch_distance=6, channel_axis=-1
    )
    return torch.from_numpy(cleaned).float()


_SCATTERED: Mapping[str, Callable[[Image], Tensor]] = {
    "given": given,
    "linear": linear,
    "rbf": radial,
    "nl-means": _non_local_means,
}
"""References of an image with pixels that are observed or noisy, from all of its fitted pixels."""


def jpegs(image: Image) -> Callable[[int], tuple[int, Tensor] | None]:
    """Encode an image as JPEG, without subsampled colors, at the best quality within some bytes.

    Returns:
        A function from the largest number of bytes to the bytes of the file and its values in
        [0, 1]; None if the file of the lowest quality has more bytes.
    """
    photograph = PIL.Image.fromarray(to_eight_bits(image.pixels).numpy())
    files: dict[int, bytes] = {}

    def num_bytes(quality: int) -> int:
        if quality not in files:
            file = io.BytesIO()
            photograph.save(file, "JPEG", quality=quality, subsampling=0, optimize=True)
            files[quality] = file.getvalue()
        return len(files[quality])

    def best(most: int) -> tuple[int, Tensor] | None:
        quality = bisect.bisect_right(range(1, 101), most, key=num_bytes)
        if quality == 0:
            return None
        decoded = np.array(PIL.Image.open(io.BytesIO(files[quality])))
        return num_bytes(quality), torch.from_numpy(decoded).float() / 255

    return best
