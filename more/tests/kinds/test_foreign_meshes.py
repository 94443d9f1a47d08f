"""Meshes as other programs write them, against formulas and another reader."""

import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nerf_posenc_app.data import SceneError
from nerf_posenc_kinds.data.meshes import Shape, open_shape
from tests.optional import needs

Outline = Sequence[tuple[float, float]]
L_SHAPE: Outline = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
DART: Outline = [(0, 0), (2, 1), (0, 2), (0.7, 1)]
STAR: Outline = [
    (r * np.cos(a), r * np.sin(a))
    for r, a in zip([2, 0.6] * 5, np.arange(10) * np.pi / 5, strict=True)
]


def prism(outline: Outline, first: int = 0) -> tuple[list[Any], list[list[int]]]:
    """Corners and polygons of a prism of height 1 whose lids begin at one of their corners."""
    count = len(outline)
    vertices = [(x, y, float(z)) for z in (0, 1) for x, y in outline]
    lid = [(first + i) % count for i in range(count)]
    faces = [lid[::-1], [count + i for i in lid]]
    faces += [[i, (i + 1) % count, count + (i + 1) % count, count + i] for i in range(count)]
    return vertices, faces


def area_of(outline: Outline) -> float:
    """Twice the outline's area by the shoelace formula, and the sides."""
    points = np.array(outline)
    after = np.roll(points, -1, axis=0)
    lid = float((points[:, 0] * after[:, 1] - points[:, 1] * after[:, 0]).sum())
    return lid + float(np.linalg.norm(after - points, axis=1).sum())


def write_obj(path: Path, vertices: list[Any], faces: list[list[int]], dialect: str = "") -> None:
    lines = [f"v {x} {y} {z}" for x, y, z in vertices]
    lines += ["f " + " ".join(str(i + 1) for i in face) for face in faces]
    text = "\n".join(["# a comment", *lines]) + "\n"
    if dialect == "relative":
        lines = [f"v {x} {y} {z}" for x, y, z in vertices]
        lines += ["f " + " ".join(str(i - len(vertices)) for i in face) for face in faces]
        text = "\n".join(lines) + "\n"
    elif dialect == "tabs":
        text = text.replace("f ", "\tf\t").replace(" ", "\t")
    elif dialect == "comments":
        text = text.replace("\n", " # x\n")
    elif dialect == "continued":
        text = text.replace("f ", "f \\\n ")
    elif dialect == "capitals":
        text = text.upper()
    elif dialect == "bom":
        text = "\ufeff" + text.replace("\n", "\r")
    path.write_text(text, encoding="utf-8", newline="")


def write_off(path: Path, vertices: list[Any], faces: list[list[int]], end: str = "\n") -> None:
    rows = [f"OFF{end}{len(vertices)} {len(faces)} 0"]
    rows += [" ".join(map(str, vertex)) for vertex in vertices]
    rows += [" ".join(map(str, [len(face), *face])) for face in faces]
    path.write_text("\n".join(rows) + "\n")


def write_ply(path: Path, vertices: list[Any], faces: list[list[int]], binary: bool) -> None:
    form = "binary_little_endian" if binary else "ascii"
    head = f"ply\nformat {form} 1.0\nelement vertex {len(vertices)}\n"
    head += "".join(f"property double {axis}\n" for axis in "xyz")
    head += f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    if binary:
        body = np.array(vertices, "<f8").tobytes()
        body += b"".join(struct.pack(f"<B{len(f)}i", len(f), *f) for f in faces)
    else:
        rows = [" ".join(map(str, v)) for v in vertices]
        rows += [" ".join(map(str, [len(f), *f])) for f in faces]
        body = ("\n".join(rows) + "\n").encode()
    path.write_bytes(head.encode() + body)


WRITERS: dict[str, Callable[[Path, list[Any], list[list[int]]], None]] = {
    "a.obj": write_obj,
    "b.obj": lambda path, v, f: write_obj(path, v, f, "relative"),
    "c.obj": lambda path, v, f: write_obj(path, v, f, "tabs"),
    "d.obj": lambda path, v, f: write_obj(path, v, f, "comments"),
    "e.obj": lambda path, v, f: write_obj(path, v, f, "continued"),
    "f.obj": lambda path, v, f: write_obj(path, v, f, "bom"),
    "g.obj": lambda path, v, f: write_obj(path, v, f, "capitals"),
    "a.off": write_off,
    "b.off": lambda path, v, f: write_off(path, v, f, ""),
    "a.ply": lambda path, v, f: write_ply(path, v, f, binary=False),
    "b.ply": lambda path, v, f: write_ply(path, v, f, binary=True),
}


def surface(shape: Shape) -> tuple[float, float]:
    """Area and volume in the units of the file."""
    a, b, c = (shape.vertices.double() * shape.scale)[shape.faces].unbind(1)
    area = torch.linalg.cross(b - a, c - a).norm(dim=-1).sum() / 2
    return float(area), float((a * torch.linalg.cross(b, c)).sum() / 6)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("outline", [L_SHAPE, DART, STAR], ids=["L", "dart", "star"])
def test_polygons_are_covered_and_nothing_beside_them(
    tmp_path: Path, name: str, outline: Outline
) -> None:
    for first in (0, 2):
        vertices, faces = prism(outline, first)
        WRITERS[name](tmp_path / name, vertices, faces)
        shape = open_shape(str(tmp_path / name))
        area, volume = surface(shape)
        assert area == pytest.approx(area_of(outline), rel=1e-5)
        points = np.array(outline)
        after = np.roll(points, -1, axis=0)
        shoelace = (points[:, 0] * after[:, 1] - points[:, 1] * after[:, 0]).sum() / 2
        assert volume == pytest.approx(shoelace, rel=1e-5)
        assert shape.is_closed
        assert not shape.notes


@pytest.mark.parametrize("name", [*WRITERS, "a.glb", "a.stl"])
def test_meshes_are_read_as_another_reader_does(tmp_path: Path, name: str) -> None:
    needs("assimp_py")
    import assimp_py as assimp

    if name in ("b.off", "c.obj", "d.obj", "f.obj", "g.obj"):
        pytest.skip("that reader refuses comments after faces, byte order marks, and tabs before f")
    path = tmp_path / name
    if name in WRITERS:
        # It loses half of a star's lids in OFF.
        WRITERS[name](path, *prism(L_SHAPE if name == "a.off" else STAR))
    else:
        import trimesh

        ball = trimesh.creation.icosphere(2)
        ball.apply_transform(trimesh.transformations.rotation_matrix(0.3, (1, 2, 3), (4, 5, 6)))
        scene = trimesh.Scene()
        scene.add_geometry(ball, transform=trimesh.transformations.scale_matrix(2, (1, 1, 1)))
        scene.add_geometry(ball, transform=trimesh.transformations.translation_matrix((9, 0, 0)))
        (scene if name == "a.glb" else ball).export(path)
    flags = assimp.Process_Triangulate | assimp.Process_PreTransformVertices
    parts = [
        np.asarray(mesh.vertices, float).reshape(-1, 3)[np.asarray(mesh.indices).reshape(-1, 3)]
        for mesh in assimp.import_file(str(path), flags).meshes
    ]
    a, b, c = np.concatenate(parts).transpose(1, 0, 2)
    theirs = (
        np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2,
        (a * np.cross(b, c)).sum() / 6,
    )
    shape = open_shape(str(path))
    area, volume = surface(shape)
    center = np.concatenate(parts).reshape(-1, 3)
    assert shape.center == pytest.approx((center.min(0) + center.max(0)) / 2, abs=1e-4)
    assert (area, volume) == pytest.approx(theirs, rel=1e-4)


def stl(words: str, *, binary: bool = False) -> bytes:
    """A box of 2 x 1 x 1 as triangles, with words at the beginning."""
    vertices, faces = prism([(0, 0), (2, 0), (2, 1), (0, 1)])
    points = np.array(vertices)
    corners = np.array(
        [points[[f[0], f[i], f[i + 1]]] for f in faces for i in range(1, len(f) - 1)]
    )
    if binary:
        kind = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])
        facets = np.zeros(len(corners), kind)
        facets["corners"] = corners
        return words.encode().ljust(80) + struct.pack("<I", len(facets)) + facets.tobytes()
    rows = [f"solid {words}"]
    for triangle in corners:
        rows += ["facet normal 0 0 0", " outer loop"]
        rows += [f"  vertex {x:e} {y:e} {z:e}" for x, y, z in triangle]
        rows += [" endloop", "endfacet"]
    return "\n".join([*rows, f"endsolid {words}"]).encode()


@pytest.mark.parametrize(
    "data",
    [
        stl("a"),
        stl("vertex facet"),
        stl("a").upper(),
        b"\xef\xbb\xbf\n " + stl("a").replace(b"\n", b"\r\n"),
        stl("a", binary=True),
        stl("solid a\nfacet normal", binary=True),
        stl("a", binary=True) + bytes(20),
    ],
    ids=["text", "words", "capitals", "mark", "binary", "solid", "trailing"],
)
def test_stl_is_told_apart_by_its_length_and_not_its_first_word(
    tmp_path: Path, data: bytes
) -> None:
    (tmp_path / "a.stl").write_bytes(data)
    area, volume = surface(open_shape(str(tmp_path / "a.stl")))
    assert area == pytest.approx(10)
    assert volume == pytest.approx(2)


def write_glb(path: Path, file: dict[str, Any], binary: bytes) -> None:
    text = json.dumps({"asset": {"version": "2.0"}, **file}).encode()
    text += b" " * (-len(text) % 4)
    binary += bytes(-len(binary) % 4)
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text
    chunks += struct.pack("<II", len(binary), 0x004E4942) + binary
    path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks)


def box_file(**changes: Any) -> tuple[dict[str, Any], bytes]:
    """Two nodes of a cube of int16 from -1 to 1, one corner of which a sparse accessor gives."""
    vertices, faces = prism([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    positions = np.array(vertices) * (1, 1, 2) - (0, 0, 1)
    triangles = [t for f in faces for t in (f[:3], [f[0], f[2], f[3]])]
    binary = (32767 * positions).astype("<i2").tobytes()
    binary += np.array(triangles, "<u2").tobytes()
    binary += np.array([0], "<u2").tobytes() + (32767 * positions[:1]).astype("<i2").tobytes()
    views = [(0, 48), (48, 72), (120, 2), (122, 6)]
    position = {
        "bufferView": 0,
        "componentType": 5122,
        "count": 8,
        "type": "VEC3",
        "normalized": True,
    }
    index = {"bufferView": 1, "componentType": 5123, "count": 36, "type": "SCALAR"}
    sparse = {
        "count": 1,
        "indices": {"bufferView": 2, "componentType": 5123},
        "values": {"bufferView": 3},
    }
    file: dict[str, Any] = {
        "extensionsUsed": ["KHR_mesh_quantization"],
        "extensionsRequired": ["KHR_mesh_quantization"],
        "scenes": [{"nodes": [0, 1]}],
        "nodes": [
            {"mesh": 0, "scale": [1, 2, 3]},
            {"children": [2], "translation": [10, 0, 0]},
            {"mesh": 0, "matrix": [-1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]},
        ],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        "accessors": [{**position, "sparse": sparse}, index],
        "bufferViews": [{"buffer": 0, "byteOffset": a, "byteLength": b} for a, b in views],
        "buffers": [{"byteLength": 128}],
        **changes,
    }
    return file, binary


def test_normalized_sparse_and_mirrored_parts_of_a_glb_are_in_their_places(tmp_path: Path) -> None:
    write_glb(tmp_path / "a.glb", *box_file())
    shape = open_shape(str(tmp_path / "a.glb"))
    # Boxes of 2 x 4 x 6 and of 2 x 2 x 2, the second one mirrored and 10 away.
    area, volume = surface(shape)
    assert area == pytest.approx(88 + 24, rel=1e-3)
    assert volume == pytest.approx(48 + 8, rel=1e-3)
    assert shape.scale * 1.6 == pytest.approx(12, rel=1e-3)
    # Without the sparse value the corner would be another one.
    file, binary = box_file()
    write_glb(tmp_path / "b.glb", file, binary[:-6] + np.array([0, 0, 0], "<i2").tobytes())
    assert surface(open_shape(str(tmp_path / "b.glb")))[1] < 50


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"extensionsRequired": ["XX_unknown"]}, "needs XX_unknown, which is not read"),
        ({"extensionsRequired": ["KHR_draco_mesh_compression"]}, "compressed by Draco"),
        ({"extensionsUsed": ["EXT_mesh_gpu_instancing"]}, "needs EXT_mesh_gpu_instancing"),
        ({"buffers": [{"byteLength": 128, "uri": "../secret"}]}, "in another file"),
        ({"nodes": [{"children": [1], "mesh": 0}, {"children": [0]}]}, "a node below two others"),
        ({"scenes": [{"nodes": []}]}, "no meshes in its scene"),
        ({"scenes": [{"nodes": [0]}], "nodes": [{"mesh": -1}]}, "names number -1 of its 1 meshes"),
        ({"scene": -1}, "names number -1 of its 1 scenes"),
        ({"scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0.0}]}, "names number 0.0"),
        (
            {"scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0, "rotation": [9, 9, 9, 9]}]},
            "no unit quaternion",
        ),
        ({"scenes": [{"nodes": [-1]}]}, "names number -1 of its 3 nodes"),
        (
            {"bufferViews": [{"buffer": 0, "byteLength": 47}] * 4},
            "more values than the part of the file",
        ),
        ({"nodes": [{"mesh": 0, "skin": 0}]}, "a skin, whose pose is not computed"),
        ({"nodes": [{"mesh": 0, "weights": [0.5]}]}, "morph targets that are not at rest"),
    ],
)
def test_a_glb_that_needs_what_is_not_read_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    write_glb(tmp_path / "a.glb", *box_file(**changes))
    with pytest.raises(SceneError, match=message):
        open_shape(str(tmp_path / "a.glb"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 0 1 2\n", "vertex 0 in line 4; OBJ counts from 1"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nf -3 -2 -1\nv 0 1 0\n", "vertex -3 in line 3"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n", "faces that refer to missing vertices"),
        ("a.obj", "v 0 0 0\ncstype bspline\nsurf 0 1 0 1 1\n", "free-form surfaces"),
        ("a.stl", "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\n", "is truncated"),
        ("a.off", "OFF\n3 2 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n", "is truncated: .*1 of 2 faces"),
        ("a.off", "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n4 0 1 2\n", "fewer corners"),
    ],
)
def test_a_mesh_with_a_wrong_number_is_refused_by_it(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SceneError, match=message):
        open_shape(str(tmp_path / name))


def test_a_surface_without_an_inside_is_refused(tmp_path: Path) -> None:
    x, y = np.meshgrid(np.linspace(-1, 1, 12), np.linspace(-1, 1, 12))
    vertices = np.stack([x, y, 0.2 * np.sin(4 * x) * np.cos(3 * y)], -1).reshape(-1, 3).tolist()
    faces = [[i, i + 1, i + 13, i + 12] for i in range(131) if i % 12 < 11]
    write_obj(tmp_path / "a.obj", vertices, faces)
    with pytest.raises(SceneError, match="has no inside: its surface is open"):
        open_shape(str(tmp_path / "a.obj"))
    # A body with a hole, facing inwards, has one.
    box, sides = prism(L_SHAPE)
    write_obj(tmp_path / "b.obj", box, [side[::-1] for side in sides[:-1]])
    notes = open_shape(str(tmp_path / "b.obj")).notes
    assert len(notes) == 2
    assert "flipped" in notes[1]
