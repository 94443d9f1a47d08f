"""The name of a fit, and names of the files that show it."""

import re
from dataclasses import dataclass, replace
from urllib.parse import quote

SEED = "seed"
"""Name of the sweep over repetitions of a fit with other seeds."""
BASELINE = "none"
"""Name of the fit that gains are relative to: the one without an encoding."""
GUESS = "guess"
"""Name of the reference that no model was trained for: the most frequent answer."""
GIVEN = "given"
"""Name of the reference that shows what was fitted, where that is not the original."""


@dataclass(frozen=True)
class FitName:
    """Name of a fit among those of its run or of a comparison of runs.

    As text, for tables, pages and command lines, it reads ``fourier``, ``fourier-8`` or ``run:
    fourier-8``.

    Attributes:
        encoding: name of the encoding, or of a reference.
        swept: option and value, if the run fits several values of it, such as ``num_bands``.
        run: name of the run in a comparison; None within a run.
    """

    encoding: str
    swept: tuple[str, float] | None = None
    run: str | None = None

    def __str__(self) -> str:
        value = "" if self.swept is None else f"-{self.swept[1]:g}"
        return f"{'' if self.run is None else f'{self.run}: '}{self.encoding}{value}"

    @property
    def extra_seed(self) -> int:
        """Number added to the seed of the run; 0 for the fit that is not a repetition."""
        return int(self.swept[1]) if self.swept is not None and self.swept[0] == SEED else 0

    @property
    def in_run(self) -> "FitName":
        """The name within its run."""
        return replace(self, run=None)

    @property
    def stem(self) -> str:
        """Part of the names of its files."""
        return file_stem(str(self.in_run))


def file_stem(name: str) -> str:
    """Part of a file's name that any file system takes; ``urllib.parse.unquote`` gives the name."""
    # A file whose name begins with a dot is hidden.
    return re.sub(r"^\.", "%2E", quote(name, safe=""))


def block_files(count: int, suffix: str = ".png") -> list[tuple[str, str]]:
    """File of the original, and pattern of the fits' files by their stems, for each of some blocks.

    Args:
        count: number of views, or of other blocks with files, of a fit.
        suffix: suffix of the files.
    """
    if count == 1:
        return [(f"original{suffix}", f"{{}}{suffix}")]
    return [(f"truth/view_{i:03}{suffix}", f"{{}}/view_{i:03}{suffix}") for i in range(count)]


def slug(title: str) -> str:
    """Part of a file's name for a heading."""
    return "".join(c if c.isalnum() else "_" for c in title.lower()).strip("_")


def video_stem(title: str, name: FitName) -> str:
    """Name of a fit's video without its suffix."""
    return f"{slug(title)}_{name.stem}"
