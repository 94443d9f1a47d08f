"""Options of radiance fields."""

from dataclasses import dataclass
from typing import Annotated, Literal, Never

from nerf_posenc.core.checks import unknown_name
from nerf_posenc.radiance.build import FIELDS
from nerf_posenc_app.in_memory import InMemory
from nerf_posenc_app.kinds.coordinates import check_encodings
from nerf_posenc_app.options import LEFT_OPEN, Open, PixelOptions, Range, Shown, require

FIELD_HELP = (
    f"Radiance field: {'; '.join(f'{name}, {row.about}' for name, row in FIELDS.items())}. The "
    "default is mlp for images with an opacity and otherwise proposal, which also fits the "
    "background of a scene. auto gives the best images in the shortest time: proposal with a hash "
    "grid."
)
FieldOption = Annotated[str | Open, Shown(text=FIELD_HELP)]
"""Name of a row of ``FIELDS``, or ``auto``."""


@dataclass(frozen=True, kw_only=True)
class ViewsOptions(PixelOptions[Open]):
    """Options of radiance fields, whatever the source of their views."""

    field: FieldOption[Open] = LEFT_OPEN

    background: Literal["auto", "white", "black", "random"] = "auto"
    """Background color. auto is white for images with an opacity and otherwise random during
    training, so that empty space is not learned as a white wall."""

    exposure: bool = False
    """Learn one gain per photograph and color channel, for captures with automatic exposure;
    needs --field proposal or auto."""

    refine_poses: bool = False
    """Learn pose corrections together with the field, for poses that are known to about 15
    degrees; needs --field proposal or auto. The encoding opens from coarse to fine during the
    first 40% of the fit, over random backgrounds; then the field restarts in full detail."""

    disturb_poses: Annotated[float, Range(0, 0.5)] = 0.0
    """Standard deviation of noise to add to the training poses, in radians and in halves of the
    scene's size; it measures what --refine-poses recovers."""

    test_views: Annotated[int, Range(1)] = 25
    """Number of held-out views to score, evenly spread over all of them."""

    turntable: Annotated[int, Range(0, 10_000)] = 20
    """Number of frames of the turntable video; 0 turns off this video and the orbit on the
    page."""

    def check(self: "ViewsOptions") -> None:
        """Check ranges, and that the encodings suit the field."""
        field, row = self.field, FIELDS.get(self.field or "")
        require(
            field in (None, "auto") or row is not None,
            f"--field: {unknown_name('field', field, ['auto', *FIELDS])}",
        )
        require(
            not self.refine_poses or row is None or row.takes_poses,
            f"--refine-poses is for --field {_fields_that('takes_poses')}",
        )
        require(
            not self.exposure or row is None or row.takes_exposures,
            f"--exposure is for --field {_fields_that('takes_exposures')}",
        )
        is_auto = field == "auto"
        require(
            not (is_auto and self.encodings),
            "--field auto chooses the encoding; leave --encodings out",
        )
        row = row or FIELDS["proposal" if is_auto else "mlp"]
        suiting = row.encodings()
        others = [name for name in self.encodings or () if name not in suiting]
        mlp = [name for name in others if name in FIELDS["mlp"].encodings()]
        require(not mlp, f"--field {field} does not take {', '.join(mlp)}; use --field mlp")
        # Of auto the last, which is the best.
        built = self.encodings or row.default_encodings[-1 if is_auto else 0 :]
        what = f"--field {field}" if field else "a scene"
        check_encodings(self, what, suiting=suiting, built=built)
        super().check()


@dataclass(frozen=True, kw_only=True)
class SceneOptions(ViewsOptions[Open]):
    """Fit a radiance field without and with an encoding.

    Encodings: none fourier gaussian hash. The default is none fourier, with --field proposal
    also hash. Photographs without cameras: --photos FOLDER, of the companion.

      train_fit.py --scene FOLDER
      train_fit.py --scene FOLDER --encodings none fourier hash
      train_fit.py --scene FOLDER --field auto --seconds 300
    """

    scene: Annotated[str, InMemory] = "spheres"
    """Folder of posed images; a scene of the folder scenes: blocks, cloud, spheres; or
    FILE.py with a function scene(size)."""


SceneConfig = SceneOptions[Never]


def _fields_that(flag: str) -> str:
    """Names of the fields that do something, and auto, for a message."""
    names = [name for name, row in FIELDS.items() if getattr(row, flag)]
    return f"{', '.join(names)} or auto"
