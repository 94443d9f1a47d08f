"""Checkpoints on encoders of another order: layers, whole networks, and attention."""

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc import FourierEncoder, Port, port_module
from nerf_posenc.encoders import port_linear

THEIR_POSITION = FourierEncoder.preset("nerf-pytorch", 3, 10)
THEIR_DIRECTION = FourierEncoder.preset("nerf-pytorch", 3, 4)
OUR_POSITION = FourierEncoder(3, 10, base=1.0, include_input="back")
OUR_DIRECTION = FourierEncoder(3, 4, base=1.0, phases=("cos", "sin"), include_input="front")


class NeRF(nn.Module):
    """The module structure of nerf-pytorch: 8 layers, a skip after the fifth, a view branch."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        inputs = THEIR_POSITION.out_dim
        self.pts_linears = nn.ModuleList(
            [nn.Linear(inputs, width)]
            + [nn.Linear(width + (inputs if i == 4 else 0), width) for i in range(7)]
        )
        self.views_linears = nn.ModuleList([nn.Linear(THEIR_DIRECTION.out_dim + width, width // 2)])
        self.feature_linear = nn.Linear(width, width)
        self.alpha_linear = nn.Linear(width, 1)
        self.rgb_linear = nn.Linear(width // 2, 3)

    def forward(self, points: Tensor, views: Tensor) -> Tensor:
        hidden = points
        for i, layer in enumerate(self.pts_linears):
            hidden = layer(hidden).relu()
            if i == 4:
                hidden = torch.cat([points, hidden], -1)
        joined = torch.cat([self.feature_linear(hidden), views], -1)
        color = self.rgb_linear(self.views_linears[0](joined).relu())
        return torch.cat([color, self.alpha_linear(hidden)], -1)


def test_a_nerf_checkpoint_gives_the_same_output_on_other_encoders() -> None:
    network = NeRF()
    x, d = torch.rand(50, 3) * 2 - 1, torch.nn.functional.normalize(torch.randn(50, 3), dim=-1)
    before = network(THEIR_POSITION(x), THEIR_DIRECTION(d))
    width = network.feature_linear.out_features
    report = port_module(
        network,
        {
            "pts_linears.0": Port(THEIR_POSITION, OUR_POSITION),
            "pts_linears.5": Port(THEIR_POSITION, OUR_POSITION, offset=0),
            "views_linears.0": Port(THEIR_DIRECTION, OUR_DIRECTION, offset=width),
        },
    )
    after = network(OUR_POSITION(x), OUR_DIRECTION(d))
    torch.testing.assert_close(after, before, atol=2e-6, rtol=0)
    assert report["views_linears.0"].startswith(f"inputs {width} to {width + 26}")
    assert set(report) == {"pts_linears.0", "pts_linears.5", "views_linears.0"}


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_convolutions_over_features_are_ported(dims: int) -> None:
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
    layer = kind(THEIR_DIRECTION.out_dim, 5, 1)
    x = torch.rand(2, *(4,) * dims, 3)
    ported = port_linear(layer, THEIR_DIRECTION, OUR_DIRECTION)
    ours = ported(OUR_DIRECTION(x).movedim(-1, 1))
    theirs = layer(THEIR_DIRECTION(x).movedim(-1, 1))
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


def test_a_port_that_does_not_fit_changes_nothing() -> None:
    network = NeRF()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    good = Port(THEIR_POSITION, OUR_POSITION)
    for ports, message in (
        ({"pts_linears.0": good, "pts_linears.9": good}, "no layer 'pts_linears.9'"),
        ({"pts_linears.0": good, "pts_linears.5": good}, "pts_linears.5: the layer takes 95"),
        ({"pts_linears.0": good, "alpha_linear": good}, "alpha_linear: the layer takes 32"),
    ):
        with pytest.raises(ValueError, match=message):
            port_module(network, ports)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


@pytest.mark.usefixtures("unchecked")
def test_the_wrong_kind_of_argument_is_named() -> None:
    for call, message in (
        (lambda: port_module(NeRF(), {"alpha_linear": "nerf"}), r"give Port\(source, target\)"),  # type: ignore[dict-item]
    ):
        with pytest.raises(TypeError, match=message):
            call()


def test_what_does_not_fit_is_refused() -> None:
    for call, message in (
        (
            lambda: port_linear(
                nn.Conv1d(54, 54, 1, groups=2), THEIR_DIRECTION, OUR_DIRECTION, offset=0
            ),
            "one group",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_a_network_is_not_ported_twice() -> None:
    theirs = FourierEncoder.preset("nerf", 3, 4, include_input=None)
    ours = FourierEncoder(3, 4, base=1.0)
    layer = nn.Linear(24, 8)
    network = nn.Sequential(layer)
    before = copy.deepcopy(network.state_dict())
    port_module(network, {"0": Port(theirs, ours)})
    ported = layer.weight.clone()
    for again in (network, copy.deepcopy(network)):
        with pytest.raises(ValueError, match="0: it was ported already"):
            port_module(again, {"0": Port(theirs, ours)})
    assert torch.equal(layer.weight, ported)
    # Back, and there again.
    port_module(network, {"0": Port(ours, theirs)})
    assert torch.equal(layer.weight, before["0.weight"])
    port_module(network, {"0": Port(theirs, ours)})
    # Weights that were loaded since are theirs again.
    network.load_state_dict(before)
    port_module(network, {"0": Port(theirs, ours)})
    assert torch.equal(layer.weight, ported)


@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated:FutureWarning")
@pytest.mark.parametrize(
    "normalized", [nn.utils.weight_norm, nn.utils.parametrizations.weight_norm]
)
@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_normalization_is_ported(
    normalized: Callable[..., nn.Linear], dim: int | None
) -> None:
    # NeuS and VolSDF normalize the weights of every layer.
    theirs = FourierEncoder.preset("neus", 3, 6)
    ours = FourierEncoder(3, 6, base=1.0, include_input="back")
    x = torch.rand(7, 3)
    layer = normalized(nn.Linear(39, 8), dim=dim)
    network = nn.Sequential(layer)
    expected = network(theirs(x))
    single = port_linear(layer, theirs, ours)
    # Old code reads the weight that the last call has computed.
    torch.testing.assert_close(F.linear(ours(x), single.weight, single.bias), expected)
    torch.testing.assert_close(single(ours(x)), expected)
    port_module(network, {"0": Port(theirs, ours)})
    torch.testing.assert_close(F.linear(ours(x), layer.weight, layer.bias), expected)
    torch.testing.assert_close(network(ours(x)), expected)
    with pytest.raises(ValueError, match="0: it was ported already"):
        port_module(network, {"0": Port(theirs, ours)})


def test_a_weight_that_is_computed_otherwise_is_refused() -> None:
    theirs = FourierEncoder.preset("neus", 3, 6)
    ours = FourierEncoder(3, 6, base=1.0, include_input="front")
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(39, 8))
    with pytest.raises(ValueError, match=r"is computed from .*parametrizations\.weight\.original"):
        port_module(layer, {"": Port(theirs, ours)})


def test_a_layer_is_found_by_each_of_its_names() -> None:
    theirs = FourierEncoder.preset("nerf", 3, 4, include_input=None)
    layer = nn.Linear(24, 8)
    network = nn.ModuleDict({"coarse": layer, "fine": layer})
    port = Port(theirs, FourierEncoder(3, 4, base=1.0))
    with pytest.raises(ValueError, match="fine: it is the layer coarse; give it once"):
        port_module(network, {"coarse": port, "fine": port})
    assert port_module(network, {"fine": port})
    with pytest.raises(ValueError, match="coarse: it was ported already"):
        port_module(network, {"coarse": replace(port, offset=0)})


def test_ports_that_share_inputs_are_refused_and_others_are_not() -> None:
    theirs = FourierEncoder.preset("nerf", 3, 4, include_input=None)
    ours = FourierEncoder(3, 4, base=1.0)
    network = nn.Sequential(nn.Linear(48, 8))
    a, b = torch.rand(2, 5, 3)
    expected = network(torch.cat([theirs(a), theirs(b)], -1))
    port_module(network, {"0": Port(theirs, ours, 0)})
    for offset in (1, 12):
        with pytest.raises(ValueError, match="0: it was ported already"):
            port_module(network, {"0": Port(theirs, ours, offset)})
    port_module(network, {"0": Port(theirs, ours, 24)})
    torch.testing.assert_close(network(torch.cat([ours(a), ours(b)], -1)), expected)


def test_a_ported_network_is_scripted_and_one_without_memory_is_ported() -> None:
    theirs = FourierEncoder.preset("nerf", 3, 4, include_input=None)
    port = Port(theirs, FourierEncoder(3, 4, base=1.0))
    network = nn.Sequential(nn.Linear(24, 8))
    port_module(network, {"0": port})
    x = torch.rand(2, 24)
    assert torch.equal(torch.jit.script(network)(x), network(x))
    with torch.device("meta"):
        empty = nn.Sequential(nn.Linear(24, 8))
    assert port_module(empty, {"0": port})
