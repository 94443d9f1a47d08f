"""Several models of one make fitted in the same steps, for a GPU that one does not fill."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from nerf_posenc.networks.mlp import hidden_matrices
from nerf_posenc.training.loop import DrawBatch


class Stack(nn.Module):
    """Encoders, each with a network behind it, that run as one on inputs of their own.

    The weights remain those of the models, so that an optimizer treats each as if it were alone.
    In every pass the networks' are laid side by side: a layer of all of them is one batched
    product.

    Args:
        encoders: one a model, all with the same number of outputs.
        networks: one a model, all of one architecture.

    Raises:
        ValueError: where there are none, their numbers differ, or the networks' weights differ
            in shape.

    Examples:
        >>> from nerf_posenc.networks.mlp import MLP
        >>> stack = Stack([nn.Identity() for _ in range(5)], [MLP(2, 3) for _ in range(5)])
        >>> stack(torch.rand(5, 8, 2)).shape
        torch.Size([5, 8, 3])
    """

    def __init__(self, encoders: Sequence[nn.Module], networks: Sequence[nn.Module]) -> None:
        super().__init__()
        if not networks or len(encoders) != len(networks):
            raise ValueError(
                "a stack needs one encoder for each network, 1 or more; got "
                f"{len(encoders)} encoders and {len(networks)} networks"
            )
        shapes = [{name: p.shape for name, p in n.named_parameters()} for n in networks]
        if any(other != shapes[0] for other in shapes):
            raise ValueError("the networks of a stack must have weights of the same shapes")
        self.encoders = nn.ModuleList(encoders)
        self.networks = nn.ModuleList(networks)

    def hidden_matrices(self) -> list[Tensor]:
        """The matrices of every network that Muon is made for."""
        return [matrix for network in self.networks for matrix in hidden_matrices(network)]

    def forward(
        self, inputs: Float[Tensor, "models batch in_dim"]
    ) -> Float[Tensor, "models batch out_dim"]:
        """Run each model on its inputs."""
        pairs = zip(self.encoders, inputs, strict=True)
        features = torch.stack([encoder(x) for encoder, x in pairs])
        states = [dict(network.named_parameters()) for network in self.networks]
        weights = {name: torch.stack([s[name] for s in states]) for name in states[0]}

        def run(weights: dict[str, Tensor], features: Tensor) -> Tensor:
            values: Tensor = functional_call(self.networks[0], weights, (features,))
            return values

        outputs: Tensor = torch.vmap(run)(weights, features)
        return outputs


class LossOfEach:
    """Mean squared error of a stack, which keeps that of each model for the record.

    The mean over models leaves each one's gradient in its direction, and Adam and Muon do not look
    at its length.
    """

    def __init__(self) -> None:
        self._recent: list[Tensor] = []

    def __call__(
        self,
        predictions: Float[Tensor, "models batch channels"],
        targets: Float[Tensor, "models batch channels"],
    ) -> Float[Tensor, ""]:
        """Mean over all models."""
        each = (predictions.float() - targets).square().mean((1, 2))
        self._recent.append(each.detach())
        return each.mean()

    def take(self) -> list[float]:
        """Mean loss of each model since this was last asked for."""
        means: list[float] = torch.stack(self._recent).mean(0).tolist()
        self._recent = []
        return means


def stacked(draws: Sequence[DrawBatch]) -> DrawBatch:
    """Batches of several models, of equal size, side by side."""

    def draw_batch(step: int) -> tuple[Tensor, Tensor]:
        inputs, targets = zip(*(draw(step) for draw in draws), strict=True)
        return torch.stack(inputs), torch.stack(targets)

    return draw_batch
