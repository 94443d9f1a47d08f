"""Coordinate networks: the small MLP behind an encoder."""

from torch import Tensor, nn


class MLP(nn.Sequential):
    """Fully connected ReLU network with a sigmoid output.

    ``depth`` hidden layers of ``width`` units, He-uniform weights and zero biases (He et
    al. 2015, equation 14), then a linear layer to ``out_dim`` values in (0, 1).

    Args:
        in_dim: number of inputs, an encoder's ``out_dim``.
        out_dim: number of outputs.
        width: units in each hidden layer.
        depth: number of hidden layers, 1 or more.

    Raises:
        ValueError: where a count is below 1.

    Example:
        >>> import torch
        >>> MLP(40, 3)(torch.rand(8, 40)).shape
        torch.Size([8, 3])
    """

    def __init__(self, in_dim: int, out_dim: int, *, width: int = 256, depth: int = 4) -> None:
        for name, count in dict(in_dim=in_dim, out_dim=out_dim, width=width, depth=depth).items():
            if count < 1:
                raise ValueError(f"{name} must be 1 or more; got {count}")
        layers: list[nn.Module] = []
        for layer_in in [in_dim] + [width] * (depth - 1):
            linear = nn.Linear(layer_in, width)
            nn.init.kaiming_uniform_(linear.weight, nonlinearity="relu")
            nn.init.zeros_(linear.bias)
            layers += [linear, nn.ReLU()]
        super().__init__(*layers, nn.Linear(width, out_dim), nn.Sigmoid())
        self.in_dim = in_dim
        self.out_dim = out_dim


def num_parameters(module: nn.Module) -> int:
    """Count the trainable numbers of a module."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def hidden_matrices(module: nn.Module) -> list[Tensor]:
    """Weight matrices of all linear layers but the last, the ones that Muon is made for."""
    linears = [m for m in module.modules() if isinstance(m, nn.Linear)]
    return [linear.weight for linear in linears[:-1]]
