"""The sentence at the top of a page: what the encoding recovered, in numbers of the run."""

import math
from collections.abc import Sequence

from app.report.tables import BASELINE
from nerf_posenc.training.results import FieldResult

_TITLES = {
    "none": "A network on raw coordinates",
    "fourier": "Positional encoding",
    "gaussian": "Random Fourier features",
    "learned": "Learned Fourier features",
    "hash": "A hash grid",
    "dense": "A dense grid",
    "hash-internal": "A hash grid with values between the pixels",
    "local-cosine": "A local cosine series",
}
# These keep the network that the baseline has; after a grid the network is a smaller one.
_SAME_NETWORK = ("fourier", "gaussian", "learned")


def headline(results: Sequence[FieldResult], *, held_out: bool = False) -> str | None:
    """Say what the best encoding recovers beside raw coordinates, or beside interpolation.

    Args:
        results: the fits of one run.
        held_out: whether the PSNR is that of pixels between the fitted ones.

    Returns:
        A sentence with the numbers of the table, rounded; None if there is nothing to compare the
        best fit with: neither another fit nor, with pixels held out, interpolation.
    """
    baseline = next((result for result in results if result.encoding == BASELINE), None)
    others = [r for r in results if r is not baseline and r.is_fit and not math.isnan(r.psnr)]
    if baseline is None or not others or not math.isfinite(baseline.psnr):
        if held_out:
            return _beside_interpolation(results)
        return _side_by_side(others) if baseline is None else None
    best = max(others, key=lambda result: result.psnr)
    if math.isinf(best.psnr):
        reached = f"raw coordinates reach {baseline.psnr:.1f} dB"
        return f"{title(best.encoding)} recovers every pixel exactly, where {reached}"
    gained = best.psnr - baseline.psnr
    where = " between the fitted pixels" if held_out else ""
    verb = "recovers" if gained >= 0 else "loses"
    # Internal learning takes steps of its own.
    same_steps = best.steps == baseline.steps and best.encoding != "hash-internal"
    alike = [f"same {best.steps:,} steps"] if same_steps else []
    if best.encoding in _SAME_NETWORK:
        alike.insert(0, "same network")
    reference = _best_interpolation(results)
    beside = ""
    if reference is not None:
        beside = f"; {reference.encoding} interpolation reaches {reference.psnr:.1f} dB"
    if best.is_closed_form:
        return (
            f"{title(best.encoding)} reaches {best.psnr:.1f} dB{where}, a network on raw "
            f"coordinates {baseline.psnr:.1f} dB{beside}"
        )
    return (
        f"{title(best.encoding)} {verb} {abs(gained):.1f} dB{where}: {best.psnr:.1f} dB against "
        f"{baseline.psnr:.1f} dB without it" + "".join(f", {words}" for words in alike) + beside
    )


def _best_interpolation(results: Sequence[FieldResult]) -> FieldResult | None:
    """The best of what is shown beside the fits without training, if anything is."""
    references = [r for r in results if not r.is_fit and not math.isnan(r.psnr)]
    return max(references, key=lambda result: result.psnr, default=None)


def _side_by_side(fits: Sequence[FieldResult]) -> str | None:
    """Say what each of several fits reaches, the best first."""
    is_clear = all(fit.encoding in _TITLES and math.isfinite(fit.psnr) for fit in fits)
    if len(fits) < 2 or not is_clear:
        return None
    best, *others = sorted(fits, key=lambda result: result.psnr, reverse=True)
    names = [(title(other.encoding), other.psnr) for other in others]
    beside = [f"{name[0].lower()}{name[1:]} {psnr:.1f} dB" for name, psnr in names]
    return f"{title(best.encoding)} reaches {best.psnr:.1f} dB, {', '.join(beside)}"


def _beside_interpolation(results: Sequence[FieldResult]) -> str | None:
    """Say how far the best fit is ahead of interpolation, or behind it."""
    fits = [r for r in results if r.is_fit and math.isfinite(r.psnr)]
    reference = _best_interpolation(results)
    if not fits or reference is None:
        return None
    best = max(fits, key=lambda result: result.psnr)
    gained = best.psnr - reference.psnr
    side = "ahead of" if gained >= 0 else "behind"
    return (
        f"{title(best.encoding)} is {abs(gained):.1f} dB {side} {reference.encoding} interpolation "
        f"between the fitted pixels: {best.psnr:.1f} dB against {reference.psnr:.1f} dB"
    )


def title(encoding: str) -> str:
    """Name of an encoding at the beginning of a sentence."""
    return _TITLES.get(encoding, f"The encoding {encoding}")
