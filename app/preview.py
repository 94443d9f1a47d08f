"""What snapshots and training videos show: a reduced image or view, so that they cost little."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.radiance.views import Views

# A view costs many samples per pixel and gets a quarter of it.
_LONGER_SIDE = 256

Window = tuple[slice, slice]
"""Rows and columns of an image."""


def most_detailed_window(
    image: Float[Tensor, "height width 3"], window_height: int, window_width: int
) -> Window:
    """Window with the most fine detail: the energy of differences between neighboring pixels.

    Args:
        image: values in [0, 1].
        window_height: rows of the window, at most the image's.
        window_width: columns of the window, at most the image's.
    """
    gray = image.mean(-1).double()
    energy = gray.new_zeros(gray.shape)
    energy[:, 1:] += gray.diff(dim=1).square()
    energy[1:, :] += gray.diff(dim=0).square()
    # Sums over windows are differences of an integral image, whatever the size of the window.
    integral = F.pad(energy.cumsum(0).cumsum(1), (1, 0, 1, 0))
    bands = integral[window_height:] - integral[:-window_height]
    sums = bands[:, window_width:] - bands[:, :-window_width]
    top, left = divmod(int(sums.argmax()), sums.shape[1])
    return slice(top, top + window_height), slice(left, left + window_width)


def detail_crop(image: Float[Tensor, "height width 3"], *, side: int | None = None) -> Window:
    """Most detailed window of a quarter of each side, or of ``side`` pixels at most."""
    height, width, _ = image.shape
    if side is None:
        return most_detailed_window(image, max(1, height // 4), max(1, width // 4))
    return most_detailed_window(image, min(height, side), min(width, side))


def preview_windows(image: Float[Tensor, "height width 3"]) -> list[Window]:
    """Windows of a snapshot: the whole image and its detail crop, with strides to reduce them."""
    rows, columns = detail_crop(image)
    windows = []
    for window in ((slice(0, image.shape[0]), slice(0, image.shape[1])), (rows, columns)):
        longer_side = max(part.stop - part.start for part in window)
        stride = -(-longer_side // _LONGER_SIDE)
        windows.append(
            (
                slice(window[0].start, window[0].stop, stride),
                slice(window[1].start, window[1].stop, stride),
            )
        )
    return windows


def preview_view(views: Views) -> Views:
    """The one reduced view of a scene's snapshots."""
    return views.subset(1).resized(_LONGER_SIDE // 4)
