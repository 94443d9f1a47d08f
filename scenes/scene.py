"""A scene: posed pictures to fit a radiance field to, and others to measure it by."""

from dataclasses import dataclass, replace

from nerf_posenc.radiance.views import Views


class SceneError(ValueError):
    """What was asked for cannot be opened; the message says what and how to mend it."""


@dataclass(frozen=True)
class Scene:
    """Posed pictures of one scene, in coordinates in which it lies in [-1, 1]^3.

    Attributes:
        name: of the folder, or of the built-in scene.
        train: the views to fit.
        test: the views to measure by, never fitted.
        source: one line on where it came from.
        scale: multiples of the file's unit of length in one unit here.
        notes: what a person should know about how it was read.
    """

    name: str
    train: Views
    test: Views
    source: str
    scale: float = 1.0
    notes: tuple[str, ...] = ()

    def resized(self, longer_side: int) -> "Scene":
        """Average pixels by area until the longer side is ``longer_side``; never enlarges."""
        return replace(
            self, train=self.train.resized(longer_side), test=self.test.resized(longer_side)
        )
