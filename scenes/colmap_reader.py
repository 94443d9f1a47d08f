"""COLMAP models read by pycolmap; called in the process of `scenes.worker` alone.

pycolmap trusts the counts in a file: on a damaged one it may hang, grow without bound or crash.
"""

from pathlib import Path
from typing import Any

import numpy as np

from scenes.errors import SceneError


def read_model(model: Path) -> dict[str, Any]:
    """Cameras, images and the middle 98% of the points along each axis.

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
    points = np.array([point.xyz for point in reconstruction.points3D.values()]).reshape(-1, 3)
    finite = points[np.isfinite(points).all(axis=1)]
    box = np.quantile(finite, [0.01, 0.99], axis=0).tolist() if len(finite) else None
    return {
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
            for image in reconstruction.images.values()
        ],
        "num_points": len(finite),
        "num_broken_points": len(points) - len(finite),
        "box": box,
    }
