"""One row of the table of equivalents."""

import re
from typing import NamedTuple


class Equivalent(NamedTuple):
    """A line of code that gives the numbers of other libraries and models.

    Attributes:
        what: libraries, models and functions.
        line: the code; its names are those of nerf_posenc and its parts, ``torch``, ``F`` for
            ``torch.nn.functional``, ``pi``, inputs, sizes, and what a checkpoint has.
        vector: numbers of the library in tests/data, as ``file/entry/array``.
        setup: code that runs before the line, as to load the library's weights.
        tolerance: largest difference in float64.
        remark: why the tolerance is not 1e-6, or what to know.
    """

    what: str
    line: str
    vector: str
    setup: str = ""
    tolerance: float = 1e-6
    remark: str = ""

    @property
    def code(self) -> str:
        """The line, with the encoder that the setup makes."""
        made = re.search(r"^encoder = (.*)$", self.setup, re.MULTILINE)
        return re.sub(r"\bencoder\b", lambda _: made[1], self.line) if made else self.line


FLOAT32 = "the library's bands or positions are float32"
