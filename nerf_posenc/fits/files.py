"""Model descriptions in the files of fits, and models rebuilt from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nerf_posenc.core.checks import require_counts
from nerf_posenc.fits.coordinate_fits import CoordinateFit, ImageFit
from nerf_posenc.fits.plausible import require_plausible
from nerf_posenc.training.checkpoints import CheckpointError, load_checkpoint
from nerf_posenc.training.coordinate_model import CoordinateModel, make_coordinate_model
from nerf_posenc.training.recipes import OwnEncoding

if TYPE_CHECKING:
    from nerf_posenc.fits.scene_fits import SceneFit

_MAX_DIMS = 16
# Samples along one axis of an image, a clip or a volume.
_MAX_SIDE = 1 << 20
# Samples of a sound: over an hour at 48 kHz.
_MAX_DURATION = 1 << 28
_MAX_VALUES = 1 << 30


def describe_fit(
    kind: str, model: CoordinateModel, size: Sequence[int], **facts: Any
) -> dict[str, Any]:
    """Plain values from which `load_fit` rebuilds a model on coordinates.

    Args:
        kind: kind of the data, such as ``"image"``.
        model: description of the model.
        size: samples of the data along each axis; for an image width and height in pixels.
        facts: further plain values that the data needs to be given back.
    """
    return {"kind": kind, "options": asdict(model), "size": list(size), "facts": facts}


def load_fit(
    path: str | Path,
    *,
    device: torch.device | str = "cpu",
    encodings: Iterable[type[nn.Module] | OwnEncoding] = (),
) -> CoordinateFit | SceneFit:
    """Load a fit that ``train_fit.py`` saved, complete or in progress.

    A fit that averages its weights gets the average.

    Args:
        path: ``RUN/fits/NAME.safetensors``.
        device: device that the model is put on.
        encodings: encodings or networks of your own, which the fit may have been made with.

    Raises:
        CheckpointError: If the file is damaged, of another program or version, or no fit.
        FileNotFoundError: If there is none.
        ImportError: If safetensors is not installed.
    """
    path = Path(path)
    saved = load_checkpoint(path)
    try:
        model, fit = saved["model"], saved["fit"]
        if not isinstance(model["kind"], str) or "options" not in model:
            raise ValueError(f"fits of a {model['kind']} are not rebuilt from their file")
        weights = fit["model"] if saved["ema"] is None else _averaged(saved["ema"])
        options = dict(model["options"])
        own = (e if isinstance(e, OwnEncoding) else OwnEncoding(e.__name__, e) for e in encodings)
        options["encoding"] = next(
            (e for e in own if e == options["encoding"]), options["encoding"]
        )
        require_counts(resolution=options["resolution"])
        if model["kind"] == "scene":
            # Imported here: an image needs no radiance fields.
            from nerf_posenc.fits.scene_fits import scene_fit

            return scene_fit(options, model, fit, weights, torch.device(device))
        return _coordinate_fit(options, model, fit, weights, torch.device(device))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        if "state_dict" in reason:
            # torch names every weight.
            reason = "its weights are not those of the network that it describes"
        raise CheckpointError(f"{path} contains no fit that can be loaded ({reason})") from None


def _averaged(ema: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of the module within torch's ``AveragedModel``."""
    return {n.removeprefix("module."): v for n, v in ema.items() if n.startswith("module.")}


def _coordinate_fit(
    saved: Mapping[str, Any],
    model: Mapping[str, Any],
    fit: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    device: torch.device,
) -> CoordinateFit:
    options = CoordinateModel(**saved)
    require_plausible(*options.layers, options.num_bands, weights)
    for name, number in (("in_dim", options.in_dim), ("out_dim", options.out_dim)):
        if number not in range(1, _MAX_DIMS + 1):
            raise ValueError(f"{name} is {number!r}, not 1 to {_MAX_DIMS}")
    # Constants that a class of your own drew are drawn again as in the fit.
    generator = torch.Generator().manual_seed(options.seed) if "seed" in saved else None
    encoder, network = make_coordinate_model(options, generator=generator)
    nn.Sequential(encoder, network).eval().load_state_dict(weights)
    size = tuple(int(side) for side in model["size"])
    require_counts(**{f"side {i}": side for i, side in enumerate(size)})
    kind = ImageFit if model["kind"] == "image" else CoordinateFit
    if kind is ImageFit and (len(size), options.in_dim, options.out_dim) != (2, 2, 3):
        raise ValueError(f"no image has sides {size}, {options.in_dim} axes and {options.out_dim}")
    longest = _MAX_DURATION if options.in_dim == 1 else _MAX_SIDE
    if max(size) > longest or math.prod(size) > _MAX_VALUES:
        raise ValueError(f"no {model['kind']} has {' x '.join(map(str, size))} samples")
    steps = int(fit["step"]), int(fit["num_steps"])
    facts = dict(model["facts"])
    made = kind(encoder.to(device), network.to(device), options, size, *steps, facts)
    if isinstance(made, ImageFit):
        made.tone  # noqa: B018 - it raises where the curve is none.
    return made
