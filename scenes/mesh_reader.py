"""Triangles of mesh files; run by the worker, within its limits."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scenes.errors import SceneError

FORMATS = (".obj", ".ply", ".stl", ".off", ".glb")


def read_triangles(path: Path, most: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Read the triangles of a mesh file; polygons are split, several meshes are joined.

    Args:
        path: OBJ, PLY, STL, OFF or GLB file.
        most: a mesh of more triangles is refused.

    Returns:
        Vertices ``(n, 3)`` and faces ``(m, 3)``, without those that have no area.

    Raises:
        SceneError: If the file cannot be read or has no faces.
    """
    if path.suffix.lower() not in FORMATS:
        raise SceneError(f"{path} is no mesh: {', '.join(FORMATS)} are read")
    try:
        import trimesh
    except ImportError:
        raise SceneError(
            f"{path}: meshes need trimesh: pip install 'nerf_posenc[shapes]'"
        ) from None
    try:
        with path.open("rb") as file:
            # From an open file, beside which nothing is looked for: no materials, no textures.
            mesh: Any = trimesh.load_mesh(file, file_type=path.suffix[1:].lower(), process=False)
        if np.isfinite(mesh.vertices).all():
            mesh.merge_vertices()
        vertices, faces = np.asarray(mesh.vertices, float), np.asarray(mesh.faces)
    except MemoryError:
        raise
    except OSError as error:
        raise SceneError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # Loaders raise nearly every type on a damaged file.
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise SceneError(f"cannot read {path}: {reason}; export it anew as PLY") from None
    if vertices.ndim != 2 or vertices.shape[1] != 3 or faces.ndim != 2 or faces.shape[1] != 3:
        raise SceneError(f"{path} has no triangles; a mesh needs faces, not points alone")
    if len(faces) > most:
        raise SceneError(f"{path} has {len(faces):,} triangles, over {most:,}; simplify it first")
    if len(faces) and not 0 <= faces.min() <= faces.max() < len(vertices):
        raise SceneError(f"{path} has faces of vertices that it lacks; export it anew as PLY")
    corners = vertices[faces]
    if not np.isfinite(corners).all() or np.abs(corners).max(initial=0) > 1e30:
        raise SceneError(f"{path} has vertices that are not finite; export it anew")
    extent = np.ptp(corners, axis=(0, 1)).max() if len(faces) else 0.0
    with np.errstate(all="ignore"):
        scaled = (corners - corners.min((0, 1))) / extent if extent else corners
        across = np.cross(scaled[:, 1] - scaled[:, 0], scaled[:, 2] - scaled[:, 0])
    faces = faces[np.linalg.norm(across, axis=-1) > 1e-14]
    if not len(faces):
        raise SceneError(f"{path} has no triangles with an area; a mesh needs faces")
    return vertices, faces.astype(np.int64)
