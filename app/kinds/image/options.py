"""Options of a run that fits images, and which encodings it fits unless they are named."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from app.kinds.coordinates import check_encodings, suiting_encodings
from app.options import PixelOptions, Range, UsageError, require
from baselines import INTERPOLATIONS
from nerf_posenc.training import recipes
from nerf_posenc.training.coordinate_model import CoordinateModel

REFERENCES = (*INTERPOLATIONS, "patch-network", "local-cosine")
"""What a fit is compared with, without training."""

# From here on raw coordinates are not fitted: to render them takes minutes and shows little. A
# local cosine series takes seconds, and shows what as many parameters can store.
WITHOUT_BASELINE = 8 << 20

# Options that leave --encodings auto nothing to choose, or have no forecasts.
_CHOSEN_BY_AUTO = {
    "--images": "images",
    "--bands": "num_bands",
    "--sigma": "sigma",
    "--max-resolution": "max_resolution",
    "--network": "network",
    "--parameters": "num_parameters",
    "--width": "width",
    "--depth": "depth",
}


@dataclass(frozen=True, kw_only=True)
class ImageOptions(PixelOptions):
    """Fit an image without and with an encoding."""

    image: str = "cat"
    """Image file, or a bundled sample."""

    images: tuple[str, ...] | None = None
    """Several images, or folders of images, each with a run of its own."""

    held_out: bool = False
    """Fit every second pixel of every second row, and evaluate on those between."""

    references: tuple[str, ...] | None = None
    """What fits are compared with, without training: bilinear, bicubic, lanczos, patch-network
    (with --held-out), local-cosine (with --parameters and for large images)."""

    num_bands: Annotated[
        int | tuple[int, ...] | Literal["auto"] | None,
        Range(1, 100),
        tyro.conf.arg(name="bands", metavar="INT ...|auto"),
    ] = None  # type: ignore[assignment]
    """Bands of fourier: sin, cos of 2^k pi x for k = 0 ... N-1; 10, or fewer for a small image.
    Several: a fit with each; auto: every second one up to the image's Nyquist frequency."""

    sigma: Annotated[
        float | tuple[float, ...] | Literal["auto"] | None,
        Range(0, 1e6, is_open=True),
        tyro.conf.arg(metavar="FLOAT ...|auto"),
    ] = None  # type: ignore[assignment]
    """Standard deviation of gaussian in cycles per unit; 0.09 of Nyquist. Several: a fit with
    each; auto: by held-out pixels."""

    network: str = "relu"
    """Network after the encoding: relu, or for raw coordinates siren, finer, gauss, wire or mfn."""

    num_parameters: Annotated[int | None, Range(1000), tyro.conf.arg(name="parameters")] = None
    """Fit the largest models within N parameters, and print their bits per pixel."""

    max_resolution: Annotated[
        int | None, Range(16, 1 << 17), tyro.conf.arg(name="max-resolution", aliases=["--finest"])
    ] = None
    """Nodes per axis of hash's last level; one per pixel."""

    compile: bool = False
    """Compile the model before the first step, for a long fit."""

    def check(self) -> None:
        """Check ranges, and that no two options exclude each other."""
        super().check()
        names = (self.image, *(self.images or ()))
        require("" not in names, "--image needs a path or a name")
        require(self.images != (), "--images needs a path or a name")
        require(
            self.num_parameters is None or self.width is None,
            "--parameters chooses the width; give one of the two",
        )
        require(
            self.num_parameters is None or self.max_resolution is None,
            "--parameters chooses the sizes of a grid; give it or --max-resolution",
        )
        _check_encodings(self)
        unknown = [name for name in self.references or () if name not in REFERENCES]
        require(
            not unknown,
            f"--references: no reference {', '.join(unknown)}; known are {', '.join(REFERENCES)}",
        )

    def model(self, name: str) -> CoordinateModel:
        """Model of a fit."""
        encoding, _, value = name.partition("-")
        width, depth = recipes.get_recipe(encoding).layers
        num_bands = int(value) if value and encoding == "fourier" else self.num_bands
        sigma = float(value) if value and encoding == "gaussian" else self.sigma
        # The fits of several values are those of other encodings.
        return CoordinateModel(
            encoding,
            self.network,
            self.width or width,
            self.depth or depth,
            num_bands if isinstance(num_bands, int) else 1,
            sigma if isinstance(sigma, float) else None,
            self.num_parameters,
            self.max_resolution,
        )


def encoding_of(name: str) -> str:
    """Encoding of a fit, which is named ``fourier-8`` if there is one for each number of bands."""
    return name.partition("-")[0]


def swept_value(name: str) -> dict[str, float]:
    """Option and value of a fit that is one of several."""
    encoding, _, value = name.partition("-")
    return {{"fourier": "bands", "gaussian": "sigma"}[encoding]: float(value)} if value else {}


def fits_by_value(options: ImageOptions) -> tuple[str, ...]:
    """Names of the fits: one for each number of bands and each sigma, if there are several."""
    values = {"fourier": options.num_bands, "gaussian": options.sigma}
    names: list[str] = []
    for encoding in options.chosen:
        several = values.get(encoding)
        names += (
            [f"{encoding}-{value:g}" for value in several]
            if isinstance(several, tuple)
            else [encoding]
        )
    return tuple(names)


def _check_encodings(options: ImageOptions) -> None:
    """Check that the encodings suit images, and what is asked of them.

    Raises:
        UsageError: If they do not.
    """
    names = options.encodings or default_encodings(options, 0)
    if "auto" in names:
        require(names == ("auto",), "--encodings auto stands alone; leave out the other names")
        for option, field in _CHOSEN_BY_AUTO.items():
            require(
                getattr(options, field) == getattr(type(options), field),
                "--encodings auto chooses --bands, --sigma and --max-resolution for the default "
                f"network of one --image; leave out {option}",
            )
        return
    for name in ("local-cosine", "patch-network"):
        require(name not in names, f"{name} is a reference: --references {name}")
    suiting = [*suiting_encodings(), "auto"]
    check_encodings(options, "an image", suiting=suiting, default=names)
    require(
        options.max_resolution is None or "hash" in names,
        "--max-resolution is for the hash grid of an image: name hash in --encodings",
    )
    try:
        network = recipes.get_network(options.network)
        optimizer = network.optimizer if options.optimizer == "auto" else options.optimizer
        recipes.default_lr(options.network, optimizer)
    except ValueError as error:
        raise UsageError(f"--network: {error}") from None


def default_encodings(options: ImageOptions, num_pixels: int) -> tuple[str, ...]:
    """Encodings to fit if none are named.

    Args:
        options: options of the run.
        num_pixels: pixels to fit; 0 if they are not known yet.
    """
    if options.held_out:
        return ("none", "fourier", "gaussian", "hash")
    has_grid = options.num_bands is None and options.network == "relu"
    names = ("none", "fourier", "hash") if has_grid else ("none", "fourier")
    if num_pixels > WITHOUT_BASELINE and not options.images:
        return names[1:]
    return names
