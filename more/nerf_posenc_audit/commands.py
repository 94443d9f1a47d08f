"""Command of ``train_fit.py`` that finds the encoding of given numbers: identify."""

from pathlib import Path
from typing import Annotated

from nerf_posenc_app.options import POSITIONAL, UsageError
from nerf_posenc_audit.array_files import identify_file


def identify(
    file: Annotated[Path, POSITIONAL],
    *,
    shape: tuple[int, ...] | None = None,
    expected: str | None = None,
) -> int:
    """Find the preset that computes a given output.

    Args:
        file: A .npz, .safetensors or .json file with the arrays output, positions and, for a
            rotation, its input x.
        shape: Sizes of the grid, if the file has no positions.
        expected: Name of a preset; the differences from it are printed.

    Returns:
        0, or 1 if nothing gives exactly this output.

    Raises:
        UsageError: If the file cannot be read.
    """
    try:
        matches = identify_file(file, shape=shape, expected=expected)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from None
    print("\n".join(map(str, matches)))
    return 0 if matches[0].is_exact else 1
