"""Triangles of mesh files; run by the worker, within its limits."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.plugins import how_to_install
from nerf_posenc_kinds.data import polygons

FORMATS: dict[str, Callable[[bytes], polygons.Polygons]] = {
    ".obj": polygons.read_obj,
    ".ply": polygons.read_ply,
    ".stl": polygons.read_stl,
    ".off": polygons.read_off,
    ".glb": polygons.read_glb,
}


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
        raise SceneError(f"{path} is not a mesh file; give one of {', '.join(FORMATS)}")
    try:
        return _triangles(path, most)
    except (SceneError, MemoryError):
        raise
    except polygons.UnreadError as error:
        raise SceneError(f"{path} {error}") from None
    except ImportError as error:
        raise SceneError(
            f"{path}: meshes need {error.name}: {how_to_install('shapes', companion=True)}"
        ) from None
    except OSError as error:
        raise SceneError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # Files may be damaged in any way.
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        reason = f"it lacks {reason}" if isinstance(error, KeyError) else reason
        raise SceneError(f"cannot read {path}: {reason}; export it again") from None


def _triangles(path: Path, most: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    mesh = FORMATS[path.suffix.lower()](path.read_bytes())
    count = int((mesh.sizes[mesh.sizes > 2] - 2).sum())
    if count > most:
        raise SceneError(f"{path} has {count:,} triangles, over {most:,}; simplify it first")
    if not count:
        raise SceneError(f"{path} has no faces; a mesh needs faces, not points alone")
    if len(mesh.corners) != mesh.sizes.sum():
        raise SceneError(f"{path} has faces with fewer corners than they declare; export it again")
    if not 0 <= mesh.corners.min() <= mesh.corners.max() < len(mesh.vertices):
        raise SceneError(f"{path} has faces that refer to missing vertices; export it again")
    used = mesh.vertices[mesh.corners]
    if not (np.abs(used) <= 1e30).all():  # NaN fails the comparison.
        raise SceneError(f"{path} has vertices that are not finite; export it again")
    # Formats repeat a vertex for each face or texture: those in one place are one. 0 is -0.
    vertices, places = np.unique(mesh.vertices + 0.0, axis=0, return_inverse=True)
    corners = places.reshape(-1)[mesh.corners]
    faces = polygons.triangles_of(polygons.Polygons(vertices, corners, mesh.sizes))
    points = vertices[faces]
    extent = np.ptp(used, axis=0).max()
    with np.errstate(all="ignore"):
        scaled = (points - used.min(0)) / extent
        across = np.cross(scaled[:, 1] - scaled[:, 0], scaled[:, 2] - scaled[:, 0])
    faces = faces[np.linalg.norm(across, axis=-1) > 1e-14]
    if not len(faces):
        raise SceneError(f"{path} has no triangles with an area; a mesh needs faces")
    return vertices, faces
