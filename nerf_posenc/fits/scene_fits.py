"""Fitted radiance fields: described for a file, given back, and rendered from any camera."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nerf_posenc.fits.plausible import require_plausible
from nerf_posenc.radiance.base_renderer import Renderer
from nerf_posenc.radiance.build import FieldOptions, make_renderer
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.evaluation import render_camera
from nerf_posenc.radiance.fields import RadianceField
from nerf_posenc.radiance.poses import align_poses
from nerf_posenc.radiance.views import Scene
from nerf_posenc.radiance.volume_rendering import Rendering

if TYPE_CHECKING:
    from jaxtyping import Float

# Samples along a ray that a file may ask for.
_MAX_SAMPLES = 1 << 12


@dataclass(frozen=True)
class SceneFit:
    """A fitted radiance field with its renderer.

    Attributes:
        renderer: module from rays to a rendering, in coordinates in which the scene lies in [-1,
            1]^3.
        options: options of the field.
        camera: a camera of the training views.
        world_from_camera: poses of the training views, in the coordinates of the renderer.
        background: gray value of the background.
        center: point where the origin lies, in units of the scene's file.
        scale: length of one unit, in units of the scene's file.
        step: steps taken.
        num_steps: length of the whole fit.
        given_poses: poses as the scene's file gives them, where ``world_from_camera`` was refined.
    """

    renderer: Renderer
    options: FieldOptions
    camera: Camera
    world_from_camera: Float[Tensor, "views 4 4"] = dataclass_field(repr=False)
    background: float
    center: tuple[float, float, float]
    scale: float
    step: int
    num_steps: int
    given_poses: Float[Tensor, "views 4 4"] | None = dataclass_field(default=None, repr=False)

    @property
    def field(self) -> RadianceField:
        """The radiance field, the last one if there are a coarse and a fine one."""
        return self.renderer.fields[-1]

    def render(
        self,
        camera: Camera,
        world_from_camera: Float[Tensor, "4 4"],
        *,
        in_file_units: bool = True,
        autocast_dtype: torch.dtype | None = None,
    ) -> Rendering:
        """Render a camera, in chunks; the result is on the CPU, ``(height, width, ...)``.

        Args:
            camera: camera with an image of any size.
            world_from_camera: its pose, OpenGL axes: x right, y up, looking down -z.
            in_file_units: whether the pose is in the units and axes of the scene's file, as in its
                ``transforms.json``, or in those of the renderer.
            autocast_dtype: type of autocast for the networks, such as bfloat16; None for none.
        """
        pose = world_from_camera.clone()
        if in_file_units:
            pose[:3, 3] = (pose[:3, 3] - pose.new_tensor(self.center)) / self.scale
            if self.given_poses is not None:
                pose = align_poses(self.given_poses, self.world_from_camera)(pose[None])[0]
        return render_camera(
            self.renderer, camera, pose, background=self.background, autocast_dtype=autocast_dtype
        )


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
        "camera": asdict(scene.train.central_camera),
        "world_from_camera": scene.train.world_from_camera,
        "given_poses": scene.train.world_from_camera if given_poses is None else given_poses,
        "background": background,
        "center": list(scene.center),
        "scale": scene.scale,
    }


def scene_fit(
    saved: Mapping[str, Any],
    model: Mapping[str, Any],
    fit: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    device: torch.device,
) -> SceneFit:
    """Rebuild a radiance field from what its file holds.

    Raises:
        KeyError: If a value is missing.
        ValueError: If a value is not plausible.
    """
    options = FieldOptions(**saved)
    require_plausible(*options.layers, options.num_bands, weights)
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
    renderer = make_renderer(options)
    renderer.eval().load_state_dict(weights)
    if renderer.poses is not None:
        given, poses = given_poses, renderer.found_poses(poses)
    values = dict(model["camera"])
    values["distortion"] = tuple(values["distortion"])
    x, y, z = (float(v) for v in model["center"])
    background = float(model["background"])
    if not 0 <= background <= 1:
        raise ValueError(f"background must be in [0, 1]; got {background}")
    scale = float(model["scale"])
    if not (1e-12 <= scale <= 1e12 and all(abs(v) <= 1e12 for v in (x, y, z))):
        raise ValueError(f"no scene has a scale of {scale} and its center at {(x, y, z)}")
    camera = Camera(**values)
    # This raises if the distortion cannot be inverted.
    camera.lens_steps()
    return SceneFit(
        renderer.to(device),
        options,
        camera,
        poses,
        background,
        (x, y, z),
        scale,
        int(fit["step"]),
        int(fit["num_steps"]),
        given,
    )
