"""Checksums of data, to tell whether a run is resumed with what it was begun with."""

import hashlib
from collections.abc import Iterable

from torch import Tensor

from nerf_posenc.training.checkpoints import bytes_of


def digest_of(tensors: Iterable[Tensor]) -> str:
    """BLAKE2 checksum of the shapes and values of tensors on the CPU."""
    checksum = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        checksum.update(repr(tuple(tensor.shape)).encode())
        checksum.update(bytes_of(tensor.contiguous()))
    return checksum.hexdigest()
