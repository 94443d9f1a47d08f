"""Masks of posed images: which pixels are fitted and scored.

A file names them (``mask_path`` of nerfstudio), or they lie where other programs look for them. Of
``images/NAME.jpg`` COLMAP and nerfstudio take ``masks/NAME.jpg.png`` or ``masks/NAME.png``, and
Metashape writes ``NAME_mask.png``, whose black is left out; instant-ngp takes
``images/dynamic_mask_NAME.png``, whose white is. ``mask/`` and other suffixes are found as well.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc.radiance.views import reduced_masks
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.image_files import images_in, read_mask
from nerf_posenc_app.data.posed.folders import name_key
from nerf_posenc_app.data.reading.worker import Allowance

if TYPE_CHECKING:
    from jaxtyping import Bool

_FOLDERS = ("masks", "mask")
_DYNAMIC = "dynamic_mask_"


@dataclass(frozen=True)
class Mask:
    """The mask of an image.

    Attributes:
        path: path of the file.
        leaves_white: whether white is left out, and not black.
    """

    path: Path
    leaves_white: bool = False


class MaskFinder:
    """Finds the masks that lie beside the images of one folder.

    Names are compared without their case, and a mask may have any suffix of an image.

    Args:
        folder: folder of the scene, by whatever path.

    Attributes:
        folders: folders of masks that it has.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.abspath(folder))
        self._listings: dict[Path, dict[str, Path]] = {}
        names = sorted(path.name for path in self.folder.iterdir()) if folder.is_dir() else []
        paths = [self.folder / name for name in names if name_key(name) in _FOLDERS]
        self.folders = [path for path in paths if path.is_dir()]

    def beside(self, image: Path) -> Mask | None:
        """Mask of an image by its place; None if there is none."""
        image = Path(os.path.abspath(image))
        if dynamic := self._listing(image.parent).get(name_key(f"{_DYNAMIC}{image.stem}")):
            return Mask(dynamic, leaves_white=True)
        if not image.is_relative_to(self.folder):
            return None
        inner = image.relative_to(self.folder)
        # For images/a/b.jpg: masks/a/b and masks/images/a/b.
        places = [Path(*inner.parts[1:]), inner] if len(inner.parts) > 1 else [inner]
        for folder, place in itertools.product(self.folders, places):
            listing = self._listing(folder / place.parent)
            # NAME.jpg.png as in COLMAP, or NAME or NAME_mask with any suffix.
            for stem in (image.name, image.stem, f"{image.stem}_mask"):
                if (found := listing.get(name_key(stem))) is not None and found != image:
                    return Mask(found)
        return None

    def _listing(self, folder: Path) -> dict[str, Path]:
        """Images of a folder by their names without suffix and case."""
        if folder not in self._listings:
            files = images_in(folder) if folder.is_dir() else []
            self._listings[folder] = {name_key(file.stem): file for file in reversed(files)}
        return self._listings[folder]


def read_masks(
    views: Sequence[tuple[Path, Mask | None]],
    sizes: Sequence[tuple[int, int]],
    reduced: Sequence[tuple[int, int]],
    common: tuple[int, int],
) -> Bool[Tensor, "views height width"] | None:
    """Pixels of views that are fitted and scored; None if none has a mask or is padded.

    A pixel of a reduced image is kept if all of it is.

    Args:
        views: image and mask of each view.
        sizes: width and height of each image.
        reduced: width and height that each is reduced to.
        common: width and height that they are then padded to on the right and below.

    Raises:
        SceneError: If some views have no mask, or one cannot be read, is of another size, has
            colors, or leaves nothing.
    """
    without = [image.name for image, mask in views if mask is None]
    if len(without) == len(views) and set(reduced) == {common}:
        return None
    if 0 < len(without) < len(views):
        raise SceneError(
            f"{len(without)} of {len(views)} views have no mask, such as {without[0]}; add them "
            "(white where a view is to be fitted), or remove the others"
        )
    allowance = Allowance(mask.path for _, mask in views if mask is not None)
    masks = torch.zeros(len(views), common[1], common[0], dtype=torch.bool)
    for kept, (_, mask), size, (width, height) in zip(masks, views, sizes, reduced, strict=True):
        if mask is None:
            kept[:height, :width] = True
            continue
        white = _read(mask, size, allowance)
        kept[:height, :width] = reduced_masks(white[None], max(width, height))[0]
        if not bool(kept.any()):
            raise SceneError(f"the mask {mask.path} leaves no pixel of its image")
    return masks


def _read(mask: Mask, size: tuple[int, int], allowance: Allowance) -> Tensor:
    """Pixels of an image of this size that its mask keeps."""
    name = f"the mask {mask.path}"
    white = read_mask(mask.path, name, is_upright=False, allowance=allowance)
    height, width = white.shape
    if (width, height) != size:
        raise SceneError(
            f"the mask {mask.path} has {width} x {height} pixels, and its image {size[0]} x "
            f"{size[1]}; bring it to the same size"
        )
    return ~white if mask.leaves_white else white
