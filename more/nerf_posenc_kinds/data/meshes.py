"""Meshes as signed distances: of a file, or of a shape in closed form."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.formulas.sdf import brick
from nerf_posenc_app.data.reading.worker import read_file
from nerf_posenc_app.plugins import how_to_install

BRICK = "brick"
"""Name of the built-in shape."""
MAX_TRIANGLES = 2_000_000
"""Most triangles of a file."""

# Half of the longest side of a shape in [-1, 1]^3: around it there is space to be told apart.
_HALF = 0.8
_BRICK_NODES = 160
# Mean distance from a plane, in units, below which a mesh is flat.
_FLAT = 1e-6
# Points of a surface with holes at which is looked for an inside, that far behind it in units; the
# least share of them that must be inside. It is one half for a sheet, and 1 for a closed body.
_TRIED = 4096
_BEHIND = 1e-3
_LEAST_INSIDE = 0.8
_HOLES = "the mesh has holes; points with a winding number above one half count as inside"
_INWARDS = "all triangles of the mesh faced inwards, and were flipped"
_INCONSISTENT = (
    "the triangles of the mesh do not all face the same way, so normals and their errors are "
    "unreliable"
)


@dataclass(frozen=True)
class Shape:
    """A triangle mesh, moved and scaled so that its longest side spans [-0.8, 0.8].

    Attributes:
        name: name for the report.
        source: path of the file, or what it is.
        vertices: corners of the triangles.
        faces: numbers of the corners, counterclockwise as seen from outside.
        center: middle of its box in the units of the file.
        scale: length of one unit in those of the file.
        is_closed: whether every edge has two triangles; else inside is where the generalized
            winding number (Jacobson et al. 2013) is above one half.
        notes: remarks for the report.
    """

    name: str
    source: str
    vertices: Float[Tensor, "vertices 3"]
    faces: Int[Tensor, "faces 3"]
    center: tuple[float, float, float]
    scale: float
    is_closed: bool
    notes: tuple[str, ...] = ()

    def distance(
        self, points: Float[Tensor, "n 3"]
    ) -> tuple[Float[Tensor, "n 1"], Float[Tensor, "n 3"]]:
        """Signed distance, negative inside, and the nearest point of the surface; on the CPU."""
        import igl

        places = points.double().cpu()
        weighted, _, found, _ = igl.signed_distance(
            places.numpy(),
            self.vertices.double().numpy(),
            self.faces.numpy(),
            sign_type=igl.SIGNED_DISTANCE_TYPE_FAST_WINDING_NUMBER,
        )
        nearest = torch.from_numpy(found)
        # What it returns is multiplied by 1 - 2 times an approximate winding number: a sign alone.
        sign = torch.where(torch.from_numpy(weighted) < 0, -1, 1)
        distances = sign * (places - nearest).norm(dim=-1)
        return distances.float()[:, None], nearest.float()

    def sample_surface(
        self, count: int, generator: torch.Generator
    ) -> tuple[Float[Tensor, "n 3"], Float[Tensor, "n 3"]]:
        """Points drawn uniformly by area, and the normals of their triangles."""
        corners = self.vertices[self.faces]
        across = torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        areas = across.norm(dim=-1).double()
        # Pick triangles by cumulative areas, since multinomial takes at most 2^24.
        ends = areas.cumsum(0)
        picked = torch.rand(count, generator=generator, dtype=torch.float64) * ends[-1]
        faces = torch.searchsorted(ends, picked).clamp(max=len(ends) - 1)
        u, v = torch.rand(2, count, 1, generator=generator)
        # A point of the parallelogram beyond the diagonal is folded back.
        u, v = torch.where(u + v > 1, 1 - u, u), torch.where(u + v > 1, 1 - v, v)
        a, b, c = corners[faces].unbind(1)
        normals = across[faces] / areas[faces, None].float()
        return a + u * (b - a) + v * (c - a), normals


def open_shape(name_or_path: str) -> Shape:
    """Open a mesh file, or the built-in brick by its name.

    Args:
        name_or_path: OBJ, PLY, STL, OFF or GLB file; or ``"brick"``.

    Raises:
        SceneError: If there is no such file, it cannot be read, or libigl is not installed.
    """
    try:
        import igl  # noqa: F401
    except ImportError:
        raise SceneError(
            f"distances of meshes need libigl: {how_to_install('shapes', companion=True)}"
        ) from None
    path = Path(name_or_path)
    if name_or_path == BRICK and not path.exists():
        from nerf_posenc_kinds.data.surfaces import surface_mesh

        distance = brick((-0.32, -0.16, -0.1), (4, 2), hollow=True)
        vertices, faces = surface_mesh(
            lambda points: distance(points.double()).float()[:, None], _BRICK_NODES, half=0.4
        )
        source = "a built-in toy brick"
    else:
        reader = "nerf_posenc_kinds.data.mesh_reader:read_triangles"
        vertices, faces = map(torch.from_numpy, read_file(reader, path, MAX_TRIANGLES))
        source = str(path)
    used, faces = faces.unique(return_inverse=True)
    vertices = vertices[used].double()
    low, high = vertices.amin(0), vertices.amax(0)
    center, scale = (low + high) / 2, float((high - low).max()) / (2 * _HALF)
    if not scale > 0:
        raise SceneError(f"{source} has no extent")
    vertices = (vertices - center) / scale
    if float(torch.linalg.svdvals(vertices - vertices.mean(0))[-1]) < _FLAT * len(vertices) ** 0.5:
        raise SceneError(f"{source} lies in a plane, which has no inside")
    is_closed, is_consistent = _edges(faces.numpy())
    notes = [] if is_closed else [_HOLES]
    if is_closed and not is_consistent:
        notes.append(_INCONSISTENT)
    elif _volume(vertices, faces) < 0:
        faces = faces.flip(1)
        notes.append(_INWARDS)
    x, y, z = center.tolist()
    shape = Shape(
        path.stem, source, vertices.float(), faces, (x, y, z), scale, is_closed, tuple(notes)
    )
    if not is_closed:
        _require_inside(shape)
    return shape


def _require_inside(shape: Shape) -> None:
    """Refuse a surface with holes that is more of a sheet than of a body.

    Raises:
        SceneError: If behind much of the surface its winding number is no more than one half.
    """
    points, normals = shape.sample_surface(_TRIED, torch.Generator().manual_seed(0))
    distances, _ = shape.distance(points - _BEHIND * normals)
    share = float((distances < 0).float().mean())
    if share < _LEAST_INSIDE:
        raise SceneError(
            f"{shape.source} has no inside: its surface is open, and only {share:.0%} of it has an "
            "inside behind it; close its holes, or make its triangles face outwards"
        )


def _edges(faces: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]") -> tuple[bool, bool]:
    """Whether every edge has two triangles, and whether these run through it in both directions."""
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    # One number for each edge sorts many times as fast as a pair.
    count = int(faces.max()) + 1
    _, shared = np.unique(edges.min(1) * count + edges.max(1), return_counts=True)
    _, directed = np.unique(edges[:, 0] * count + edges[:, 1], return_counts=True)
    return bool((shared == 2).all()), bool((directed == 1).all())


def _volume(vertices: Tensor, faces: Tensor) -> float:
    """Volume inside a closed mesh; negative if its triangles face inwards."""
    a, b, c = vertices[faces].unbind(1)
    return float((a * torch.linalg.cross(b, c)).sum() / 6)
