"""How far poses that are refined or disturbed are from those of the files, in numbers and words."""

from collections.abc import Iterator, Sequence

from torch import Tensor

from nerf_posenc.radiance.poses import pose_difference
from nerf_posenc_app.values.blocks import Curve
from nerf_posenc_app.values.finding import Doubt
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.results import Result

ROTATION = Measure(
    "rotation_deg",
    "rotation",
    "degrees",
    3,
    higher_is_better=False,
    meaning=(
        "Mean angle between the found and the given orientations of the training views, after "
        "a similarity transform has aligned positions and axes"
    ),
)
POSITION = Measure(
    "position_percent",
    "position",
    "%",
    3,
    higher_is_better=False,
    meaning=(
        "Mean distance between the found and the given positions of the training views, in "
        "percent of the cameras' mean distance from their center, after a similarity transform "
        "has aligned them"
    ),
)


def pose_scores(found: Tensor, given: Tensor) -> tuple[dict[str, float], Curve]:
    """Errors of poses, ``(views, 4, 4)``, and the rotation of each as a curve."""
    difference = pose_difference(found, given)
    scores = {
        ROTATION.name: float(difference.degrees.mean()),
        POSITION.name: 100 * float(difference.distances.mean()),
    }
    numbers = list(range(len(found)))
    title, degrees = "Rotation of each view", difference.degrees.tolist()
    return scores, Curve(title, "training view", "degrees from the given pose", numbers, degrees)


def notes_on_poses(
    results: Sequence[Result], start: Tensor, given: Tensor
) -> Iterator[str | Doubt]:
    """Say how far poses were off, whether they were found, and how test views are placed.

    Args:
        results: fits.
        start: poses at which they began, ``(views, 4, 4)``.
        given: poses of the file; those at the start, if these are not disturbed.
    """
    degrees, distances = pose_difference(start, given)
    percent = 100 * float(distances.mean())
    yield (
        f"poses were {float(degrees.mean()):.2f} degrees and {percent:.2f}% off at the "
        "start, after alignment"
    )
    for fit in results:
        if (aligned := fit.details.get("psnr_db_at_aligned_poses")) is None:
            continue
        position = fit.scores.get(POSITION.name, 0.0)
        if start is not given and position > percent / 2:
            reason = f"did not find the poses ({position:.2f}% off; {percent:.2f}% at the start)"
            yield Doubt(fit.name, reason, "Try more --steps")
        yield (
            f"{fit.name}: the poses of test views are refined too; without that, they score "
            f"{aligned:.2f} dB"
        )
