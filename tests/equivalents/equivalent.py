"""A line of code and the numbers that it must give."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import nerf_posenc
from nerf_posenc import core, encoders, positional, presets
from tests.equivalents.vectors import expected, given


@dataclass(frozen=True)
class Equivalent:
    """A line of code and the numbers that it must give.

    Attributes:
        what: library, model or function that is reproduced.
        line: the code; its names are those of nerf_posenc and its parts, torch, pi, and what the
            library was given.
        vector: the numbers, as ``file/entry/array``.
        setup: code that loads the library's weights first.
        tolerance: largest difference in float64.
        remark: why the tolerance is not 1e-6, or what to know.
    """

    what: str
    line: str
    vector: str
    setup: str = ""
    tolerance: float = 1e-6
    remark: str = ""

    def evaluate(self, dtype: torch.dtype) -> Tensor:
        """What the line gives for inputs of this type."""
        names: dict[str, Any] = {"torch": torch, "math": math, "pi": math.pi}
        for module in (nerf_posenc, core, encoders, positional, presets):
            names |= {name: getattr(module, name) for name in dir(module)}
        for name, value in given(self.vector).items():
            names[name] = value.to(dtype) if value.is_floating_point() else value
        default = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            exec(self.setup, names)
            result: Tensor = eval(self.line, names)
        finally:
            torch.set_default_dtype(default)
        return result.detach()

    def error(self, dtype: torch.dtype) -> float:
        """Largest difference from the library's numbers."""
        ours, theirs = self.evaluate(dtype).double(), expected(self.vector)
        assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
        return float((ours - theirs).abs().max())


FLOAT32 = "the library's bands or positions are float32"
ROUNDED = "float32 numbers, rounded to 7 digits"
