"""What the film of a run shows: few pixels of a picture or a view, so that it costs little."""

from jaxtyping import Float
from torch import Tensor

from app.report import most_detailed_window
from nerf_posenc.radiance.views import Views

# A view costs many samples a pixel and gets a quarter of it.
_LONGER_SIDE = 256


def sampled_windows(
    picture: Float[Tensor, "height width 3"], values: Float[Tensor, "height width channels"]
) -> list[Float[Tensor, "_height _width channels"]]:
    """What a film shows of a picture: all of it, and its most detailed window, in few samples.

    Args:
        picture: values in [0, 1].
        values: what to take the samples from: the picture, or the coordinates of its pixels.
    """
    rows, columns = (max(1, n // 4) for n in picture.shape[:2])
    top, left = most_detailed_window(picture, rows, columns)
    windows = values, values[top : top + rows, left : left + columns]
    strides = (-(-max(window.shape[:2]) // _LONGER_SIDE) for window in windows)
    return [window[::n, ::n] for window, n in zip(windows, strides, strict=True)]


def filmed_truth(views: Views, background: float) -> Float[Tensor, "_height _width 3"]:
    """What the film of a scene is to come to: a test view, in few pixels.

    Args:
        views: the test views.
        background: grey behind.
    """
    return filmed_view(views).over(background)[0]


def filmed_view(views: Views) -> Views:
    """The one view that the film of a scene shows, in few pixels."""
    return views.subset(1).resized(_LONGER_SIDE // 4)
