"""The configuration of a scene's run: what depends on its views."""

from dataclasses import replace

import torch

from app.config import FieldRunConfig, resolve
from app.options import Options
from nerf_posenc.radiance.scene_spaces import space_for
from nerf_posenc.radiance.views import Scene


def resolve_scene(options: Options, scene: Scene, device: torch.device) -> FieldRunConfig:
    """Resolve the options of a scene into a complete run configuration.

    Images without opacity are fitted over random backgrounds, so that empty space cannot pass for a
    white wall; the factored field gets the coordinates that suit the views.

    Args:
        options: as parsed.
        scene: with the views to fit.
        device: where to compute.

    Raises:
        UsageError: If the optimizer does not fit the network.
    """
    config = resolve(options, max(scene.train.size), device)
    background = options.background
    if background == "auto":
        background = "random" if scene.train.is_opaque else "white"
    training = replace(config.training, background=background)
    model = config.model
    if model.field == "factored":
        exposures = len(scene.train) if options.exposure else 0
        model = replace(model, space=space_for(scene.train), exposures=exposures)
    return replace(config, training=training, model=model)
