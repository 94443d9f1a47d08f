"""What the EXIF data of a photograph says of its camera."""

from pathlib import Path

import PIL.Image

_EXIF_TAG = 0x8769
_FOCAL_LENGTH_TAG = 0xA405


def focal_length(path: Path) -> float | None:
    """Focal length for the 24 x 36 mm frame by EXIF, in mm; None where there is none."""
    try:
        with PIL.Image.open(path) as image:
            value = float(image.getexif().get_ifd(_EXIF_TAG).get(_FOCAL_LENGTH_TAG, 0))
    except Exception:  # EXIF may hold anything, and this is a guess at best.
        return None
    return value if 5 < value < 2000 else None
