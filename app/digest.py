"""Checksums of data, to tell whether a run is resumed with what it was begun with."""

import hashlib
from collections.abc import Iterable

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
    checksum = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        checksum.update(repr(tuple(tensor.shape)).encode())
        for strip in strips(tensor) if tensor.ndim > 1 else [tensor]:
            values = unit_range(strip) if strip.dtype in _PIXELS else strip
            checksum.update(bytes_of(values.contiguous()))
    return checksum.hexdigest()


def digest_of_image(image: Image) -> str:
    """Checksum of all pixels of an image."""
    evaluated = image.evaluated
    corner = evaluated.coordinates_at(slice(1), slice(1))
    return digest_of([image.pixels, evaluated.pixels, corner])


def digest_of_scene(scene: Scene) -> str:
    """Checksum of all pixels and poses of a scene."""
    views = (scene.train, scene.test)
    return digest_of([t for v in views for t in (v.rgb, v.opacity, v.world_from_camera)])
