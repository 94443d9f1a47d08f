"""References of the fits of an image: baselines that are evaluated alike."""

import importlib.util
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from nerf_posenc.images import Image, to_eight_bits
from nerf_posenc_app.kinds.image.interpolation import interpolate_held_out, linear, radial
from nerf_posenc_app.kinds.image.reconstruction import Reconstruction, scored_pixels, view_of
from nerf_posenc_app.kinds.image.scores import scores_of
from nerf_posenc_app.terminal import printable
from nerf_posenc_app.values.blocks import Evaluation
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result

NEEDED = {"linear": "scipy", "rbf": "scipy"}
"""Packages of the extra ``references``, by the reference that needs one."""


def is_installed(name: str) -> bool:
    """Whether what a reference needs is installed."""
    return name not in NEEDED or importlib.util.find_spec(NEEDED[name]) is not None


def reference_result(image: Image, name: str) -> Result:
    """Compute a reference and evaluate it.

    Args:
        image: the image that the fits are made of.
        name: one of ``REFERENCES``.
    """
    started = time.perf_counter()
    scattered = _SCATTERED.get(name)
    values = interpolate_held_out(image, name) if scattered is None else scattered(image)
    seconds = time.perf_counter() - started
    if image.evaluated.is_large:
        values = to_eight_bits(values)
    found = Reconstruction(values, scored_pixels(image).psnr(values))
    view = view_of(image, values, printable(image.name))
    return Result(
        name=FitName(name),
        seconds=seconds,
        evaluation=Evaluation(scores_of(image, found), [view]),
        is_reference=True,
    )


def given(image: Image) -> Tensor:
    """The values that are fitted, and their mean color where there are none."""
    values = image.rgb.clamp(0, 1)
    if image.weights is None:
        return values
    return torch.where(image.weights[..., None] > 0, values, image.mean_color())


_SCATTERED: Mapping[str, Callable[[Image], Tensor]] = {
    "given": given,
    "linear": linear,
    "rbf": radial,
}
"""References of an image with observed pixels, from all of them."""
