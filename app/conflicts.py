"""Combinations of command-line options that are refused."""

import importlib.util
from collections.abc import Sequence

import app.options
from app.parsing import UsageError
from nerf_posenc.training.recipes import ENCODINGS


def check_conflicts(options: "app.options.Options") -> None:
    """Refuse options that exclude each other.

    Raises:
        UsageError: Naming them.
    """
    if options.live and importlib.util.find_spec("viser") is None:
        raise UsageError("--live needs viser: pip install 'nerf_posenc[live]'")
    given = {
        "image": options.image,
        "images": options.images,
        "scene": options.scene,
        "sequence": options.sequences.sequence,
    }
    for name, value in given.items():
        if value in ("", (), ("",)):
            raise UsageError(f"--{name} needs a path or a name")
    if sum(value is not None for value in given.values()) > 1:
        raise UsageError("give one of --image, --images, --scene and --sequence")
    if options.is_sequence:
        _check_sequence_conflicts(options)
    refusals = _scene_refusals(options) | {
        "--encodings auto stands alone; leave out the other names": options.is_auto
        and options.encodings != ("auto",),
        "--parameters chooses the width; give one of the two": (
            options.parameters is not None and options.width is not None
        ),
        "--finest is for the hash grid of an image: name hash or hash-internal in --encodings": (
            options.finest is not None
            and (options.is_scene or not {"hash", "hash-internal"} & set(options.fitted))
        ),
        "--parameters chooses the sizes of a grid; give it or --finest": (
            options.parameters is not None and options.finest is not None
        ),
        "--steps and --seconds both say how long a fit is; give one of them": (
            options.steps is not None and options.seconds is not None
        ),
        "--stack on is for several images: --images": options.stack == "on" and not options.images,
        "--live shows one image at a time; leave out --stack on": options.stack == "on"
        and options.live,
    }
    refusals |= _auto_refusals(options) | _series_refusals(options)
    for message, is_refused in refusals.items():
        if is_refused:
            raise UsageError(message)


def _auto_refusals(options: "app.options.Options") -> dict[str, bool]:
    """Options that an automatic choice of the encoding does not take."""
    if not options.is_auto:
        return {}
    return {
        "--encodings auto is for one --image, and chooses --bands, --sigma and --finest for the "
        f"default network; leave out --{name}": _differs(options, [name])
        for name in _OF_AUTO
    }


def _series_refusals(options: "app.options.Options") -> dict[str, bool]:
    """Options of networks, which a series alone does not take."""
    if options.is_sequence or not all(ENCODINGS[e].is_series for e in options.fitted):
        return {}
    return {
        f"--{name.replace('_', '-')} is for networks, and {options.fitted[0]} has none: it is "
        "computed in closed form": _differs(options, [name])
        for name in _OF_NETWORKS
    }


def _scene_refusals(options: "app.options.Options") -> dict[str, bool]:
    """What a scene has no use for, and what only a scene has."""
    return {
        "--parameters is for images; a --scene takes --width and --depth": (
            options.parameters is not None and options.is_scene
        ),
        "--held-out is for images; a scene has test views": options.held_out and options.is_scene,
        "--compile is for images: the samples of a scene change their number each step": (
            options.compile and options.is_scene
        ),
        "--exposure is for a --scene with --field factored or auto": options.exposure
        and not (options.is_scene and options.scene_field == "factored"),
        f"--network {options.network} is for images; a --scene has a --field": options.is_scene
        and options.network != "relu",
        "--sigma auto is for images; give a --scene a number": options.sigma == "auto"
        and options.is_scene,
    }


# Options of an image that are for networks.
_OF_NETWORKS = (
    *("bands", "network", "width", "depth", "sigma", "optimizer", "lr", "steps", "seconds"),
    *("batch_size", "compile", "precision", "stack"),
)
# Options of images and scenes that a sequence has no use for.
_OF_FIELDS = (
    *(
        "stack",
        "bands",
        "parameters",
        "sigma",
        "finest",
        "held_out",
        "size",
        "network",
        "field",
        "optimizer",
    ),
    *(
        "seconds",
        "background",
        "test_views",
        "turntable",
        "video",
        "figures",
        "compile",
        "max_pixels",
    ),
)
# Options that leave --encodings auto nothing to choose, or have no forecasts.
_OF_AUTO = (
    *("images", "scene", "bands", "sigma", "finest", "network", "parameters", "width", "depth"),
)


def _differs(options: "app.options.Options", names: Sequence[str]) -> bool:
    default = type(options)()
    return any(getattr(options, name) != getattr(default, name) for name in names)


def _check_sequence_conflicts(options: "app.options.Options") -> None:
    for name in _OF_FIELDS:
        if _differs(options, [name]):
            raise UsageError(f"--{name.replace('_', '-')} is for images or scenes, not --sequence")
