"""Rendering of whole views, and their PSNR and SSIM."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from nerf_posenc.metrics.image import psnr, ssim
from nerf_posenc.radiance.base_renderer import Renderer, render
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.ray_batches import RayBatches, object_pixels
from nerf_posenc.radiance.rays import camera_rays
from nerf_posenc.radiance.refinement import PoseRefinement
from nerf_posenc.radiance.views import Background, Views
from nerf_posenc.radiance.volume_rendering import Rendering
from nerf_posenc.training.devices import autocast
from nerf_posenc.training.loop import mse
from nerf_posenc.training.schedules import cosine_decay


def default_chunk_size(renderer: Renderer) -> int:
    """Rays to render at once on the device of a renderer."""
    on_cpu = next(renderer.parameters()).device.type == "cpu"
    return renderer.chunk_size * (1 if on_cpu else 16)


def render_camera(
    renderer: Renderer,
    camera: Camera,
    world_from_camera: Tensor,
    *,
    background: float = 1.0,
    autocast_dtype: torch.dtype | None = None,
) -> Rendering:
    """Render all pixels of a camera; the result is on the CPU, ``(height, width, ...)``.

    Args:
        renderer: renderer of the fitted field.
        camera: the camera.
        world_from_camera: its pose, ``(4, 4)``.
        background: gray value of the background.
        autocast_dtype: type of autocast for the networks, such as bfloat16; None for none.
    """
    rays = camera_rays(camera, world_from_camera, background=background)
    device = next(renderer.parameters()).device
    with autocast(device, autocast_dtype):
        rendering = render(renderer, rays.to(device), chunk_size=default_chunk_size(renderer))
    shape = camera.height, camera.width
    return Rendering(
        rendering.rgb.float().view(*shape, 3).cpu(),
        rendering.opacity.view(shape).cpu(),
        rendering.depth.view(shape).cpu(),
    )


@dataclass(frozen=True)
class ViewScore:
    """A test view as the field renders it.

    Attributes:
        name: name of the view.
        psnr: PSNR in dB.
        ssim: structural similarity.
        rendering: rendering of all pixels, ``(height, width, ...)``.
    """

    name: str
    psnr: float
    ssim: float
    rendering: Rendering


def evaluate_views(
    renderer: Renderer,
    views: Views,
    *,
    background: float = 1.0,
    autocast_dtype: torch.dtype | None = None,
    on_view: Callable[[], object] = lambda: None,
) -> list[ViewScore]:
    """Render views and compare them with their images.

    Args:
        renderer: renderer of the fitted field.
        views: views to compare with.
        background: gray value of the background.
        autocast_dtype: type of autocast for the networks, such as bfloat16; None for none.
        on_view: callback after each view.
    """
    scores = []
    for i, name in enumerate(views.names):
        rendering = render_camera(
            renderer,
            views.cameras[i],
            views.world_from_camera[i],
            background=background,
            autocast_dtype=autocast_dtype,
        )
        truth = views.over(i, background)
        mask = None if views.masks is None else views.masks[i]
        decibels = psnr(rendering.rgb, truth, None if mask is None else mask.float())
        scores.append(ViewScore(name, decibels, ssim(rendering.rgb, truth, mask), rendering))
        on_view()
    return scores


def with_refined_poses(
    renderer: nn.Module,
    views: Views,
    *,
    background: Background = "white",
    steps: int = 200,
    batch_size: int = 1024,
) -> Views:
    """Views with the nearby poses at which a fitted field shows them best; the field stays.

    A test view's pose is as uncertain as those that were refined, and an image that is shifted by
    a fraction of a pixel has a low PSNR however sharp it is (Lin et al. 2021, BARF, section 4.2).

    Args:
        renderer: renderer of the fitted field.
        views: views with about the right poses.
        background: background of the views.
        steps: Gauss-Newton steps.
        batch_size: rays of all views in each of them, or all of their pixels if there are fewer.
    """
    device = next(renderer.parameters()).device
    poses = PoseRefinement(len(views)).to(device)
    poses.progress.fill_(1)
    num_pixels = sum(camera.width * camera.height for camera in views.cameras)
    batches = RayBatches(
        views,
        min(batch_size, num_pixels),
        seed=0,
        background=background,
        live=None if views.is_opaque else object_pixels(views),
        device=device,
    )
    trained = [p for p in renderer.parameters() if p.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        for step in range(steps):
            batch, target = batches(step)
            rendering = renderer(poses(batch.rays, batch.views), batch.generator)
            poses.watch(rendering.rgb)
            mse(rendering.rgb, target).backward()
            poses.step(cosine_decay((step + 1) / steps))
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
    corrected = poses.corrections.to(views.world_from_camera) @ views.world_from_camera
    return replace(views, world_from_camera=corrected)
