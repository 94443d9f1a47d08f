"""A field whose density and color are formulas, to be rendered against what they integrate to."""

from torch import Tensor

from nerf_posenc.core.encoder import Identity
from nerf_posenc.radiance.fields import RadianceField


class FormulaField(RadianceField):
    """Base class of fields that give ``density`` and ``color`` of positions.

    Attributes:
        queried: positions that it was asked for, a tensor for each call.
        variances: their variances, if they had any.
    """

    def __init__(self) -> None:
        super().__init__(Identity(3), Identity(3), width=1, depth=1, feature_dim=1, head_width=1)
        self.queried: list[Tensor] = []
        self.variances: list[Tensor] = []

    def color(self, positions: Tensor) -> Tensor:
        """Colors in [0, 1] of positions in [-1, 1]."""
        return (positions + 1) / 2

    def forward(
        self,
        positions: Tensor,
        directions: Tensor,
        variance: Tensor | None = None,
        *,
        progress: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Density and color."""
        self.queried.append(positions)
        if variance is not None:
            self.variances.append(variance)
        return self.density(positions), self.color(positions)
