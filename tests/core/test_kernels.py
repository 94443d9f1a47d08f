"""The fused kernels in Triton's interpreter, against float64 and the torch backend."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from nerf_posenc import LAYOUTS, FourierEncoder, SinCos, octave_bands
from nerf_posenc.core.backend import require_triton

pytest.importorskip("triton", reason="needs pip install triton")
_triton = pytest.importorskip("nerf_posenc.core.kernels.sincos")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PI_BANDS = octave_bands(5)
OTHER_BANDS = octave_bands(5, base=1.0)


def points(rows: int = 37, in_dim: int = 3, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return ((torch.rand(rows, in_dim, generator=generator) * 2 - 1) * scale).to(DEVICE)


def both(**arguments: object) -> tuple[FourierEncoder, FourierEncoder]:
    """The same encoder by either backend."""
    fused = FourierEncoder(3, 5, backend="triton", **arguments)  # type: ignore[arg-type]
    plain = FourierEncoder(3, 5, **arguments)  # type: ignore[arg-type]
    return fused.to(DEVICE), plain.to(DEVICE)


@pytest.mark.parametrize("raw", [None, "front", "back"])
@pytest.mark.parametrize("phases", [("sin", "cos"), ("cos", "sin")])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(layout: str, phases: tuple[str, str], raw: str | None) -> None:
    fused, plain = both(layout=layout, phases=phases, include_input=raw)
    x = points()
    torch.testing.assert_close(fused(x), plain(x), atol=3e-7, rtol=0)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
@pytest.mark.parametrize("base", [math.pi, 1.0, 2 * math.pi])
def test_it_is_right_to_5e_7_at_every_octave(base: float, scale: float) -> None:
    num_bands = 21 if scale == 1 else 12
    fused = FourierEncoder(1, num_bands, base=base, backend="triton").to(DEVICE)
    exact = FourierEncoder(1, num_bands, base=base).to(DEVICE)
    x = points(2000, 1, scale)
    assert (fused(x).double() - exact(x.double())).abs().max() < 5e-7


def test_whole_and_half_turns_are_exact() -> None:
    fused = FourierEncoder(1, 30, backend="triton").to(DEVICE)
    x = torch.tensor([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 0.25, 3.0, 2.0**20], device=DEVICE)[:, None]
    expected = FourierEncoder(1, 30).to(DEVICE)(x.double())
    torch.testing.assert_close(fused(x).double(), expected, atol=1e-7, rtol=0)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_no_number_spoils_its_own_columns_alone() -> None:
    fused, plain = both()
    x = points()
    x[3, 1], x[5, 0] = math.nan, math.inf
    features = fused(x)
    assert torch.equal(features.isnan(), plain(x).isnan())


@pytest.mark.parametrize("rows", [0, 1, 200])
def test_any_number_of_rows_and_any_strides(rows: int) -> None:
    fused, plain = both(include_input="front")
    x = points(3, rows).T if rows else points(0)
    assert rows < 2 or not x.is_contiguous()
    torch.testing.assert_close(fused(x), plain(x.contiguous()), atol=3e-7, rtol=0)
    every_other = points(2 * rows)[::2]
    torch.testing.assert_close(fused(every_other), plain(every_other), atol=3e-7, rtol=0)
    assert fused(points(6).reshape(2, 3, 3)).shape == (2, 3, fused.out_dim)


def test_axes_with_bands_of_their_own() -> None:
    fused = FourierEncoder(3, (2, 5, 3), include_input="back", backend="triton").to(DEVICE)
    plain = FourierEncoder(3, (2, 5, 3), include_input="back").to(DEVICE)
    torch.testing.assert_close(fused(points()), plain(points()), atol=3e-7, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_in_and_out(dtype: torch.dtype) -> None:
    fused, plain = both(include_input="front")
    x = points().to(dtype)
    assert fused(x).dtype == dtype
    torch.testing.assert_close(fused(x), plain(x), atol=2e-7, rtol=2 * torch.finfo(dtype).eps)
    core = SinCos(3, PI_BANDS, backend="triton").to(DEVICE)
    features = core(points(), dtype=dtype)
    assert features.dtype == dtype
    expected = SinCos(3, PI_BANDS).to(DEVICE)(points())
    torch.testing.assert_close(features.float(), expected, atol=torch.finfo(dtype).eps, rtol=0)


def test_weights_and_variances() -> None:
    for base in (math.pi, 1.0):
        fused, plain = both(base=base)
        x, variance = points(), points(scale=0.1).abs()
        for options in (
            dict(progress=0.55),
            dict(variance=variance),
            dict(variance=variance.T.contiguous().T, weight=torch.rand(5, device=DEVICE)),
        ):
            torch.testing.assert_close(fused(x, **options), plain(x, **options), atol=5e-7, rtol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients(layout: str) -> None:
    for bands, raw, phases in itertools.product(
        (PI_BANDS, OTHER_BANDS), (None, "front", "back"), (("sin", "cos"), ("cos", "sin"))
    ):
        options = dict(bands=bands, layout=layout, include_input=raw, phases=phases)
        fused, plain = both(**options)
        upstream = torch.randn(fused.out_dim, 20, device=DEVICE).T
        found = []
        for encoder in (fused, plain):
            x, variance = points(20).requires_grad_(), points(20, scale=0.1).abs().requires_grad_()
            weight = torch.linspace(0.5, 1, 5, device=DEVICE).requires_grad_()
            features = encoder(x, variance=variance, weight=weight)
            found.append(torch.autograd.grad(features, (x, variance, weight), upstream))
        for ours, theirs in zip(*found, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-5)


def test_second_derivatives() -> None:
    fused, plain = both(include_input="front")
    found = []
    for encoder in (fused, plain):
        x = points(4).requires_grad_()
        (first,) = torch.autograd.grad(encoder(x).square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        found.append((first.detach(), second))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-2)


@pytest.mark.usefixtures("unchecked")
def test_it_is_an_operator_that_torch_knows_all_about() -> None:
    cycles = (PI_BANDS / (2 * math.pi)).float()[:, None].expand(5, 3).contiguous().to(DEVICE)
    x = points(6).requires_grad_()
    arguments = (x, cycles, None, None, "akp", "sin", "front", torch.float32)
    torch.library.opcheck(_triton.encode, arguments)


@pytest.mark.usefixtures("unchecked")
def test_it_compiles_as_one_graph() -> None:
    torch.compiler.reset()
    fused, plain = both(include_input="front")
    compiled = torch.compile(lambda x: fused(x).square(), fullgraph=True, backend="aot_eager")
    for encode in (compiled, lambda x: plain(x).square()):
        x = points(7).requires_grad_()
        values = encode(x)
        values.sum().backward()
        assert x.grad is not None
        if encode is compiled:
            expected = values, x.grad
    torch.testing.assert_close(expected[0], values, atol=1e-6, rtol=0)
    torch.testing.assert_close(expected[1], x.grad, atol=1e-3, rtol=1e-5)


@pytest.mark.usefixtures("unchecked")
def test_what_it_does_not_take_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = FourierEncoder(2, 3, backend="triton")
    with pytest.raises(TypeError, match=r"half precision; got torch\.float64"):
        fused(torch.zeros(1, 2, dtype=torch.float64))
    with pytest.raises(ValueError, match="has no basis"):
        FourierEncoder(2, 3, basis=torch.eye(2), backend="triton")
    with pytest.raises(ValueError, match="backend must be 'torch' or 'triton'; got 'cuda'"):
        SinCos(2, PI_BANDS, backend="cuda")  # type: ignore[arg-type]
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(RuntimeError, match=r"on cpu; move them with \.cuda\(\)"):
        fused(torch.zeros(1, 2))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="pip install triton, or use backend='torch'"):
        require_triton()
