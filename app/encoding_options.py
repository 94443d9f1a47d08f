"""Which encodings the options may name."""

from collections.abc import Sequence

import app.options
from app.parsing import UsageError
from nerf_posenc.core.encoder import unknown_name
from nerf_posenc.training.recipes import ENCODINGS


def check_names(encodings: Sequence[str] | None) -> None:
    """Refuse no names, and names given twice.

    Raises:
        UsageError: Saying which.
    """
    if encodings is not None and not encodings:
        raise UsageError(f"--encodings needs one name or more: {', '.join(ENCODINGS)}")
    if encodings is not None and len(set(encodings)) < len(encodings):
        raise UsageError("--encodings names an encoding twice; give each once")


def check_encodings(options: "app.options.Options") -> None:
    """Refuse encodings that are unknown, or that what is fitted does not take.

    Raises:
        UsageError: Naming those that it takes.
    """
    for encoding in options.fitted:
        if encoding not in ENCODINGS:
            known = unknown_name("encoding", encoding, _known(options))
            raise UsageError(f"--encodings: {known}")
    uses_sigma = [e for e in options.fitted if ENCODINGS[e].uses_sigma]
    if options.sigma == "auto" and not uses_sigma:
        raise UsageError("--sigma auto is for gaussian features; name gaussian in --encodings")
    if options.is_scene:
        _check_field(options)
        return
    for encoding in options.fitted:
        if not ENCODINGS[encoding].fits_images:
            raise UsageError(f"--encodings: {encoding} is for scenes, with --field factored")


def _known(options: "app.options.Options") -> list[str]:
    """Encodings that the image or the scene can have."""
    if options.is_scene:
        return [name for name, recipe in ENCODINGS.items() if options.scene_field in recipe.fields]
    return [*(name for name, recipe in ENCODINGS.items() if recipe.fits_images), "auto"]


def _check_field(options: "app.options.Options") -> None:
    field = options.scene_field
    unfit = [e for e in options.fitted if field not in ENCODINGS[e].fields]
    if unfit:
        is_for_small = all("small" in ENCODINGS[e].fields for e in unfit)
        mend = "use the small field" if is_for_small else "name others by --encodings"
        raise UsageError(
            f"--field {field} takes the encodings {', '.join(_known(options))}, not "
            f"{', '.join(unfit)}; {mend}"
        )
    if field == "factored" and options.bands is not None:
        raise UsageError(
            "--bands is for the fourier encoding, and --field factored has an encoding of its own; "
            "leave one of them out"
        )
