"""Batched ensembles: several networks of one architecture trained as one model."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from nerf_posenc.networks.mlp import hidden_matrices
from nerf_posenc.training.batches import DrawBatch


class BatchedEnsemble(nn.Module):
    """Train several networks of the same architecture as one batched model.

    The parameters remain those of the members, so that an optimizer treats each as if it were
    alone. In every pass the networks' weights are stacked: a layer of all of them is one batched
    product, which fills a GPU that a single small network does not.

    Args:
        encoders: one per member, all with the same number of features.
        networks: one per member, all of one architecture.

    Raises:
        ValueError: If there are none, their numbers differ, or the networks' weights differ in
            shape.

    Examples:
        >>> from nerf_posenc.networks.mlp import MLP
        >>> networks = [MLP(2, 3) for _ in range(5)]
        >>> ensemble = BatchedEnsemble([nn.Identity() for _ in range(5)], networks)
        >>> ensemble(torch.rand(5, 8, 2)).shape
        torch.Size([5, 8, 3])
    """

    def __init__(self, encoders: Sequence[nn.Module], networks: Sequence[nn.Module]) -> None:
        super().__init__()
        if not networks or len(encoders) != len(networks):
            raise ValueError(
                "an ensemble needs one encoder for each network, 1 or more; got "
                f"{len(encoders)} encoders and {len(networks)} networks"
            )
        shapes = [{name: p.shape for name, p in n.named_parameters()} for n in networks]
        if any(other != shapes[0] for other in shapes):
            raise ValueError("the networks of an ensemble must have weights of the same shapes")
        self.encoders = nn.ModuleList(encoders)
        self.networks = nn.ModuleList(networks)

    def hidden_matrices(self) -> list[Tensor]:
        """Weight matrices of every network that Muon steps."""
        return [matrix for network in self.networks for matrix in hidden_matrices(network)]

    def forward(
        self, inputs: Float[Tensor, "members batch in_dim"]
    ) -> Float[Tensor, "members batch out_dim"]:
        """Run each member on its own inputs."""
        pairs = zip(self.encoders, inputs, strict=True)
        features = torch.stack([encoder(x) for encoder, x in pairs])
        states = [dict(network.named_parameters()) for network in self.networks]
        weights = {name: torch.stack([s[name] for s in states]) for name in states[0]}

        def run(weights: dict[str, Tensor], features: Tensor) -> Tensor:
            values: Tensor = functional_call(self.networks[0], weights, (features,))
            return values

        outputs: Tensor = torch.vmap(run)(weights, features)
        return outputs


class EnsembleLoss:
    """Mean squared error of an ensemble, which keeps the loss of each member for its history.

    The mean over members scales each one's gradient, which Adam and Muon are invariant to.
    """

    def __init__(self) -> None:
        self._recent: list[Tensor] = []

    def state_dict(self) -> list[Tensor]:
        """Return the losses of the members since the last call of `take`."""
        return list(self._recent)

    def load_state_dict(self, state: Sequence[Tensor]) -> None:
        """Go on from saved losses."""
        self._recent = list(state)

    def __call__(
        self,
        predictions: Float[Tensor, "members batch channels"],
        targets: Float[Tensor, "members batch channels"],
    ) -> Float[Tensor, ""]:
        """Mean over all members."""
        losses = (predictions.float() - targets).square().mean((1, 2))
        self._recent.append(losses.detach())
        return losses.mean()

    def take(self) -> list[float]:
        """Mean loss of each member since the previous call."""
        means: list[float] = torch.stack(self._recent).mean(0).tolist()
        self._recent = []
        return means


def stacked_batches(draws: Sequence[DrawBatch]) -> DrawBatch:
    """Stack the batches of several members, which must be of equal size."""

    def draw_batch(step: int) -> tuple[Tensor, Tensor]:
        inputs, targets = zip(*(draw(step) for draw in draws), strict=True)
        return torch.stack(inputs), torch.stack(targets)

    return draw_batch
