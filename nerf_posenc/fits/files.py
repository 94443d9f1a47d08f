"""What a fit's file says of its model, and how the model is rebuilt from it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc.core.encoder import require_counts
from nerf_posenc.fits.models import CoordinateFit, ImageFit, SceneFit
from nerf_posenc.radiance.build import FieldOptions, renderer_for
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.proposals import ProposalRenderer
from nerf_posenc.radiance.views import Scene
from nerf_posenc.training.checkpoints import CheckpointError, load_checkpoint
from nerf_posenc.training.coordinate_model import CoordinateModel, make_coordinate_model

# A model of so many parameters, layers or samples is built whatever a file says of it.
_HARMLESS = 1 << 20
_MAX_LAYERS = 1 << 10
_MAX_SAMPLES = 1 << 12
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


def describe_scene_fit(
    options: FieldOptions,
    scene: Scene,
    background: float,
    *,
    given_poses: Float[Tensor, "views 4 4"] | None = None,
) -> dict[str, Any]:
    """Plain values and tensors from which `load_fit` rebuilds a radiance field.

    Args:
        options: options of the field.
        scene: scene with the training views.
        background: gray value.
        given_poses: poses of the training views in the scene's file, if a fit that refines poses
            began at others; None for those of the views.
    """
    return {
        "kind": "scene",
        "options": asdict(options),
        "camera": asdict(scene.train.cameras[0]),
        "world_from_camera": scene.train.world_from_camera,
        "given_poses": scene.train.world_from_camera if given_poses is None else given_poses,
        "background": background,
        "center": list(scene.center),
        "scale": scene.scale,
    }


def load_fit(path: str | Path, *, device: torch.device | str = "cpu") -> CoordinateFit | SceneFit:
    """Load a fit that ``train_fit.py`` saved, complete or in progress.

    A fit that averages its weights gets the average.

    Args:
        path: ``RUN/fits/NAME.safetensors``.
        device: device that the model is put on.

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
            raise ValueError(f"it is of a {model['kind']}, which is not rebuilt from its file")
        weights = fit["model"] if saved["ema"] is None else _averaged(saved["ema"])
        options = dict(model["options"])
        require_counts(resolution=options["resolution"])
        load = _scene_fit if model["kind"] == "scene" else _coordinate_fit
        return load(options, model, fit, weights, torch.device(device))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path} contains no fit that can be loaded ({reason})") from None


def _averaged(ema: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of the module within torch's ``AveragedModel``."""
    return {n.removeprefix("module."): v for n, v in ema.items() if n.startswith("module.")}


def _require_plausible(
    width: int, depth: int, num_bands: int, weights: Mapping[str, Tensor]
) -> None:
    """Refuse a model that cannot have these weights, before memory is spent on it.

    Raises:
        ValueError: Saying which number is implausible.
    """
    most = max(_HARMLESS, sum(tensor.numel() for tensor in weights.values()))
    limits = {"width": (width, most), "depth": (depth, _MAX_LAYERS), "num_bands": (num_bands, most)}
    for name, (number, limit) in limits.items():
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= limit:
            raise ValueError(f"{name} is {number!r}, which {most} weights cannot have")
    if width * width * (depth - 1) > most:
        raise ValueError(f"{depth} layers of {width} units do not have {most} weights")


def _coordinate_fit(
    saved: Mapping[str, Any],
    model: Mapping[str, Any],
    fit: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    device: torch.device,
) -> CoordinateFit:
    options = CoordinateModel(**saved)
    _require_plausible(*options.layers, options.num_bands, weights)
    for name, number in (("in_dim", options.in_dim), ("out_dim", options.out_dim)):
        if number not in range(1, _MAX_DIMS + 1):
            raise ValueError(f"{name} is {number!r}, not 1 to {_MAX_DIMS}")
    encoder, network = make_coordinate_model(options)
    nn.Sequential(encoder, network).load_state_dict(weights)
    size = tuple(int(side) for side in model["size"])
    require_counts(**{f"side {i}": side for i, side in enumerate(size)})
    longest = _MAX_DURATION if options.in_dim == 1 else _MAX_SIDE
    if max(size) > longest or math.prod(size) > _MAX_VALUES:
        raise ValueError(f"no {model['kind']} has {' x '.join(map(str, size))} samples")
    kind = ImageFit if model["kind"] == "image" else CoordinateFit
    steps = int(fit["step"]), int(fit["num_steps"])
    facts = dict(model["facts"])
    return kind(encoder.to(device), network.to(device), options, size, *steps, facts)


def _scene_fit(
    saved: Mapping[str, Any],
    model: Mapping[str, Any],
    fit: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    device: torch.device,
) -> SceneFit:
    options = FieldOptions(**saved)
    _require_plausible(*options.layers, options.num_bands, weights)
    if options.num_samples is not None and not 1 <= options.num_samples <= _MAX_SAMPLES:
        raise ValueError(f"num_samples is {options.num_samples!r}, not 1 to {_MAX_SAMPLES}")
    poses, given = model["world_from_camera"], None
    given_poses = model["given_poses"]
    for each in (poses, given_poses):
        is_finite = isinstance(each, Tensor) and bool(each.isfinite().all())
        if not is_finite or each.shape[1:] != (4, 4) or len(each) != len(poses):
            raise ValueError("the poses must be finite and of shape (views, 4, 4)")
    if options.num_poses not in (0, len(poses)):
        raise ValueError(f"num_poses is {options.num_poses!r}, not the {len(poses)} of the views")
    renderer = renderer_for(options)
    renderer.load_state_dict(weights)
    if isinstance(renderer, ProposalRenderer) and renderer.poses is not None:
        given, poses = given_poses, renderer.poses.corrections @ poses
    values = dict(model["camera"])
    values["distortion"] = tuple(values["distortion"])
    x, y, z = (float(v) for v in model["center"])
    background = float(model["background"])
    if not 0 <= background <= 1:
        raise ValueError(f"background must be in [0, 1]; got {background}")
    scale = float(model["scale"])
    if not (1e-12 <= scale <= 1e12 and all(abs(v) <= 1e12 for v in (x, y, z))):
        raise ValueError(f"no scene has a scale of {scale} and its center at {(x, y, z)}")
    return SceneFit(
        renderer.to(device),
        options,
        Camera(**values),
        poses,
        background,
        (x, y, z),
        scale,
        int(fit["step"]),
        int(fit["num_steps"]),
        given,
    )
