"""Small valid files and folders of every kind that is read, and PNGs of any compressed data."""

import functools
import io
import json
import shutil
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from tests.optional import needs

OPTIONAL_IMAGES = {
    "deep.png": ("imagecodecs",),
    **dict.fromkeys(("fax.tif", "a.tif", "deep.tif", "float.tif", "tiles.tif"), ("tifffile",)),
    **dict.fromkeys(("planes.tif", "big.tif"), ("tifffile",)),
    **dict.fromkeys(("lzw.tif", "jpeg.tif", "zip.tif"), ("tifffile", "imagecodecs")),
}
"""Names of `image_corpus` that take packages of the extra ``images`` to be read."""


def image_of(name: str) -> bytes:
    """A file of `image_corpus`; the test is skipped where what reads it is not installed."""
    needs(*OPTIONAL_IMAGES.get(name, ()))
    return image_corpus()[name]


@functools.cache
def image_corpus() -> dict[str, bytes]:
    """Small valid files of every format and kind that is promised."""
    rng = np.random.default_rng(0)
    rgb = rng.integers(0, 256, (12, 17, 3), dtype=np.uint8)
    rgba = rng.integers(0, 256, (12, 17, 4), dtype=np.uint8)
    deep = rng.integers(0, 65536, (12, 17), dtype=np.uint16)
    color, exif = Image.fromarray(rgb), Image.Exif()
    exif[274] = 6
    files: dict[str, bytes] = {}

    def save(name: str, image: Image.Image, kind: str, **options: Any) -> None:
        buffer = io.BytesIO()
        image.save(buffer, kind, **options)
        files[name] = buffer.getvalue()

    save("a.png", color, "PNG", exif=exif)
    save("alpha.png", Image.fromarray(rgba), "PNG")
    save("gray.png", color.convert("L"), "PNG")
    save("palette.png", color.quantize(16), "PNG", transparency=0)
    save("bilevel.png", color.convert("1"), "PNG")
    save("deep-gray.png", Image.fromarray(deep), "PNG")
    save("a.jpg", color, "JPEG", exif=exif)
    save("progressive.jpg", color, "JPEG", progressive=True)
    save("cmyk.jpg", color.convert("CMYK"), "JPEG")
    save("a.webp", color, "WEBP")
    save("lossless.webp", Image.fromarray(rgba), "WEBP", lossless=True)
    save("frames.webp", color, "WEBP", save_all=True, append_images=[color.rotate(90)])
    save("a.bmp", color, "BMP")
    save("a.gif", color.quantize(8), "GIF")
    save("a.ppm", color, "PPM")
    save("lzw.tif", color, "TIFF", compression="tiff_lzw")
    save("jpeg.tif", color, "TIFF", compression="jpeg")
    save("fax.tif", color.convert("1"), "TIFF", compression="group4")
    save("zip.tif", color, "TIFF", compression="tiff_adobe_deflate")
    rgb16 = rng.integers(0, 65536, (12, 17, 3), dtype=np.uint16)
    files["deep.png"] = _deep_png(rgb16)
    files["deep.npy"] = _npy(rgb16)
    files["a.tif"] = tiff_of(rgb)
    files["deep.tif"] = tiff_of(deep)
    files["float.tif"] = tiff_of(deep / np.float32(65535))
    files["planes.tif"] = tiff_of(rgb, is_planar=True)
    files["tiles.tif"] = tiff_of(np.tile(rgb, (3, 3, 1)), tile=16)
    files["big.tif"] = tiff_of(rgb, is_big=True)
    return files


def _npy(values: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def _deep_png(rgb: npt.NDArray[np.uint16]) -> bytes:
    """A PNG of 16 bits, which Pillow does not write."""
    height, width, _ = rgb.shape
    data = b"".join(b"\0" + row.astype(">u2").tobytes() for row in rgb)
    return png_of(width, height, 16, 2, zlib.compress(data))


def tiff_of(
    pixels: npt.NDArray[Any], *, is_planar: bool = False, tile: int = 0, is_big: bool = False
) -> bytes:
    """An uncompressed TIFF of gray, RGB or RGBA (TIFF 6.0; BigTIFF for `is_big`).

    Args:
        pixels: ``(height, width)`` or ``(height, width, 3 or 4)``, unsigned integers or floats.
        is_planar: whether each channel is stored on its own.
        tile: side of square tiles; 0 for one strip.
        is_big: whether offsets have 64 bits.
    """
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    height, width, channels = pixels.shape
    parts = [pixels[..., c] for c in range(channels)] if is_planar else [pixels]
    if tile:
        rows, columns = -(-height // tile), -(-width // tile)
        padding = [(0, rows * tile - height), (0, columns * tile - width), (0, 0)]
        whole = np.pad(pixels, padding)
        parts = [
            whole[y * tile : (y + 1) * tile, x * tile : (x + 1) * tile]
            for y in range(rows)
            for x in range(columns)
        ]
    blocks = [
        np.ascontiguousarray(part, pixels.dtype.newbyteorder("<")).tobytes() for part in parts
    ]
    word, head = ("Q", 16) if is_big else ("I", 8)
    offsets = [head + sum(map(len, blocks[:i])) for i in range(len(blocks))]
    sizes, bits = [len(block) for block in blocks], 8 * pixels.dtype.itemsize
    places, counts, depth = (324, 325, tile) if tile else (273, 279, height)
    tags = {256: [width], 257: [height], 258: [bits] * channels, 259: [1]}
    tags |= {262: [2 if channels > 2 else 1], 277: [channels], places: offsets, counts: sizes}
    tags |= {322: [depth], 323: [depth]} if tile else {278: [depth]}
    tags |= {284: [2 if is_planar else 1], 339: [3 if pixels.dtype.kind == "f" else 1] * channels}
    tags |= {338: [2]} if channels == 4 else {}
    # Values that do not fit into their entry follow the blocks; then comes the directory.
    data, entries = b"".join(blocks), []
    data += b"\0" * (-len(data) % 8)
    for tag, values in sorted(tags.items()):
        is_offset = tag in (places, counts)
        kind, letter = ({"Q": 16, "I": 4}[word], word) if is_offset else (3, "H")
        packed = struct.pack(f"<{len(values)}{letter}", *values)
        size = struct.calcsize(f"<{word}")
        if len(packed) > size:
            place, data = head + len(data), data + packed + b"\0" * (-len(packed) % 8)
            packed = struct.pack(f"<{word}", place)
        entries.append(
            struct.pack(f"<HH{word}", tag, kind, len(values)) + packed.ljust(size, b"\0")
        )
    start = struct.pack("<2sHHHQ", b"II", 43, 8, 0, head + len(data))
    start = start if is_big else struct.pack("<2sHI", b"II", 42, head + len(data))
    count = struct.pack("<Q" if is_big else "<H", len(entries))
    return start + data + count + b"".join(entries) + struct.pack(f"<{word}", 0)


def _write_views(folder: Path, count: int = 9) -> list[str]:
    rng = np.random.default_rng(1)
    folder.mkdir(parents=True)
    names = [f"{i:03}.png" for i in range(count)]
    for name in names:
        Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).save(folder / name)
    return names


def _pose(i: int) -> np.ndarray:
    angle = 0.6 * i
    cos, sin = np.cos(angle), np.sin(angle)
    rotation = np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]])
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation, rotation @ np.array([0.0, 0.1, 3.0])
    return pose


@functools.cache
def scene_corpus() -> dict[str, Path]:
    """Small valid folders of every kind, by their name."""
    home = Path(tempfile.mkdtemp(prefix="scenes-"))
    frames = [
        {"file_path": f"images/{name}", "transform_matrix": _pose(i).tolist()}
        for i, name in enumerate(_write_views(home / "transforms/images"))
    ]
    camera = {"fl_x": 9.0, "fl_y": 9.0, "cx": 4.0, "cy": 3.0, "w": 8, "h": 6, "k1": 0.01}
    split = {"train_filenames": [f["file_path"] for f in frames[2:]]}
    split["test_filenames"] = [f["file_path"] for f in frames[:2]]
    meta = {**camera, "aabb_scale": 2, **split, "frames": frames}
    (home / "transforms/transforms.json").write_text(json.dumps(meta))
    shutil.copytree(home / "transforms", home / "synthetic")
    (home / "synthetic/transforms.json").unlink()
    for name in ("train", "test"):
        part = {"camera_angle_x": 0.8, "frames": frames[:4]}
        (home / f"synthetic/transforms_{name}.json").write_text(json.dumps(part))
    rows = []
    for i in range(len(_write_views(home / "llff/images"))):
        pose = _pose(i)
        table = np.stack([-pose[:3, 1], pose[:3, 0], pose[:3, 2], pose[:3, 3], [6, 8, 9]], axis=1)
        rows.append([*table.flatten(), 1.0, 6.0])
    np.save(home / "llff/poses_bounds.npy", np.array(rows))
    names = _write_views(home / "colmap/images")
    model = home / "colmap/sparse/0"
    model.mkdir(parents=True)
    _write_colmap(model, names)
    return {kind: home / kind for kind in ("transforms", "synthetic", "llff", "colmap")}


def _write_colmap(model: Path, names: list[str]) -> None:
    """A COLMAP model in binary form (COLMAP, "Output format")."""
    cameras = struct.pack("<QIiQQ4d", 1, 1, 1, 8, 6, 9.0, 9.0, 4.0, 3.0)
    images = struct.pack("<Q", len(names))
    for i, name in enumerate(names):
        half = 0.3 * i
        images += struct.pack("<I7dI", i + 1, np.cos(half), 0, np.sin(half), 0, 0, 0, 3, 1)
        images += name.encode() + b"\0" + struct.pack("<Q2dq", 1, 1.0, 2.0, i % 20 + 1)
    rng = np.random.default_rng(2)
    points = struct.pack("<Q", 20)
    for i in range(20):
        xyz = rng.uniform(-1, 1, 3)
        points += struct.pack("<Q3d3BdQ", i + 1, *xyz, 9, 9, 9, 0.5, 0)
    for name, data in (("cameras", cameras), ("images", images), ("points3D", points)):
        (model / f"{name}.bin").write_bytes(data)


def png_of(width: int, height: int, bits: int, kind: int, data: bytes) -> bytes:
    """A PNG of given compressed data (PNG specification, sections 5 and 11)."""
    head = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)
    parts = (b"IHDR" + head, b"IDAT" + data, b"IEND")
    chunks = (struct.pack(">I", len(p) - 4) + p + struct.pack(">I", zlib.crc32(p)) for p in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def deflated(block: bytes, count: int) -> bytes:
    """The same bytes, many times, compressed."""
    deflate = zlib.compressobj(9)
    parts = [deflate.compress(block) for _ in range(count)]
    return b"".join(parts) + deflate.flush()


def rows(width: int, height: int, bits: int, channels: int, filter_type: int) -> bytes:
    """Compressed rows of zeros with a filter."""
    return deflated(bytes([filter_type]) + bytes(width * bits * channels // 8), height)
