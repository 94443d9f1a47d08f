"""A field as the report shows it: baked, on an orbit."""

import torch
from torch import Tensor

from nerf_posenc.radiance.baking import bake
from nerf_posenc.radiance.base_renderer import Renderer
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.poses import find_orbit
from nerf_posenc_app.values.blocks import Volume


def make_volume(renderer: Renderer, camera: Camera, poses: Tensor, gray: float) -> Volume:
    """A field as a block of the report, seen by a camera on an orbit."""
    orbit = find_orbit(poses.cpu())
    density, rgb = bake(renderer, camera, poses)
    tangents = [camera.width / camera.fx / 2, camera.height / camera.fy / 2]
    # An apex and four corners of each camera, an eighth as deep as what it sees is far.
    poses = poses.cpu()
    size = float((poses[:, :3, 3] - orbit.center).norm(dim=-1).mean()) / 8
    signs = torch.tensor([[0, 0, 0], [-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]])
    corners = size * signs * torch.tensor([*tangents, -1.0])
    cameras = corners @ poses[:, :3, :3].mT + poses[:, None, :3, 3]
    vectors = {
        name: value.tolist() for name, value in orbit._asdict().items() if name != "is_around"
    }
    return Volume(
        "Orbit",
        density,
        rgb,
        renderer.space.as_json(),
        {
            **vectors,
            "is_around": orbit.is_around,
            "tangents": tangents,
            "cameras": cameras.tolist(),
        },
        gray,
    )
