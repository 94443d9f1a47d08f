"""Options of a run that fits images, and which encodings it fits unless they are named."""

from dataclasses import dataclass
from typing import Annotated, Literal, Never

from nerf_posenc.training import recipes
from nerf_posenc_app.in_memory import InMemory
from nerf_posenc_app.kinds.coordinates import check_encodings, suiting_encodings
from nerf_posenc_app.kinds.image.interpolation import INTERPOLATIONS
from nerf_posenc_app.options import LEFT_OPEN, Open, PixelOptions, Range, Shown, require

REFERENCES = (*INTERPOLATIONS, "given", "linear", "rbf")
"""Names of the references without training."""

# Images of more pixels are not fitted on raw coordinates: to render them takes minutes and shows
# little.
WITHOUT_BASELINE = 8 << 20


@dataclass(frozen=True, kw_only=True)
class ImageOptions(PixelOptions[Open]):
    """Fit an image without and with an encoding.

    Encodings: none fourier gaussian hash; networks that need no encoding: siren finer gauss
    wire mfn. Without --encodings these are fitted: none fourier hash; with --bands, none fourier;
    with --held-out or --observed, all four. auto fits none and what is best in short fits.

      train_fit.py --image photo.jpg --bands 10
      train_fit.py --image photo.jpg --bands 4 6 8 10
      train_fit.py --image photo.jpg --encodings none siren --held-out --seeds 3
    """

    image: Annotated[str, InMemory] = "cat"
    """Image file; the name of an image of the folder scenes: cat, star, zone-plate,
    bandlimited; or FILE.py with a function image(size)."""

    light: bool = False
    """Fit floating-point values as linear light even if the file does not declare it."""

    held_out: bool = False
    """Fit every second pixel of every second row and score the pixels between them."""

    mask: Annotated[str | None, InMemory] = None
    """Gray image: only the pixels that are white in it are fitted and scored. alpha uses the
    opacity of --image."""

    observed: Annotated[str | None, InMemory] = None
    """Pixels to fit; the others are scored. A share (0.1), columns:0.2, or a mask file."""

    references: tuple[str, ...] | Open = LEFT_OPEN
    """Methods without training to compare with: bilinear, bicubic, lanczos, linear (with
    --held-out); given, linear, rbf (with --observed)."""

    num_bands: Annotated[
        int | tuple[int, ...] | Literal["auto"] | Open, Range(1, 100), Shown("bands")
    ] = LEFT_OPEN  # type: ignore[assignment]
    """Frequency bands L of fourier: sine and cosine of 2^k pi x for k = 0 ... L-1 (default:
    1 + floor(log2(3N/8)) for N fitted pixels along the longer side). Each of several values gets a
    fit; auto chooses by short fits."""

    sigma: Annotated[
        float | tuple[float, ...] | Literal["auto"] | None, Range(0, 1e6, is_open=True)
    ] = None  # type: ignore[assignment]
    """Standard deviation of the frequencies of gaussian, in cycles per unit (default: 0.09 of
    the Nyquist frequency). Each of several values gets a fit; auto chooses by held-out
    pixels."""

    compile: bool = False
    """Compile the model with torch.compile, which pays off in long fits."""

    def check(self: "ImageOptions") -> None:
        """Check ranges, that no two options exclude each other, and that the encodings suit."""
        names = self.encodings or default_encodings(self, 0)
        if "auto" in names:
            require(names == ("auto",), "--encodings auto stands alone; leave out the other names")
            names = tuple(recipes.ENCODINGS)
        suiting = [*suiting_encodings(), "auto"]
        check_encodings(self, "an image", suiting=suiting, built=names)
        super().check()
        for option, values in (("--bands", self.num_bands), ("--sigma", self.sigma)):
            require(values != (), f"{option} needs a number, several numbers or auto")
        require(
            self.observed is None or not self.held_out,
            "--observed and --held-out exclude each other",
        )
        unknown = [name for name in self.references or () if name not in REFERENCES]
        require(
            not unknown,
            f"--references: no reference {', '.join(unknown)}; known are {', '.join(REFERENCES)}",
        )


ImageConfig = ImageOptions[Never]


def default_encodings(options: ImageOptions, num_pixels: int) -> tuple[str, ...]:
    """Encodings to fit if none are named.

    Args:
        options: options of the run.
        num_pixels: pixels to fit; 0 if they are not known yet.
    """
    if options.held_out or options.observed:
        return ("none", "fourier", "gaussian", "hash")
    has_grid = options.num_bands is None
    names = ("none", "fourier", "hash") if has_grid else ("none", "fourier")
    if num_pixels > WITHOUT_BASELINE:
        return names[1:]
    return names
