"""Images of linear light: Radiance and OpenEXR."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.reading.record import Decoded
from nerf_posenc_app.plugins import how_to_install

SUFFIXES = (".exr", ".hdr")
"""Endings of the files that `write_hdr` writes."""

_RADIANCE = (b"#?RADIANCE", b"#?RGBE")
_OPENEXR = b"v/1\x01"
# An empty line ends the header; the size follows it.
_RADIANCE_SIZE = re.compile(rb"\r?\n\r?\n-Y (\d{1,9}) \+X (\d{1,9})\r?\n")
_RADIANCE_SCALE = re.compile(rb"^(EXPOSURE|COLORCORR)\s*=\s*([-+.\deE ]+)", re.MULTILINE)


def hdr_size(path: Path, head: bytes) -> tuple[int, int] | None:
    """Width and height of a Radiance or OpenEXR file by its header; None for other files.

    Raises:
        SceneError: If its pixels are not stored from the top left, or OpenEXR is not installed.
    """
    if head.startswith(_RADIANCE):
        match = _RADIANCE_SIZE.search(head)
        if match is None:
            raise SceneError(f"{path} is a Radiance HDR whose rows do not begin at the top left")
        return int(match[2]), int(match[1])
    if head.startswith(_OPENEXR):
        with _open_exr(path, header_only=True) as file:
            sizes = [_window(part.header, name) for part in file.parts for name in _WINDOWS]
        return max(right for _, _, right, _ in sizes), max(bottom for *_, bottom in sizes)
    return None


def read_hdr(path: Path, head: bytes) -> Decoded:
    """Linear light of a file that `hdr_size` knows.

    Raises:
        SceneError: If it has no colors and no luminance, or they are of another color space.
    """
    return _read_radiance(path, head) if head.startswith(_RADIANCE) else _read_exr(path)


def _read_radiance(path: Path, head: bytes) -> Decoded:
    import imagecodecs

    size = _RADIANCE_SIZE.search(head)
    header = head[: size.start()] if size else head
    if b"xyze" in header:
        raise SceneError(f"{path} is a Radiance HDR of XYZ colors; save it as RGB (ra_xyze -r)")
    data = path.read_bytes()
    if size is not None:
        # The decoder knows lines that end without a carriage return.
        data = header.replace(b"\r\n", b"\n") + size[0].replace(b"\r\n", b"\n") + data[size.end() :]
    light: npt.NDArray[np.float32] = imagecodecs.rgbe_decode(data)
    # Factors that the pixels were multiplied by; each may occur several times.
    for _, numbers in _RADIANCE_SCALE.findall(header):
        scale = np.array(numbers.split(), np.float32)
        if scale.size not in (1, 3) or not (scale > 0).all():
            raise SceneError(f"{path} has an EXPOSURE or COLORCORR that is not a positive number")
        light = light / scale
    return Decoded(light, is_light=True)


Window = tuple[int, int, int, int]
"""Left, top, and the first column and row behind a window."""

_WINDOWS = ("dataWindow", "displayWindow")
_COLORS = ("RGB", "RGBA")


def _window(header: Any, name: str) -> Window:
    (left, top), (right, bottom) = (map(int, corner) for corner in header[name])
    return left, top, right + 1, bottom + 1


def _read_exr(path: Path) -> Decoded:
    with _open_exr(path) as file:
        parts = [
            (
                part.name(),
                [_window(part.header, window) for window in _WINDOWS],
                {name: channel.pixels for name, channel in part.channels.items()},
            )
            for part in file.parts
        ]
    usable = [part for part in parts if not {*_COLORS, "Y"}.isdisjoint(part[2])]
    if not usable:
        names = ", ".join(sorted({name for *_, channels in parts for name in channels}))
        raise SceneError(f"{path} has the channels {names}; an image needs R, G, B or Y")
    name, windows, channels = usable[0]
    used = next(each for each in (*_COLORS, "Y") if each in channels)
    if used == "Y" and (others := {"RY", "BY", "X", "Z"} & channels.keys()):
        raise SceneError(
            f"{path} has luminance beside {', '.join(sorted(others))}, not R, G and B; save it as "
            "RGB"
        )
    values = np.asarray(channels[used], np.float32)
    values = values[..., None] if values.ndim == 2 else values
    alpha = values[..., 3] if used == "RGBA" else channels.get("A")
    colors, opacity = values[..., :3], None
    if alpha is not None:
        # Colors of OpenEXR are multiplied by their opacity.
        opacity = np.asarray(alpha, np.float32)
        covered = opacity[..., None] > 0
        colors = np.divide(colors, opacity[..., None], out=np.zeros_like(colors), where=covered)
    dropped = [f"the part {part}" for part, *_ in parts if part != name]
    dropped += [f"the channel {each}" for each in channels if each not in (used, "A")]
    planes = [_displayed(plane, *windows) for plane in (colors, opacity) if plane is not None]
    return Decoded(
        planes[0], planes[1] if len(planes) > 1 else None, is_light=True, dropped=tuple(dropped)
    )


def _displayed(
    pixels: npt.NDArray[np.float32], data: Window, display: Window
) -> npt.NDArray[np.float32]:
    """Pixels of the display window: those outside of the data window are black and transparent."""
    if data == display:
        return pixels
    width, height = display[2] - display[0], display[3] - display[1]
    displayed = np.zeros((height, width, *pixels.shape[2:]), np.float32)
    left, right = (min(max(x, display[0]), display[2]) for x in (data[0], data[2]))
    top, bottom = (min(max(y, display[1]), display[3]) for y in (data[1], data[3]))
    displayed[top - display[1] : bottom - display[1], left - display[0] : right - display[0]] = (
        pixels[top - data[1] : bottom - data[1], left - data[0] : right - data[0]]
    )
    return displayed


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
