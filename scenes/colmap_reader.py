"""Read a COLMAP model by pycolmap, in a process of its own, and print it as JSON.

    python colmap_reader.py MODEL

pycolmap trusts the counts in a file: on a damaged one it may hang, grow without bound or crash. In
a process with limits of time and memory nothing else is harmed.
"""

import json
import sys
from pathlib import Path
from typing import Any

# Beside what pycolmap itself takes, and what a model takes per byte of its files.
_SPARE_BYTES = 1 << 29
_BYTES_PER_BYTE = 30


def limit_memory(model: Path) -> None:
    """Let this process grow by no more than a model of this size needs."""
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return
    sizes = sum(file.stat().st_size for file in model.iterdir() if file.is_file())
    virtual = 0
    status = Path("/proc/self/status")
    if not status.exists():  # macOS ignores the limit as well.
        return
    for line in status.read_text().splitlines():
        if line.startswith("VmSize:"):
            virtual = int(line.split()[1]) << 10
    limit = virtual + _SPARE_BYTES + _BYTES_PER_BYTE * sizes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read_model(model: Path) -> dict[str, Any]:
    """Cameras, images and the middle 98% of the points along each axis."""
    import numpy as np
    import pycolmap

    limit_memory(model)
    reconstruction = pycolmap.Reconstruction(str(model))
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


if __name__ == "__main__":
    try:
        json.dump(read_model(Path(sys.argv[1])), sys.stdout)
    except Exception as error:  # pycolmap raises several types of its own.
        print(" ".join(str(error).split()) or type(error).__name__, file=sys.stderr)
        sys.exit(1)
