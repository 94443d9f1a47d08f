"""Coordinate networks: the small MLP behind an encoder, and those that need none."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from jaxtyping import Float, Inexact
from torch import Tensor, nn

from nerf_posenc.core.checks import require_counts


class MLP(nn.Sequential):
    """Fully connected ReLU network with a sigmoid output.

    ``depth`` hidden layers of ``width`` units, He-uniform weights and zero biases (He et
    al. 2015, section 2.2), then a linear layer to ``out_dim`` values in (0, 1).

    Args:
        in_dim: number of inputs, an encoder's ``out_dim``.
        out_dim: number of outputs.
        width: units in each hidden layer.
        depth: number of hidden layers, 1 or more.

    Raises:
        ValueError: where a count is below 1.

    Examples:
        >>> MLP(40, 3)(torch.rand(8, 40)).shape
        torch.Size([8, 3])
    """

    def __init__(self, in_dim: int, out_dim: int, *, width: int = 256, depth: int = 4) -> None:
        require_counts(in_dim=in_dim, out_dim=out_dim, width=width, depth=depth)
        layers: list[nn.Module] = []
        for layer_in in [in_dim] + [width] * (depth - 1):
            linear = nn.Linear(layer_in, width)
            nn.init.kaiming_uniform_(linear.weight, nonlinearity="relu")
            nn.init.zeros_(linear.bias)
            layers += [linear, nn.ReLU(inplace=True)]
        super().__init__(*layers, nn.Linear(width, out_dim), nn.Sigmoid())
        self.in_dim = in_dim
        self.out_dim = out_dim

    @torch.no_grad()
    def start_at(self, mean: Float[Tensor, " out_dim"]) -> None:
        """Let the outputs of an unfitted network lie around the targets' mean, in place of 0.5.

        On a page of text, white but for a few pixels, the first steps would otherwise all push
        the same way, and a rate that suits photographs kills every rectifier.

        Args:
            mean: of each output's targets, in [0, 1].
        """
        output = self[-2]
        assert isinstance(output, nn.Linear)
        # A sigmoid that starts at 0 or 1 hardly learns.
        output.bias.copy_(torch.logit(mean.clamp(0.01, 0.99)))


class Sine(nn.Module):
    """The activation of SIREN, sin(omega z) (Sitzmann et al. 2020, equation 5)."""

    def __init__(self, omega: float = 30.0) -> None:
        super().__init__()
        self.omega = omega

    def forward(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply to every value."""
        return torch.sin(self.omega * z)


class FinerSine(nn.Module):
    """The activation of FINER, sin(omega (|z| + 1) z) (Liu et al. 2024).

    As in the authors' code, no gradient goes through ``|z| + 1``.
    """

    def __init__(self, omega: float = 30.0) -> None:
        super().__init__()
        self.omega = omega

    def forward(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply to every value."""
        return torch.sin(self.omega * (z.detach().abs() + 1) * z)


class GaussianBump(nn.Module):
    """The Gaussian activation, exp(-(scale z)^2) (Ramasinghe and Lucey 2022)."""

    def __init__(self, scale: float = 30.0) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply to every value."""
        return torch.exp(-((self.scale * z) ** 2))


class GaborWavelet(nn.Module):
    """The activation of WIRE, exp(i omega z - |scale z|^2) (Saragadam et al. 2023).

    For real values it is complex; ``real`` keeps its real part.
    """

    def __init__(self, omega: float = 20.0, scale: float = 10.0, *, real: bool = False) -> None:
        super().__init__()
        self.omega = omega
        self.scale = scale
        self.real = real

    def forward(self, z: Inexact[Tensor, "*shape"]) -> Inexact[Tensor, "*shape"]:
        """Apply to every value."""
        if self.real:
            return torch.cos(self.omega * z) * torch.exp(-((self.scale * z) ** 2))
        return torch.exp(1j * self.omega * z - (self.scale * z.abs()) ** 2)


class FromSymmetric(nn.Module):
    """Real values around 0, in [-1, 1], as values in [0, 1]: (y + 1) / 2."""

    def forward(self, y: Inexact[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Map every value; of complex ones the real part."""
        return (y.real + 1) / 2 if y.is_complex() else (y + 1) / 2


def siren(
    in_dim: int, out_dim: int, *, width: int = 256, depth: int = 4, omega: float = 30.0
) -> nn.Sequential:
    """SIREN on raw coordinates in [-1, 1] (Sitzmann et al. 2020, section 3.2).

    Weights are uniform in ±1/n in the first layer and ±sqrt(6/n)/omega in the others, n being
    the layer's inputs; the linear output is fitted to values in [-1, 1].

    Args:
        in_dim: number of coordinates.
        out_dim: number of outputs, in [0, 1].
        width: units in each hidden layer.
        depth: number of hidden layers, 1 or more.
        omega: factor of every sine's argument.

    Raises:
        ValueError: where a count is below 1.
    """
    return _sine_network(lambda: Sine(omega), omega, in_dim, out_dim, width, depth)


def finer(
    in_dim: int, out_dim: int, *, width: int = 256, depth: int = 4, omega: float = 30.0
) -> nn.Sequential:
    """FINER: SIREN with sines whose frequency grows with their argument (Liu et al. 2024).

    Args:
        in_dim: number of coordinates.
        out_dim: number of outputs, in [0, 1].
        width: units in each hidden layer.
        depth: number of hidden layers, 1 or more.
        omega: factor of every sine's argument.

    Raises:
        ValueError: where a count is below 1.
    """
    return _sine_network(lambda: FinerSine(omega), omega, in_dim, out_dim, width, depth)


def gauss(
    in_dim: int, out_dim: int, *, width: int = 256, depth: int = 4, scale: float = 30.0
) -> nn.Sequential:
    """Network of Gaussian bumps on raw coordinates, with torch's own first weights.

    Args:
        in_dim: number of coordinates.
        out_dim: number of outputs, in [0, 1].
        width: units in each hidden layer.
        depth: number of hidden layers, 1 or more.
        scale: of every bump; 30 is FINER's comparison's, 10 WIRE's.

    Raises:
        ValueError: where a count is below 1.
    """
    require_counts(in_dim=in_dim, out_dim=out_dim, width=width, depth=depth)
    return _plain_network(lambda: GaussianBump(scale), in_dim, out_dim, width, depth)


def wire(
    in_dim: int,
    out_dim: int,
    *,
    width: int = 256,
    depth: int = 4,
    omega: float = 20.0,
    scale: float = 10.0,
    real: bool = False,
) -> nn.Sequential:
    """WIRE: complex Gabor wavelets on raw coordinates (Saragadam et al. 2023).

    Complex layers have width / sqrt(2) units, so that the numbers to train are as many.

    Args:
        in_dim: number of coordinates.
        out_dim: number of outputs, in [0, 1].
        width: units in each hidden layer of a real network of the same size.
        depth: number of hidden layers, 1 or more.
        omega: frequency of every wavelet.
        scale: narrowness of every wavelet.
        real: keep the wavelets' real part and real layers.

    Raises:
        ValueError: where a count is below 1.
    """
    require_counts(in_dim=in_dim, out_dim=out_dim, width=width, depth=depth)

    def wavelet() -> nn.Module:
        return GaborWavelet(omega, scale, real=real)

    if real:
        return _plain_network(wavelet, in_dim, out_dim, width, depth)
    units = max(1, round(width / math.sqrt(2)))
    layers: list[nn.Module] = [nn.Linear(in_dim, units), wavelet()]
    for _ in range(depth - 1):
        layers += [nn.Linear(units, units, dtype=torch.complex64), wavelet()]
    output = nn.Linear(units, out_dim, dtype=torch.complex64)
    return nn.Sequential(*layers, output, FromSymmetric())


class MultiplicativeFilterNetwork(nn.Module):
    r"""FourierNet: products of sines of the coordinates, with linear maps between.

    $z_1 = g_1(x)$, $z_{i+1} = g_{i+1}(x) \circ (W_i z_i + b_i)$ with
    $g_i(x) = \sin(\omega_i x + \phi_i)$ (Fathony et al. 2021), first weights as in the
    authors' code.

    Args:
        in_dim: number of coordinates.
        out_dim: number of outputs, in [0, 1].
        width: units in each layer.
        depth: number of filters, 1 or more.
        input_scale: reach of the frequencies.

    Raises:
        ValueError: where a count is below 1.
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        width: int = 256,
        depth: int = 4,
        input_scale: float = 256.0,
    ) -> None:
        super().__init__()
        require_counts(in_dim=in_dim, out_dim=out_dim, width=width, depth=depth)
        filters = [nn.Linear(in_dim, width) for _ in range(depth)]
        linears = [nn.Linear(width, width) for _ in range(depth - 1)]
        with torch.no_grad():
            for layer in filters:
                layer.weight *= input_scale / math.sqrt(depth)
                layer.bias.uniform_(-math.pi, math.pi)
            for layer in linears:
                layer.weight.uniform_(-1 / math.sqrt(width), 1 / math.sqrt(width))
        self.filters = nn.ModuleList(filters)
        self.linears = nn.ModuleList(linears)
        self.output = nn.Sequential(nn.Linear(width, out_dim), FromSymmetric())

    def forward(self, x: Float[Tensor, "*batch in_dim"]) -> Float[Tensor, "*batch out_dim"]:
        """Map coordinates to values."""
        z = torch.sin(self.filters[0](x))
        for i, linear in enumerate(self.linears, start=1):
            z = torch.sin(self.filters[i](x)) * linear(z)
        values: Tensor = self.output(z)
        return values


Network = Callable[..., nn.Module]

NETWORKS: Mapping[str, Network] = MappingProxyType(
    {
        "relu": MLP,
        "siren": siren,
        "finer": finer,
        "gauss": gauss,
        "wire": wire,
        "mfn": MultiplicativeFilterNetwork,
    }
)
"""Networks by name: each is called with ``in_dim, out_dim, width=, depth=``."""


def num_parameters(module: nn.Module) -> int:
    """Count the trainable numbers of a module, complex ones twice."""
    return sum(
        p.numel() * (2 if p.is_complex() else 1) for p in module.parameters() if p.requires_grad
    )


def hidden_matrices(module: nn.Module) -> list[Tensor]:
    """Real weight matrices of all linear layers but the last, the ones that Muon is made for."""
    linears = [m for m in module.modules() if isinstance(m, nn.Linear)]
    return [linear.weight for linear in linears[:-1] if not linear.weight.is_complex()]


def _sine_network(
    activation: Callable[[], nn.Module],
    omega: float,
    in_dim: int,
    out_dim: int,
    width: int,
    depth: int,
) -> nn.Sequential:
    require_counts(in_dim=in_dim, out_dim=out_dim, width=width, depth=depth)
    network = _plain_network(activation, in_dim, out_dim, width, depth)
    linears = [layer for layer in network if isinstance(layer, nn.Linear)]
    for i, linear in enumerate(linears):
        reach = 1 / in_dim if i == 0 else math.sqrt(6 / linear.in_features) / omega
        nn.init.uniform_(linear.weight, -reach, reach)
    return network


def _plain_network(
    activation: Callable[[], nn.Module], in_dim: int, out_dim: int, width: int, depth: int
) -> nn.Sequential:
    """Linear layers with the activation between and an output for values in [-1, 1]."""
    layers: list[nn.Module] = []
    for layer_in in [in_dim] + [width] * (depth - 1):
        layers += [nn.Linear(layer_in, width), activation()]
    return nn.Sequential(*layers, nn.Linear(width, out_dim), FromSymmetric())
