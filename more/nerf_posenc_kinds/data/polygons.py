"""Polygons of mesh files, format by format, and triangles of polygons; run by the worker.

Each reader takes the bytes of one file and looks for no other. Mesh libraries split concave
polygons into fans, which cover their notches, and pass over what they do not know; here every
corner is checked, and what cannot be read is refused by its name.
"""

import codecs
import io
import json
import math
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Lengths and directions of quadrangles are compared to this.
_ROUNDING = 1e-9
# Tolerance of the lengths of unit quaternions, which some programs write in 16 bits.
_ROUNDED = 1e-3
# Required extensions that do not change the triangles.
_HARMLESS = (
    "KHR_mesh_quantization",
    "KHR_texture_",
    "KHR_materials_",
    "EXT_texture_",
    "KHR_lights_",
)
_TYPES = {5120: "i1", 5121: "u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_STRIP, _FAN = 5, 6
# Statements of an OBJ file that define surfaces other than polygons.
_FREE_FORM = ("surf", "bsp", "bzp", "cdc", "res")


class UnreadError(Exception):
    """Error for contents that are not supported; the message follows the file's name."""


class Polygons(NamedTuple):
    """Polygons of any number of corners.

    Attributes:
        vertices: positions.
        corners: numbers of vertices, polygon after polygon.
        sizes: numbers of corners of each polygon.
    """

    vertices: Floats
    corners: Ints
    sizes: Ints


def read_obj(data: bytes) -> Polygons:
    """Faces of an OBJ file; lines, points, groups and materials are passed over."""
    vertices: list[list[str]] = []
    corners: list[int] = []
    sizes: list[int] = []
    # A line ends with a line feed, a carriage return or both, and continues after a backslash.
    text = re.sub(r"\\[ \t]*\n", " ", _text(data))
    for number, line in enumerate(text.split("\n"), 1):
        keyword, *values = line.partition("#")[0].split() or ("",)
        keyword = keyword.lower()
        if keyword == "v":
            if len(values) < 3:
                raise UnreadError(f"has a vertex of {len(values)} coordinates in line {number}")
            vertices.append(values[:3])
        elif keyword in ("f", "fo"):
            for value in values:
                # Vertex, texture and normal; negative numbers count back from this line.
                index = int(value.partition("/")[0])
                if index == 0 or index < -len(vertices):
                    raise UnreadError(
                        f"has a face of vertex {index} in line {number}; OBJ counts from 1, or "
                        "back from -1"
                    )
                corners.append(index - 1 if index > 0 else len(vertices) + index)
            sizes.append(len(values))
        elif keyword in _FREE_FORM:
            raise UnreadError("has free-form surfaces; export it as polygons")
    return _polygons(vertices, corners, sizes)


def read_off(data: bytes) -> Polygons:
    """Faces of an OFF file as text, with or without normals and colors."""
    lines = (line.partition("#")[0].split() for line in _text(data).split("\n"))
    rows = iter([line for line in lines if line])
    first = " ".join(next(rows, [])).upper()
    # Some files have the counts right after the word, without a space.
    keyword, word, rest = first.partition("OFF")
    if not word or not set(keyword) <= set("STCN4") or "BINARY" in rest:
        raise UnreadError("is not an OFF file in text form")
    num_vertices, num_faces = (int(count) for count in (rest.split() or next(rows, []))[:2])
    # The counter comes first, so that zip consumes no row in vain.
    vertices = [row[:3] for _, row in zip(range(num_vertices), rows, strict=False)]
    faces = [row for _, row in zip(range(num_faces), rows, strict=False)]
    if len(vertices) < num_vertices or len(faces) < num_faces:
        raise UnreadError(
            f"is truncated: it has {len(vertices)} of {num_vertices} vertices and {len(faces)} of "
            f"{num_faces} faces"
        )
    sizes = [int(row[0]) for row in faces]
    corners = [
        int(value) for row, size in zip(faces, sizes, strict=True) for value in row[1 : size + 1]
    ]
    return _polygons(vertices, corners, sizes)


def read_ply(data: bytes) -> Polygons:
    """Faces of a PLY file, text or binary."""
    import plyfile

    if data[:3] == b"\xef\xbb\xbf":
        data = data[3:]
    elements = plyfile.PlyData.read(io.BytesIO(data))
    if "tristrips" in elements:
        raise UnreadError("has triangle strips; export it as triangles")
    vertex = elements["vertex"]
    vertices = np.stack([np.asarray(vertex[axis], np.float64) for axis in "xyz"], axis=-1)
    if "face" not in elements:
        raise UnreadError("has no faces; a mesh needs faces, not points alone")
    face = elements["face"].data
    name = next(name for name in ("vertex_indices", "vertex_index") if name in face.dtype.names)
    rows = list(face[name])
    sizes = np.array([len(row) for row in rows], dtype=np.int64)
    corners = np.concatenate(rows) if rows else np.empty(0)
    return Polygons(vertices, corners.astype(np.int64), sizes)


def read_stl(data: bytes) -> Polygons:
    """Triangles of an STL file, text or binary."""
    count = int.from_bytes(data[80:84], "little")
    # A binary file may begin with any words; its count determines its length.
    is_text = data.removeprefix(codecs.BOM_UTF8).lstrip()[:5].lower() == b"solid"
    if is_text and len(data) != 84 + 50 * count and b"facet" in data[:2048].lower():
        rows = re.findall(rb"^\s*vertex\s+(\S+)\s+(\S+)\s+(\S+)", data, re.I | re.M)
        if b"endsolid" not in data[-1024:].lower():
            raise UnreadError("is truncated: it does not end with endsolid")
        vertices = np.array(rows, dtype=np.float64).reshape(-1, 3)
    else:
        if not 84 + 50 * count <= len(data) or not count:
            raise UnreadError(
                f"is not an STL file, or is truncated: it has {len(data):,} bytes for {count:,} "
                "facets"
            )
        # A normal, three corners and two bytes of attributes each.
        kind = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])
        facets = np.frombuffer(data, kind, count, offset=84)
        vertices = facets["corners"].reshape(-1, 3).astype(np.float64)
    return Polygons(vertices, np.arange(len(vertices)), np.full(len(vertices) // 3, 3))


def read_glb(data: bytes) -> Polygons:
    """Triangles of a GLB file (glTF 2.0), in the coordinates of its scene."""
    magic, version, length = struct.unpack_from("<4sII", data)
    if magic != b"glTF" or version != 2:
        raise UnreadError("is not a GLB file of version 2")
    if length > len(data):
        raise UnreadError(f"is truncated: it has {len(data):,} of {length:,} bytes")
    (size,) = struct.unpack_from("<I", data, 12)
    file = json.loads(data[20 : 20 + size])
    required = [
        name for name in file.get("extensionsRequired", []) if not name.startswith(_HARMLESS)
    ]
    meshes, nodes = file.get("meshes", []), file.get("nodes", [])
    if any(any(each.get("weights", [])) for each in (*meshes, *nodes)):
        raise UnreadError("has morph targets that are not at rest; export it without")
    if any("skin" in node for node in nodes):
        raise UnreadError("has a skin, whose pose is not computed; export it without its armature")
    required += {"EXT_mesh_gpu_instancing"} & set(file.get("extensionsUsed", []))
    if required:
        compressed = " (compressed by Draco)" if "draco" in required[0] else ""
        raise UnreadError(f"needs {required[0]}{compressed}, which is not read; export it without")
    # After the chunk of JSON, which is padded, the length and type of the binary one.
    if len(data) > 20 + size and data[20 + size + 4 : 20 + size + 8] != b"BIN\0":
        raise UnreadError("has no binary chunk after that of JSON; export it again")
    binary = data[20 + size + 8 :]
    parts = [
        (_moved(_accessor(file, binary, primitive["attributes"]["POSITION"]), matrix), faces)
        for mesh, matrix in _placed_meshes(file)
        for primitive in mesh["primitives"]
        for faces in [_faces(file, binary, primitive, np.linalg.det(matrix[:3, :3]) < 0)]
    ]
    if not parts:
        raise UnreadError("has no meshes in its scene")
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in parts)])
    if any(faces.max(initial=0) >= len(vertices) > 0 for vertices, faces in parts):
        raise UnreadError("has faces that refer to missing vertices")
    corners = np.concatenate(
        [faces + start for (_, faces), start in zip(parts, starts, strict=False)]
    )
    vertices = np.concatenate([vertices for vertices, _ in parts])
    return Polygons(vertices, corners.ravel(), np.full(len(corners), 3))


def _placed_meshes(file: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Floats]]:
    """Meshes of the default scene with the products of the matrices above them."""
    nodes = file.get("nodes", [])
    children = {child for node in nodes for child in node.get("children", [])}
    roots = [i for i in range(len(nodes)) if i not in children]
    if "scenes" in file:
        roots = _item(file, "scenes", file.get("scene", 0)).get("nodes", [])
    stack, seen = [(root, np.eye(4)) for root in roots], set[int]()
    while stack:
        index, above = stack.pop()
        if index in seen:
            raise UnreadError("has a node below two others, which glTF does not allow")
        seen.add(index)
        node = _item(file, "nodes", index)
        matrix = above @ _matrix(node)
        if "mesh" in node:
            yield _item(file, "meshes", node["mesh"]), matrix
        stack += [(child, matrix) for child in node.get("children", [])]


def _item(file: dict[str, Any], name: str, index: Any) -> dict[str, Any]:
    """An entry of a list of the file, whose numbers begin at 0."""
    if type(index) is not int or not 0 <= index < len(file[name]):
        raise UnreadError(f"names number {index} of its {len(file[name])} {name}")
    item: dict[str, Any] = file[name][index]
    return item


def _matrix(node: dict[str, Any]) -> Floats:
    if "matrix" in node:
        return np.array(node["matrix"], dtype=np.float64).reshape(4, 4).T
    x, y, z, w = node.get("rotation", (0, 0, 0, 1))
    if not abs(math.hypot(x, y, z, w) - 1) < _ROUNDED:
        raise UnreadError(f"has a rotation by {x, y, z, w}, which is no unit quaternion")
    # Rotation of a unit quaternion: 1 + 2 (w [v] + [v]^2), where [v] u is the cross product v x u.
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=np.float64)
    matrix = np.eye(4)
    matrix[:3, :3] = (np.eye(3) + 2 * (w * cross + cross @ cross)) * node.get("scale", (1, 1, 1))
    matrix[:3, 3] = node.get("translation", (0, 0, 0))
    return matrix


def _moved(positions: npt.NDArray[Any], matrix: Floats) -> Floats:
    moved: Floats = positions.astype(np.float64) @ matrix[:3, :3].T + matrix[:3, 3]
    return moved


def _faces(
    file: dict[str, Any], binary: bytes, primitive: dict[str, Any], is_mirrored: bool
) -> Ints:
    """Triangles ``(n, 3)`` of a primitive; none of points and lines."""
    mode = primitive.get("mode", 4)
    count = _item(file, "accessors", primitive["attributes"]["POSITION"])["count"]
    indices = np.arange(count)
    if "indices" in primitive:
        indices = _accessor(file, binary, primitive["indices"])[:, 0].astype(np.int64)
    if mode == _STRIP:
        faces = np.lib.stride_tricks.sliding_window_view(indices, 3).copy()
        # Every second triangle of a strip runs the other way around.
        faces[1::2] = faces[1::2, [1, 0, 2]]
    elif mode == _FAN:
        faces = np.stack(
            [np.full(len(indices) - 2, indices[0]), indices[1:-1], indices[2:]], axis=-1
        )
    elif mode == 4:
        faces = indices.reshape(-1, 3)
    else:
        faces = np.empty((0, 3), dtype=np.int64)
    return faces[:, ::-1] if is_mirrored else faces


def _accessor(file: dict[str, Any], binary: bytes, index: int) -> npt.NDArray[Any]:
    """Values of an accessor ``(count, components)``."""
    about = _item(file, "accessors", index)
    kind = np.dtype(_TYPES[about["componentType"]])
    width = {"SCALAR": 1, "VEC3": 3}[about["type"]]
    values = np.zeros((about["count"], width), kind)
    if "bufferView" in about:
        values = _view(file, binary, about, kind, about["count"], width)
    elif "sparse" not in about:
        raise UnreadError("has positions without values, as a compressed file (Draco) has them")
    if "sparse" in about:
        sparse = about["sparse"]
        places = np.dtype(_TYPES[sparse["indices"]["componentType"]])
        chosen = _view(file, binary, sparse["indices"], places, sparse["count"], 1)[:, 0]
        values[chosen] = _view(file, binary, sparse["values"], kind, sparse["count"], width)
    if about.get("normalized") and kind.kind in "iu":
        # The largest integer means 1, and the smallest, one below its negative, -1 as well.
        return np.maximum(values / np.iinfo(kind).max, -1)
    return values


def _view(
    file: dict[str, Any],
    binary: bytes,
    about: dict[str, Any],
    kind: np.dtype[Any],
    count: int,
    width: int,
) -> npt.NDArray[Any]:
    view = _item(file, "bufferViews", about["bufferView"])
    if view["buffer"] != 0 or "uri" in file["buffers"][0]:
        raise UnreadError("keeps its triangles in another file; export it as one GLB")
    offset, stride = about.get("byteOffset", 0), view.get("byteStride", kind.itemsize * width)
    if count and offset + stride * (count - 1) + kind.itemsize * width > view["byteLength"]:
        raise UnreadError("has more values than the part of the file that they lie in")
    start = view.get("byteOffset", 0) + offset
    # NumPy raises where this reaches beyond the bytes.
    return np.ndarray((count, width), kind, binary, start, (stride, kind.itemsize)).copy()


def _text(data: bytes) -> str:
    text = data.decode("utf-8-sig", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _polygons(vertices: list[list[str]], corners: Sequence[int], sizes: Sequence[int]) -> Polygons:
    positions = np.array(vertices, dtype=np.float64).reshape(-1, 3)
    return Polygons(positions, np.array(corners, np.int64), np.array(sizes, np.int64))


def triangles_of(polygons: Polygons) -> Ints:
    """Triangles that cover polygons and nothing beside them, ``(n, 3)``.

    Convex quadrangles are split by a diagonal, all other polygons by ear clipping in the plane that
    they lie nearest to.
    """
    vertices, corners, sizes = polygons
    starts = np.cumsum(sizes) - sizes
    triangles = [np.empty((0, 3), dtype=np.int64)]
    for size in np.unique(sizes[sizes >= 3]):
        faces = corners[starts[sizes == size, None] + np.arange(size)]
        if size == 3:
            triangles.append(faces)
            continue
        points = vertices[faces]
        following = np.roll(points, -1, axis=1)
        # Newell's normal, twice the area long; about the first corner, where rounding is least.
        normals = np.cross(points - points[:, :1], following - points[:, :1]).sum(1)
        turns = np.cross(following - points, np.roll(points, -2, axis=1) - following)
        lengths = np.square(normals).sum(-1)
        is_convex = ((turns * normals[:, None]).sum(-1) >= -_ROUNDING * lengths[:, None]).all(1)
        is_simple = is_convex & (size == 4)
        quads = faces[is_simple]
        triangles += [quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]
        for i in np.flatnonzero(~is_simple & (lengths > 0)):
            triangles.append(faces[i][_clipped(points[i] - points[i, 0], normals[i])])
    return np.concatenate(triangles)


def _clipped(points: Floats, normal: Floats) -> Ints:
    """Triangles of one polygon, facing as it does."""
    import mapbox_earcut

    axis = int(np.abs(normal).argmax())
    # Along the axis in which the polygon is widest, which leaves the order of the two others.
    flat = np.ascontiguousarray(points[:, [(axis + 1) % 3, (axis + 2) % 3]])
    ends = np.array([len(flat)], dtype=np.uint32)
    faces = mapbox_earcut.triangulate_float64(flat, ends).reshape(-1, 3).astype(np.int64)
    a, b, c = flat[faces].transpose(1, 0, 2)
    areas = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    is_reversed = areas * normal[axis] < 0
    faces[is_reversed] = faces[is_reversed, ::-1]
    return faces
