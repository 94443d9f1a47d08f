"""COLMAP models read by pycolmap; called in the process of `scenes.worker` alone.

pycolmap trusts the counts in a file: on a damaged one it may hang, grow without bound or crash.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scenes.errors import SceneError


def read_model(model: Path) -> tuple[dict[str, Any], npt.NDArray[np.float64]]:
    """Cameras, images and the middle 98% of the points along each axis; and what images show.

    Returns:
        The values; and a row for each point that an image shows: the index of the image, column
        and row as shares of its width and height, and the position of the point, ``(n, 6)``.

    Raises:
        SceneError: If pycolmap is not installed or refuses the files.
    """
    try:
        import pycolmap
    except ImportError:
        raise SceneError(
            f"{model} is a COLMAP model, which needs pycolmap: pip install 'nerf_posenc[photos]'"
        ) from None
    try:
        reconstruction = pycolmap.Reconstruction(str(model))
    except MemoryError:
        raise
    except Exception as error:  # pycolmap raises several types of its own.
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        reason = "it is damaged" if "bad_alloc" in reason else reason
        raise SceneError(f"cannot read {model} as a COLMAP model: {reason}") from None
    positions = {number: point.xyz for number, point in reconstruction.points3D.items()}
    points = np.array(list(positions.values())).reshape(-1, 3)
    finite = points[np.isfinite(points).all(axis=1)]
    box = np.quantile(finite, [0.01, 0.99], axis=0).tolist() if len(finite) else None
    images = list(reconstruction.images.values())
    shown = [
        (i, *(seen.xy / (lens.width, lens.height)), *positions[seen.point3D_id])
        for i, image in enumerate(images)
        for lens in [reconstruction.camera(image.camera_id)]
        for seen in image.get_observation_points2D()
        if seen.point3D_id in positions
    ]
    values = {
        "cameras": {
            str(number): {
                "model": lens.model.name,
                "width": lens.width,
                "height": lens.height,
                "names": [name.strip() for name in lens.params_info.split(",")],
                "values": [float(value) for value in lens.params],
            }
            for number, lens in reconstruction.cameras.items()
        },
        "images": [
            {
                "name": str(image.name),
                "camera": str(image.camera_id),
                "camera_from_world": np.asarray(image.cam_from_world().matrix()).tolist(),
            }
            for image in images
        ],
        "num_points": len(finite),
        "num_broken_points": len(points) - len(finite),
        "box": box,
    }
    return values, np.array(shown, dtype=np.float64).reshape(-1, 6)
