"""Checksums of data, to tell whether a run is resumed with what it was begun with."""

import hashlib
from collections.abc import Iterable, Sequence
from functools import partial

import torch
from torch import Tensor

from nerf_posenc.images import Image, strips, unit_range
from nerf_posenc.radiance.views import Scene
from nerf_posenc.training.checkpoints import bytes_of

_PIXELS = (torch.uint8, torch.uint16)


def digest_of(tensors: Iterable[Tensor]) -> str:
    """BLAKE2 checksum of the shapes and values of tensors on the CPU.

    Those of 8 or 16 bits count as the values in [0, 1] that they stand for.
    """
    return _checksum((tensor.shape, [tensor]) for tensor in tensors)


def digest_of_image(image: Image) -> str:
    """Checksum of all pixels of an image."""
    evaluated = image.evaluated
    corner = evaluated.coordinates_at(slice(1), slice(1))
    return digest_of([image.pixels, evaluated.pixels, corner])


def digest_of_scene(scene: Scene) -> str:
    """Checksum of all pixels and poses of a scene, of the values that a fit gets from them."""
    parts: list[tuple[Sequence[int], Iterable[Tensor]]] = []
    for views in (scene.train, scene.test):
        shape, every = views.pixels.shape[:3], range(len(views))
        parts += [
            ((*shape, 3), map(partial(views.over, background=0.0), every)),
            (shape, map(views.opacity, every)),
            (views.world_from_camera.shape, [views.world_from_camera]),
        ]
    return _checksum(parts)


def _checksum(parts: Iterable[tuple[Sequence[int], Iterable[Tensor]]]) -> str:
    """Checksum of tensors by their shapes and the parts along their first axis."""
    checksum = hashlib.blake2b(digest_size=16)
    for shape, tensors in parts:
        checksum.update(repr(tuple(shape)).encode())
        for tensor in tensors:
            for strip in strips(tensor) if tensor.ndim > 1 else [tensor]:
                values = unit_range(strip) if strip.dtype in _PIXELS else strip
                checksum.update(bytes_of(values.contiguous()))
    return checksum.hexdigest()
