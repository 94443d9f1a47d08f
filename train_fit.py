#!/usr/bin/env python3
"""Fit an image, a radiance field or a sequence without and with an encoding, and compare."""

import signal
import sys
from collections.abc import Sequence

if __name__ == "__main__":
    # Until the program handles it: Ctrl-C during the imports ends it without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

try:
    from app import cli
    from app.task import Openers
    from scenes import BUILT_IN, SceneError, open_cameras, open_image, open_scene
    from sequences import SequenceError, open_sequence
except ModuleNotFoundError as error:
    if __name__ != "__main__" or error.name in ("app", "scenes", "sequences", "nerf_posenc"):
        raise
    sys.exit(f"train_fit.py: error: {error.name} is missing: pip install 'nerf_posenc[app]'")

OPENERS = Openers(
    image=open_image,
    scene=open_scene,
    cameras=open_cameras,
    sequence=open_sequence,
    built_in=tuple(BUILT_IN),
    errors=(SceneError, SequenceError),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status."""
    return cli.main(sys.argv[1:] if arguments is None else arguments, OPENERS)


if __name__ == "__main__":
    sys.exit(main())
