"""Images of linear light, whose values go beyond 1: Radiance, OpenEXR and floating-point TIFF."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nerf_posenc.plugins import how_to_install
from scenes.errors import SceneError

SUFFIXES = (".exr", ".hdr")
"""Endings of the files that `write_hdr` writes."""

_RADIANCE = (b"#?RADIANCE", b"#?RGBE")
_OPENEXR = b"v/1\x01"
_RADIANCE_SIZE = re.compile(rb"\n\n-Y (\d{1,9}) \+X (\d{1,9})\n")


def hdr_size(path: Path, head: bytes) -> tuple[int, int] | None:
    """Width and height of a Radiance or OpenEXR file by its header; None for other files.

    Raises:
        SceneError: If its pixels are not stored from the top left, or OpenEXR is not installed.
    """
    if head.startswith(_RADIANCE):
        found = _RADIANCE_SIZE.search(head)
        if found is None:
            raise SceneError(f"{path} is a Radiance HDR whose rows do not begin at the top left")
        return int(found[2]), int(found[1])
    if head.startswith(_OPENEXR):
        with _open_exr(path, header_only=True) as file:
            (left, top), (right, bottom) = (map(int, p) for p in file.header()["dataWindow"])
            return right - left + 1, bottom - top + 1
    return None


def read_hdr(path: Path, head: bytes) -> npt.NDArray[np.float32]:
    """Linear RGB of a file that `hdr_size` knows; what is transparent lies over black.

    Raises:
        SceneError: If it has no colors and no luminance.
    """
    if head.startswith(_RADIANCE):
        import imagecodecs

        decoded: npt.NDArray[np.float32] = imagecodecs.rgbe_decode(path.read_bytes())
        return decoded
    with _open_exr(path) as file:
        channels = {name: channel.pixels for name, channel in file.channels().items()}
    for name in ("RGB", "RGBA", "Y"):
        if name in channels:
            # Colors of OpenEXR are multiplied by their opacity.
            return np.asarray(channels[name], np.float32)[..., :3]
    raise SceneError(f"{path} has the channels {', '.join(channels)}; an image needs R, G, B or Y")


def write_hdr(path: Path, suffix: str, linear: npt.NDArray[np.float32]) -> None:
    """Write linear RGB.

    Args:
        path: file to write, of any name.
        suffix: one of ``SUFFIXES``.
        linear: ``(height, width, 3)``.

    Raises:
        SceneError: If OpenEXR is not installed.
    """
    if suffix == ".hdr":
        import imagecodecs

        path.write_bytes(imagecodecs.rgbe_encode(linear, header=True))
        return
    module = _import_openexr(path)
    header = {"compression": module.ZIP_COMPRESSION, "type": module.scanlineimage}
    module.File(header, {"RGB": np.ascontiguousarray(linear)}).write(str(path))


def _open_exr(path: Path, *, header_only: bool = False) -> Any:
    return _import_openexr(path).File(str(path), header_only=header_only)


def _import_openexr(path: Path) -> Any:
    try:
        import OpenEXR
    except ImportError:
        raise SceneError(
            f"{path} is OpenEXR, which needs its own package: {how_to_install('images')}"
        ) from None
    return OpenEXR
