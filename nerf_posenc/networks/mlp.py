"""The small ReLU network that takes an encoding's features."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nerf_posenc.core.checks import require_counts, without_autocast

if TYPE_CHECKING:
    from jaxtyping import Float

# Layers of more inputs read features.
_MOST_COORDINATES = 4


class MLP(nn.Sequential):
    """Fully connected ReLU network with a sigmoid output.

    ``depth`` hidden layers of ``width`` units, He-uniform weights and zero biases (He et
    al. 2015, section 2.2), then a linear layer to ``out_dim`` values in (0, 1).

    Args:
        in_dim: number of inputs, an encoder's ``out_dim``.
        out_dim: number of outputs.
        width: units in each hidden layer.
        depth: number of hidden layers, 1 or more.
        generator: random number generator of the initial weights; None is torch's own.

    Raises:
        ValueError: If a count is below 1.

    Examples:
        >>> MLP(40, 3)(torch.rand(8, 40)).shape
        torch.Size([8, 3])
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        width: int = 256,
        depth: int = 4,
        generator: torch.Generator | None = None,
    ) -> None:
        require_counts(in_dim=in_dim, out_dim=out_dim, width=width, depth=depth)
        layers: list[nn.Module] = []
        for layer_in in [in_dim] + [width] * (depth - 1):
            linear = seeded_linear(layer_in, width, generator)
            nn.init.kaiming_uniform_(linear.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(linear.bias)
            layers += [linear, nn.ReLU(inplace=True)]
        super().__init__(*layers, seeded_linear(width, out_dim, generator), nn.Sigmoid())
        self.in_dim = in_dim
        self.out_dim = out_dim

    @torch.no_grad()
    def start_at(self, mean: Float[Tensor, " out_dim"]) -> None:
        """Set the output bias so that an unfitted network predicts the targets' mean, not 0.5.

        On a page of text, which is nearly all white, the first steps would otherwise all push in
        one direction, and a learning rate that suits photographs kills every ReLU.

        Args:
            mean: mean of each output's targets, in [0, 1].
        """
        output = self[-2]
        assert isinstance(output, nn.Linear)
        # A sigmoid that starts at 0 or 1 hardly learns.
        output.bias.copy_(torch.logit(mean.clamp(0.01, 0.99)))


class CoordinateLinear(nn.Linear):
    """Linear layer that autocast leaves in the type of its weights.

    bfloat16 has 8 bits: it would round the coordinates of 512 columns of pixels to 386 different
    numbers.
    """

    def forward(self, x: Float[Tensor, "*batch in_dim"]) -> Float[Tensor, "*batch out_dim"]:
        """Map coordinates to the first hidden layer."""
        with without_autocast(x):
            return super().forward(x.to(self.weight.dtype))


def seeded_linear(
    in_dim: int,
    out_dim: int,
    generator: torch.Generator | None = None,
    *,
    dtype: torch.dtype | None = None,
) -> nn.Linear:
    """Make a linear layer with torch's own initialization, drawn from a generator.

    A layer of at most 4 inputs reads coordinates; see `CoordinateLinear`.

    Args:
        in_dim: number of inputs.
        out_dim: number of outputs.
        generator: random number generator; None is torch's own.
        dtype: type of the weights; None is the default type.
    """
    kind = CoordinateLinear if in_dim <= _MOST_COORDINATES else nn.Linear
    # Without its own initialization, which would draw from the global generator. torch's skip_init
    # takes half a second the first time, since it builds on the meta device.
    layer = kind.__new__(kind)
    nn.Module.__init__(layer)
    layer.in_features, layer.out_features = in_dim, out_dim
    layer.weight = nn.Parameter(torch.empty(out_dim, in_dim, dtype=dtype, device="cpu"))
    layer.bias = nn.Parameter(torch.empty(out_dim, dtype=dtype, device="cpu"))
    nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
    bound = 1 / math.sqrt(in_dim)
    nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    return layer


def num_parameters(module: nn.Module) -> int:
    """Number of trainable parameters of a module; complex ones count twice."""
    return sum(
        p.numel() * (2 if p.is_complex() else 1) for p in module.parameters() if p.requires_grad
    )


def hidden_matrices(module: nn.Module) -> list[Tensor]:
    """Real weight matrices of all linear layers but the last: those that Muon steps."""
    linears = [m for m in module.modules() if isinstance(m, nn.Linear)]
    return [linear.weight for linear in linears[:-1] if not linear.weight.is_complex()]
