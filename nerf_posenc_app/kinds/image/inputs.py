"""Several images of one run."""

from collections.abc import Sequence
from pathlib import Path

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.image_files import IMAGE_SUFFIXES, open_image
from nerf_posenc_app.data.inside import files_in
from nerf_posenc_app.options import UsageError, require


def find_images(names: Sequence[str], max_pixels: int) -> list[str]:
    """Files and samples, with each folder replaced by the images in it.

    Args:
        names: files, folders or bundled samples.
        max_pixels: largest file that is opened, in pixels.

    Raises:
        UsageError: If a folder contains no image or cannot be read, or there is neither a file nor
            a sample of a name: a mistyped name is found before anything is fitted.
    """
    files: list[str] = []
    for name in names:
        try:
            path = Path(name)
            if path.is_dir():
                found = files_in(path, (*IMAGE_SUFFIXES, ".npy"))
                require(bool(found), f"--images {name} contains no image")
                files += map(str, found)
                continue
            if not path.exists():
                open_image(name, max_pixels=max_pixels)
            files.append(name)
        except SceneError as error:
            raise UsageError(str(error)) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"--images {name}: {reason}") from None
    return files
