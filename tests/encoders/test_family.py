"""What every encoder of the family does alike."""

import copy
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import nerf_posenc as ne
from nerf_posenc.encoders import CAFEEncoder, OneBlobEncoder, TriangleWaveEncoder, icosahedron_basis
from nerf_posenc.positional import MixedRotaryEncoder, PoPEEncoder, XPosEncoder
from nerf_posenc.positional.rotation import Rotation
from nerf_posenc.presets import mrope_axes
from tests.optional import needs


def coordinates(in_dim: int) -> Callable[..., Tensor]:
    """Points in [-1, 1] away from the kinks of grids and waves."""

    def draw(*batch: int) -> Tensor:
        generator = torch.Generator().manual_seed(11)
        return torch.rand(*batch, in_dim, generator=generator) * 1.9 - 0.95

    return draw


def directions(*batch: int) -> Tensor:
    return nn.functional.normalize(coordinates(3)(*batch), dim=-1)


def positions(*batch: int) -> Tensor:
    return coordinates(1)(*batch)[..., 0] * 100


@dataclass(frozen=True)
class Case:
    """An encoder, what it encodes, and how often it can be differentiated."""

    make: Callable[[], nn.Module]
    draw: Callable[..., Tensor]
    derivatives: int = 2
    has_axes: bool = True


CASES = {
    "fourier": Case(lambda: ne.FourierEncoder(2, 6), coordinates(2)),
    "fourier-raw": Case(lambda: ne.FourierEncoder.preset("nerf", 3, 4), coordinates(3)),
    "fourier-ragged": Case(lambda: ne.FourierEncoder(2, (3, 5), layout="kpa"), coordinates(2)),
    "fourier-lifted": Case(
        lambda: ne.FourierEncoder(3, 4, basis=icosahedron_basis()), coordinates(3)
    ),
    "fourier-trained": Case(
        lambda: ne.FourierEncoder(2, 4, include_input="front", trainable=True), coordinates(2)
    ),
    "gaussian": Case(lambda: ne.GaussianEncoder(2, 16, sigma=3.0), coordinates(2)),
    "learned-fourier": Case(
        lambda: ne.GaussianEncoder(2, 16, sigma=3.0, trainable=True), coordinates(2)
    ),
    "cosines": Case(
        lambda: ne.GaussianEncoder(2, 16, sigma=3.0, offsets=torch.linspace(-0.4, 0.7, 16)),
        coordinates(2),
    ),
    "learned-cosines": Case(
        lambda: ne.GaussianEncoder(
            2, 16, sigma=3.0, trainable=True, offsets=torch.linspace(-0.4, 0.7, 16)
        ),
        coordinates(2),
    ),
    "cafe": Case(lambda: CAFEEncoder(2, 6, num_frequencies=4, sigma=1.0), coordinates(2)),
    "one-blob": Case(lambda: OneBlobEncoder(2, 8), coordinates(2)),
    "triangle-wave": Case(lambda: TriangleWaveEncoder(2, 4), coordinates(2), derivatives=1),
    "hash-grid": Case(
        lambda: ne.HashGridEncoder(3, 3, log2_table_size=6, base_resolution=3), coordinates(3)
    ),
    "hash-grid-smooth": Case(
        lambda: ne.HashGridEncoder(
            2, 3, log2_table_size=6, base_resolution=3, interpolation="smoothstep"
        ),
        coordinates(2),
    ),
    "dense-grid": Case(lambda: ne.DenseGridEncoder(2, base_resolution=5), coordinates(2)),
    "tri-plane": Case(lambda: ne.KPlanesEncoder(3, 4, resolution=5, reduce="sum"), coordinates(3)),
    "spherical-harmonics": Case(lambda: ne.SphericalHarmonicsEncoder(5), directions),
    "sinusoidal": Case(lambda: ne.SinusoidalEncoder(8), positions, has_axes=False),
    "timestep": Case(lambda: ne.SinusoidalEncoder.timestep(9), positions, has_axes=False),
    "grid-sinusoidal": Case(lambda: ne.GridSinusoidalEncoder(12), coordinates(2)),
    "integrated-directions": Case(lambda: ne.IntegratedDirectionalEncoder(3), directions),
    "harmonics-of-9-levels": Case(lambda: ne.SphericalHarmonicsEncoder(9), directions),
    "sphere2vec": Case(lambda: ne.Sphere2VecEncoder(4, unit="radians"), coordinates(2)),
    "sphere2vec-dfs": Case(
        lambda: ne.Sphere2VecEncoder(2, unit="degrees", kind="dfs"), coordinates(2)
    ),
    "time2vec": Case(
        lambda: ne.Time2VecEncoder(6, 2, generator=torch.Generator().manual_seed(1)), coordinates(2)
    ),
    "k-planes": Case(
        lambda: ne.KPlanesEncoder(4, 3, resolution=(4, 5, 6, 3), generator=torch.Generator()),
        coordinates(4),
    ),
    "hexplane": Case(
        lambda: ne.KPlanesEncoder(4, 3, resolution=4, reduce="hexplane"), coordinates(4)
    ),
    "grid-sinusoidal-shares": Case(
        lambda: ne.GridSinusoidalEncoder(16, 3, layout="apk", axis_dims=(4, 6, 6)), coordinates(3)
    ),
    "rotary": Case(lambda: ne.RotaryEncoder(8), positions, has_axes=False),
    "rotary-axial": Case(lambda: ne.RotaryEncoder(8, 2, pairing="half"), coordinates(2)),
    "rotary-unequal": Case(
        lambda: ne.RotaryEncoder(16, 2, axis_dims=(4, 8), pairing="axis-half"), coordinates(2)
    ),
    "rotary-trailing": Case(
        lambda: ne.RotaryEncoder(8, axis_dims=(4,), pairing="half", trailing=True),
        positions,
        has_axes=False,
    ),
    "rotary-sections": Case(
        lambda: ne.RotaryEncoder(8, 3, pair_axes=mrope_axes((2, 1, 1))), coordinates(3)
    ),
    "rotary-mixed": Case(
        lambda: MixedRotaryEncoder(8, generator=torch.Generator().manual_seed(2)), coordinates(2)
    ),
    "xpos": Case(lambda: XPosEncoder(8), positions, has_axes=False),
    "pope": Case(lambda: PoPEEncoder(4, 2), positions, has_axes=False),
}

ALL = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))

# Compiling and exporting takes seconds an encoder: one is in the default run.
QUICK = ("fourier-raw",)
# Exported graphs with the operations of another's, which take minutes together.
SIBLINGS = """fourier fourier-lifted learned-fourier hash-grid-smooth tri-plane hexplane timestep
    grid-sinusoidal-shares harmonics-of-9-levels sphere2vec-dfs rotary-unequal rotary-sections"""


def recorded(names: Iterable[str]) -> pytest.MarkDecorator:
    """Parametrize a test that takes seconds for each encoder."""
    cases = [
        pytest.param(CASES[name], id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name in names
    ]
    return pytest.mark.parametrize("case", cases)


def encoded(encoder: nn.Module, x: Tensor) -> Tensor:
    """Features as one tensor, a rotary encoder's cosines and sines side by side."""
    features = encoder(x)
    return torch.cat(features, -1) if isinstance(features, tuple) else features


def width(encoder: nn.Module) -> int:
    if isinstance(encoder, Rotation):
        return 2 * encoder.rotary_dim
    return int(encoder.out_dim)  # type: ignore[arg-type]


@ALL
@pytest.mark.parametrize("batch", [(), (0,), (5,), (2, 0, 3), (2, 3)])
def test_any_batch_shape(case: Case, batch: tuple[int, ...]) -> None:
    encoder = case.make()
    features = encoded(encoder, case.draw(*batch))
    assert features.shape == (*batch, width(encoder))


@ALL
def test_strided_input_gives_what_contiguous_input_gives(case: Case) -> None:
    encoder = case.make()
    x = case.draw(3, 4).transpose(0, 1)
    assert not x.is_contiguous()
    assert torch.equal(encoded(encoder, x), encoded(encoder, x.contiguous()))


@ALL
def test_rows_do_not_depend_on_their_neighbors(case: Case) -> None:
    encoder = case.make()
    x = case.draw(6)
    rows = torch.stack([encoded(encoder, row) for row in x])
    torch.testing.assert_close(rows, encoded(encoder, x), atol=1e-6, rtol=0)


@ALL
def test_float64_is_kept_and_float32_is_near_it(case: Case) -> None:
    encoder = case.make()
    x = case.draw(20)
    single, double = encoded(encoder, x), encoded(encoder, x.double())
    assert single.dtype == torch.float32
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, atol=2e-6, rtol=0)


@ALL
def test_casts_of_the_module_keep_its_constants(case: Case) -> None:
    encoder = case.make()
    if any(True for _ in encoder.parameters()) and not isinstance(
        encoder, ne.GaussianEncoder | MixedRotaryEncoder
    ):
        pytest.skip("its numbers are trained, and a cast is meant to reach them")
    x = case.draw(20)
    expected = encoded(encoder, x)
    assert torch.equal(encoded(encoder.half().float(), x), expected)


@ALL
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_goes_in_and_comes_out(case: Case, dtype: torch.dtype) -> None:
    encoder = case.make()
    x = case.draw(20).to(dtype)
    features = encoded(encoder.to(dtype), x)
    if not isinstance(encoder, PoPEEncoder | Rotation):
        assert features.dtype == dtype
    expected = encoded(case_with_state(case, encoder), x.float())
    torch.testing.assert_close(features.float(), expected, atol=0.02, rtol=0.01)


def case_with_state(case: Case, encoder: nn.Module) -> nn.Module:
    """A fresh float32 encoder with the numbers of another."""
    fresh = case.make()
    fresh.load_state_dict(encoder.state_dict())
    return fresh


@ALL
def test_copies_and_state_dicts_encode_alike(case: Case) -> None:
    encoder = case.make()
    x = case.draw(5)
    assert torch.equal(encoded(copy.deepcopy(encoder), x), encoded(encoder, x))
    assert torch.equal(encoded(case_with_state(case, encoder), x), encoded(encoder, x))


@ALL
def test_derivatives(case: Case) -> None:
    encoder = case.make().double()
    x = case.draw(2).double().requires_grad_()
    if isinstance(encoder, OneBlobEncoder):
        x = (case.draw(2).double() / 2 + 0.5).requires_grad_()

    def encode(x: Tensor) -> Tensor:
        return encoded(encoder, x)

    assert torch.autograd.gradcheck(encode, x, fast_mode=True)
    if case.derivatives == 2:
        assert torch.autograd.gradgradcheck(encode, x, fast_mode=True)


@ALL
def test_derivatives_by_forward_mode_are_those_of_reverse_mode(case: Case) -> None:
    encoder = case.make().double()
    x = case.draw(1).double()[0]
    if isinstance(encoder, OneBlobEncoder):
        x = x / 2 + 0.5

    def encode(x: Tensor) -> Tensor:
        return encoded(encoder, x[None])[0]

    forward, reverse = torch.func.jacfwd, torch.func.jacrev
    expected = reverse(encode)(x)
    torch.testing.assert_close(forward(encode)(x), expected)
    if case.derivatives == 2:
        expected = reverse(reverse(encode))(x)
        for one, other in ((forward, forward), (forward, reverse), (reverse, forward)):
            torch.testing.assert_close(one(other(encode))(x), expected)


@ALL
def test_shared_memory_stays_shared(case: Case) -> None:
    encoder = case.make().share_memory()
    assert all(parameter.is_shared() for parameter in encoder.parameters())
    assert all(value.is_shared() for value in encoder.state_dict().values())


@ALL
def test_vmap_gives_what_a_batch_gives(case: Case) -> None:
    encoder = case.make()
    x = case.draw(6)
    mapped = torch.func.vmap(lambda row: encoded(encoder, row))(x)
    torch.testing.assert_close(mapped, encoded(encoder, x), atol=1e-6, rtol=0)


@recorded(CASES)
@pytest.mark.usefixtures("unchecked")
def test_it_compiles_as_one_graph(case: Case) -> None:
    torch.compiler.reset()
    encoder = case.make()
    compiled = torch.compile(lambda x: encoded(encoder, x), fullgraph=True, backend="aot_eager")
    x = case.draw(7)
    torch.testing.assert_close(compiled(x), encoded(encoder, x), atol=1e-6, rtol=0)


@recorded(name for name in CASES if name not in SIBLINGS.split())
@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore")
def test_it_exports_with_a_free_batch_size_and_runs_in_onnxruntime(
    case: Case, tmp_path: Path
) -> None:
    needs("onnx", "onnxscript", "onnxruntime")
    import onnxruntime

    encoder = case.make().eval()
    rows = torch.export.Dim("rows")
    program = torch.export.export(encoder, (case.draw(4),), dynamic_shapes=({0: rows},))
    x = case.draw(9) * 0.5
    expected = encoder(x)
    torch.testing.assert_close(program.module()(x), expected, atol=1e-6, rtol=0)
    path = tmp_path / "encoder.onnx"
    # The optimizer of the graph takes a third of the time and changes no value.
    torch.onnx.export(program, f=path, optimize=False, verbose=False)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    outputs = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    for ours, theirs in zip(
        expected if isinstance(expected, tuple) else (expected,), outputs, strict=True
    ):
        torch.testing.assert_close(torch.from_numpy(theirs), ours, atol=2e-6, rtol=0)


@ALL
@pytest.mark.usefixtures("unchecked")
def test_a_wrong_number_of_coordinates_is_named(case: Case) -> None:
    if not case.has_axes:
        pytest.skip("it takes positions of any shape")
    encoder = case.make()
    with pytest.raises(ValueError, match=r"must have shape \(\*batch, \d\).*got \(5, 7\)"):
        encoder(torch.zeros(5, 7))


@ALL
@pytest.mark.usefixtures("unchecked")
def test_integers_are_refused_where_coordinates_are_meant(case: Case) -> None:
    encoder = case.make()
    whole = torch.zeros(case.draw(3).shape, dtype=torch.long)
    positional = ne.SinusoidalEncoder | ne.GridSinusoidalEncoder | PoPEEncoder | Rotation
    if isinstance(encoder, positional):
        torch.testing.assert_close(encoded(encoder, whole), encoded(encoder, whole.float()))
        return
    with pytest.raises(TypeError, match=r"floating-point.*got torch\.int64"):
        encoder(whole)


@ALL
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_coordinates_that_are_not_finite_spoil_their_own_row_alone(
    case: Case, value: float
) -> None:
    encoder = case.make()
    x = case.draw(3)
    clean = encoded(encoder, x)
    x[1] = value
    features = encoded(encoder, x)
    assert features[1].isnan().any()
    assert torch.equal(features[[0, 2]], clean[[0, 2]])


@ALL
def test_it_prints_its_width(case: Case) -> None:
    encoder = case.make()
    assert re.search(rf"\b(out_)?dim={encoder.out_dim}\b", repr(encoder))


@ALL
def test_its_number_of_coordinates_is_that_of_its_input(case: Case) -> None:
    encoder = case.make()
    assert encoder.in_dim == (case.draw(1).shape[-1] if case.has_axes else 1)


@ALL
def test_its_widths_are_set_once(case: Case) -> None:
    encoder = case.make()
    for name in ("in_dim", "out_dim"):
        if hasattr(encoder, name):
            with pytest.raises(AttributeError):
                setattr(encoder, name, 1)
