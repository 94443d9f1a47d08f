"""``train_fit.py mesh FIT``: the surface of a fitted shape as a mesh file."""

import math
from pathlib import Path
from typing import Annotated

import torch

from nerf_posenc.fits import CoordinateFit, load_fit
from nerf_posenc.training.checkpoints import CheckpointError, replacing
from nerf_posenc.training.devices import pick_device
from nerf_posenc_app.options import POSITIONAL, Range, UsageError, require
from nerf_posenc_app.terminal import say

_SUFFIXES = (".ply", ".obj", ".stl")


def mesh(
    fit: Annotated[Path, POSITIONAL],
    *,
    nodes: Annotated[int, Range(8, 1024)] = 256,
    out: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Write the surface of a fitted shape, by marching cubes, in the units of its file.

    Args:
        fit: File of a saved fit of --shape, such as RUN/fits/hash.safetensors.
        nodes: Number of grid nodes along each axis.
        out: File to write, PLY, OBJ or STL (default: the name of the fit with .ply).
        overwrite: Allow --out to exist.

    Raises:
        UsageError: If there is no such fit, or it has no surface.
    """
    out = out or fit.with_suffix(".ply")
    suffix = out.suffix.lower()
    require(suffix in _SUFFIXES, f"--out {out}: a mesh is written as {', '.join(_SUFFIXES)}")
    require(overwrite or not out.exists(), f"{out} exists; choose another --out, or --overwrite")
    try:
        vertices, faces = surface_of(fit, nodes, pick_device("auto"))
        with replacing(out, is_new=not overwrite) as partial:
            write_mesh(vertices, faces, partial, suffix)
    except CheckpointError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from None
    say(f"wrote {out}")


def surface_of(path: Path, nodes: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Surface of a saved fit of a shape.

    Args:
        path: file of the fit.
        nodes: grid nodes along each axis.
        device: device to compute on.

    Returns:
        Vertices ``(n, 3)`` in float64 and in the units of the shape's file, and triangles
        ``(m, 3)``, counterclockwise as seen from outside.

    Raises:
        CheckpointError: If the file holds no fit of a shape.
        UsageError: If the fit has no surface.
    """
    from nerf_posenc_kinds.data.surfaces import surface_mesh
    from nerf_posenc_kinds.shape import queried

    fit = load_fit(path, device=device)
    try:
        assert isinstance(fit, CoordinateFit)
        center = torch.tensor([float(value) for value in fit.facts["center"]])
        scale = float(fit.facts["scale"])
        if center.shape != (3,) or not bool(center.isfinite().all()) or not 0 < scale < 1e30:
            raise ValueError
    except (AssertionError, KeyError, TypeError, ValueError):
        raise CheckpointError(f"{path} contains no fit of a shape") from None
    query = queried(fit.model)
    vertices, faces = surface_mesh(lambda points: query(points.to(device)), nodes)
    require(
        len(faces) > 0,
        f"{path} has no surface on a grid of {nodes} nodes per axis; give more --nodes, or train "
        "it longer",
    )
    return vertices.double() * scale + center.double(), faces


def write_mesh(vertices: torch.Tensor, faces: torch.Tensor, path: Path, suffix: str) -> None:
    """Write a mesh as PLY, OBJ or STL."""
    import trimesh

    made = trimesh.Trimesh(vertices.numpy(), faces.numpy(), process=False)
    # Eight digits of the longest side. Other formats have float32.
    digits = max(0, 8 - math.floor(math.log10(made.extents.max())))
    made.export(str(path), file_type=suffix[1:], **({"digits": digits} if suffix == ".obj" else {}))
    if suffix != ".obj" and len(vertices.float().unique(dim=0)) < len(vertices.unique(dim=0)):
        say(
            f"note: {suffix} files hold float32, which merges vertices this far from the origin; "
            "write an .obj file"
        )
