"""The fused first layer in Triton's interpreter, against the encoder and a linear layer."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nerf_posenc import LAYOUTS, FourierEncoder
from nerf_posenc.encoders.fourier_linear import FourierLinear

pytest.importorskip("triton", reason="needs pip install triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def points(rows: int = 37, in_dim: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return (torch.rand(rows, in_dim, generator=generator) * 2 - 1).to(DEVICE)


def both(
    width: int = 20, num_bands: int = 7, **arguments: Any
) -> tuple[FourierLinear, FourierLinear]:
    """The same layer, fused and in torch's own operations."""
    torch.manual_seed(0)
    fused, plain = (
        FourierLinear(FourierEncoder(3, num_bands, backend=backend, **arguments), width)
        for backend in ("triton", "torch")
    )
    plain.load_state_dict(fused.state_dict())
    return fused.to(DEVICE), plain.to(DEVICE)


def exact(layer: FourierLinear, x: Tensor) -> Tensor:
    """Outputs in float64."""
    outputs: Tensor = copy.deepcopy(layer).double()(x.double())
    return outputs


@pytest.mark.parametrize("raw", [None, "front", "back"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_outputs_and_gradients_of_every_layout(layout: str, raw: str | None) -> None:
    fused, plain = both(layout=layout, include_input=raw)
    upstream = torch.randn(37, 20, device=DEVICE)
    gradients = []
    for layer in (fused, plain):
        x = points().requires_grad_()
        outputs = layer(x)
        torch.testing.assert_close(outputs.double(), exact(plain, x), atol=3e-6, rtol=0)
        gradients.append(torch.autograd.grad(outputs, [x, *layer.parameters()], upstream))
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-5 * float(theirs.abs().max()), rtol=0)


@pytest.mark.parametrize("arguments", [{"base": 1.0}, {"phases": ("cos", "sin")}])
def test_other_bands_and_phases(arguments: dict[str, Any]) -> None:
    fused, plain = both(**arguments)
    torch.testing.assert_close(fused(points()).double(), exact(plain, points()), atol=3e-6, rtol=0)


@pytest.mark.parametrize(("rows", "width"), [(0, 5), (1, 1), (200, 16), (70, 150)])
def test_any_number_of_rows_and_outputs(rows: int, width: int) -> None:
    fused, plain = both(width, include_input="front")
    outputs = []
    for layer in (fused, plain):
        layer(points(rows)).square().sum().backward()
        assert layer.linear.weight.grad is not None
        outputs.append(layer.linear.weight.grad)
    assert fused(points(rows)).shape == (rows, width)
    torch.testing.assert_close(outputs[0], outputs[1], atol=2e-4, rtol=1e-4)


def test_any_strides_and_batch_shape() -> None:
    fused, plain = both()
    x = points(3, 40).T
    assert not x.is_contiguous()
    torch.testing.assert_close(fused(x), plain(x.contiguous()), atol=3e-6, rtol=0)
    assert fused(points(6).reshape(2, 3, 3)).shape == (2, 3, 20)


def test_autocast_multiplies_in_bfloat16_and_sums_in_float32() -> None:
    fused, plain = both(width=32)
    with torch.autocast(DEVICE, torch.bfloat16):
        mine, theirs = fused(points()), plain(points())
    assert mine.dtype == theirs.dtype == torch.bfloat16
    # Both round features, weights and the sum to 8 bits; the interpreter cuts what it should round.
    error = (mine.double() - exact(plain, points())).abs().max()
    assert error < 3 * (theirs.double() - exact(plain, points())).abs().max() + 1e-3
    mine.float().sum().backward()
    assert fused.linear.weight.grad is not None
    assert fused.linear.weight.grad.dtype == torch.float32


def test_second_derivatives() -> None:
    fused, plain = both(num_bands=3)
    found = []
    for layer in (fused, plain):
        x = points(9).requires_grad_()
        (first,) = torch.autograd.grad(layer(x).sin().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), [x, layer.linear.weight]))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-4 * float(theirs.abs().max()), rtol=0)


def test_conditions_go_to_the_encoder() -> None:
    fused, plain = both()
    x = points()
    for conditions in ({"progress": 0.5}, {"variance": torch.full_like(x, 0.01)}):
        torch.testing.assert_close(fused(x, **conditions), plain(x, **conditions))


@pytest.mark.usefixtures("unchecked")
def test_it_is_an_operator_that_the_compiler_knows() -> None:
    from nerf_posenc.core.kernels import first_linear as _triton_linear

    fused, plain = both(include_input="front")
    sincos = fused.encoder.sincos
    columns = (sincos.layout, "sin", "front")
    weight = fused.linear.weight.detach()
    torch.library.opcheck(
        _triton_linear.encode_linear,
        (points(), sincos.band_cycles, weight, fused.linear.bias.detach(), *columns),
    )
    torch.library.opcheck(
        _triton_linear.weight_gradient,
        (torch.randn(37, 20, device=DEVICE), points(), sincos.band_cycles, *columns),
    )
    torch.compiler.reset()
    compiled = torch.compile(nn.Sequential(fused, nn.ReLU()), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(points()), plain(points()).relu(), atol=3e-6, rtol=0)


@pytest.mark.usefixtures("unchecked")
def test_what_it_does_not_take_is_refused() -> None:
    fused, _ = both()
    with pytest.raises(TypeError, match="float32"):
        fused(points().double())
    with pytest.raises(ValueError, match=r"\(\*batch, 3\)"):
        fused(points(4, 2))
