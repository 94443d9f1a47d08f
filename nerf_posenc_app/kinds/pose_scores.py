"""How far poses that are refined or disturbed are from those of the files, in numbers and words."""

from collections.abc import Iterator, Sequence

from torch import Tensor

from nerf_posenc.radiance.poses import is_one_pose, pose_difference
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
    meaning="Angle between the orientations of the training views as found and as given, mean over "
    "the views, after a similarity has aligned their positions and axes",
)
POSITION = Measure(
    "position_percent",
    "position",
    "%",
    3,
    higher_is_better=False,
    meaning="Distance between the positions of the training views as found and as given, mean over "
    "the views, in hundredths of the cameras' mean distance from their middle, after a similarity "
    "has aligned them",
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
    return scores, Curve(title, "training view", "degrees from as given", numbers, degrees)


def notes_on_poses(
    results: Sequence[Result], start: Tensor, given: Tensor
) -> Iterator[str | Doubt]:
    """Say how far poses were off, whether they were found, and how test views are placed.

    Args:
        results: fits.
        start: poses at which they began, ``(views, 4, 4)``.
        given: poses of the file; those at the start, if these are not disturbed.
    """
    if is_one_pose(start):
        yield (
            "all training views began at one pose; from there, poses of views are found that look "
            "the same way and were taken from beside one another"
        )
    percent = 0.0
    if not is_one_pose(given):
        degrees, distances = pose_difference(start, given)
        percent = 100 * float(distances.mean())
        yield (
            f"poses were {float(degrees.mean()):.2f} degrees and {percent:.2f}% off at the "
            "start, once aligned"
        )
    for fit in results:
        if (aligned := fit.details.get("psnr_db_at_aligned_poses")) is None:
            continue
        position = fit.scores.get(POSITION.name, 0.0)
        if start is not given and position > percent / 2:
            reason = f"did not find the poses ({position:.2f}% off; {percent:.2f}% at the start)"
            yield Doubt(fit.name, reason, "Try more --steps")
        yield (
            f"{fit.name}: test views are refined too; left where the training views "
            f"put them they have {aligned:.2f} dB"
        )
