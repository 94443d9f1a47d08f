"""Two encoders that print alike give the same numbers."""

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import nerf_posenc as root
from nerf_posenc import encoders, positional

# What sets initial weights or trains them: no part of the encoding.
INITIAL = {"trainable", "std", "generator", "gain", "c"}
POINTS = torch.rand(6, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
CELLS = torch.randint(0, 3, (6, 2), generator=torch.Generator().manual_seed(0))
QUERY = torch.rand(1, 2, 6, 48, generator=torch.Generator().manual_seed(0))


def coordinates(width: int) -> Callable[[Any], Tensor]:
    """Encode points with this number of coordinates."""
    return lambda encoder: encoder(POINTS[:, :width])


def rotation(*axes: int) -> Callable[[Any], Tensor]:
    """Rotate queries of one or more axes."""
    return lambda encoder: encoder.rotate(QUERY, POINTS[:, list(axes) if axes else 0] * 9)


def attention(size: Any) -> Callable[[Any], Tensor]:
    """Bias of a length, or of a window."""
    return lambda bias: bias(size)


GRID = dict(interpolation="smoothstep", bounds=(0.0, 1.0))
BANDS = torch.tensor([1.0, 2.5], dtype=torch.float64)
# Class, arguments, other values of all its arguments, and what to evaluate.
CASES: list[tuple[Any, dict[str, Any], dict[str, Any], Callable[[Any], Tensor]]] = [
    (
        root.FourierEncoder,
        dict(in_dim=3, num_bands=4, max_octave=4.0),
        dict(
            num_bands=[4, 3, 4],
            bands=BANDS,
            min_octave=1,
            max_octave=5.0,
            base=1.0,
            layout="pka",
            phases=("sin",),
            include_input="each",
            basis=torch.eye(3)[:2],
            variance_scale=2.0,
            out_dtype=torch.float64,
        ),
        lambda encoder: encoder(POINTS, variance=POINTS.square()),
    ),
    (
        root.GaussianEncoder,
        dict(in_dim=3, num_features=4),
        dict(
            num_features=5,
            sigma=2.0,
            matrix=torch.rand(4, 3),
            phases=("cos", "sin"),
            offsets=torch.rand(4),
            out_dtype=torch.float64,
        ),
        coordinates(3),
    ),
    (
        root.SinusoidalEncoder,
        dict(dim=8),
        dict(
            dim=10,
            base=100.0,
            bands=torch.arange(1.0, 5.0).double(),
            split=True,
            phases=("cos", "sin"),
            out_dtype=torch.float64,
        ),
        lambda encoder: encoder(POINTS[:, 0] * 9),
    ),
    (
        root.GridSinusoidalEncoder,
        dict(dim=12, num_axes=2),
        dict(
            dim=16,
            base=100.0,
            layout="pak",
            axis_order=(1, 0),
            axis_dims=(8, 4),
            bands=torch.arange(1.0, 4.0).double(),
            start=1,
            span=2 * math.pi,
            base_size=16,
            position_scale=2.0,
            out_dtype=torch.float64,
        ),
        lambda encoder: encoder.table((3, 5)),
    ),
    (
        root.RotaryEncoder,
        dict(dim=48, num_axes=2),
        dict(
            base=100.0,
            bands=torch.linspace(1, 0.1, 12).double(),
            axis_dims=(32, 16),
            axis_order=(1, 0),
            pair_axes=(0, 1) * 12,
            pairing="half",
            scale=1.5,
        ),
        rotation(0, 1),
    ),
    (root.RotaryEncoder, dict(dim=48, axis_dims=(24,)), dict(trailing=True), rotation()),
    (
        positional.XPosEncoder,
        dict(dim=48),
        dict(scale_base=64.0, gamma=0.5, center=3.0, rotary=dict(base=100.0)),
        rotation(),
    ),
    (
        positional.MixedRotaryEncoder,
        dict(dim=48, num_axes=2, num_heads=2),
        dict(num_heads=None, base=100.0, matrix=torch.rand(2, 24, 2), pairing="half"),
        rotation(0, 1),
    ),
    (positional.PoPEEncoder, dict(dim=48, num_heads=2), dict(base=100.0), rotation()),
    (
        positional.FourierSeriesRotaryEncoder,
        dict(dim=48, num_heads=2, trained_length=64),
        dict(base=100.0, trained_length=16),
        lambda encoder: encoder.rotate(QUERY, torch.arange(6)),
    ),
    (root.SphericalHarmonicsEncoder, {}, dict(num_levels=3, condon_shortley=False), coordinates(3)),
    (root.IntegratedDirectionalEncoder, {}, dict(num_degrees=3), coordinates(3)),
    (
        root.Sphere2VecEncoder,
        dict(unit="degrees"),
        dict(num_scales=4, unit="radians", kind="dfs", min_radius=0.1, max_radius=9.0),
        coordinates(2),
    ),
    (encoders.OneBlobEncoder, dict(in_dim=3), dict(num_bins=8), coordinates(3)),
    (encoders.TriangleWaveEncoder, dict(in_dim=3), dict(num_bands=8), coordinates(3)),
    (
        root.HashGridEncoder,
        dict(in_dim=3, num_levels=3, log2_table_size=8, base_resolution=4),
        dict(
            num_levels=4,
            features_per_level=1,
            log2_table_size=9,
            base_resolution=5,
            growth=1.5,
            convention="torch-ngp",
            **GRID,
        ),
        coordinates(3),
    ),
    (
        root.DenseGridEncoder,
        dict(in_dim=3, base_resolution=4, num_levels=2),
        dict(
            num_levels=1,
            features_per_level=1,
            base_resolution=5,
            growth=1.5,
            align_corners=False,
            **GRID,
        ),
        coordinates(3),
    ),
    (
        root.KPlanesEncoder,
        dict(in_dim=3, features=2, resolution=4),
        dict(features=3, resolution=5, reduce="sum", align_corners=False, **GRID),
        coordinates(3),
    ),
    (
        positional.LearnedAxialEncoder,
        dict(lengths=(3, 4), dim=8),
        dict(reduce="sum", axis_order=(1, 0), axis_dims=(3, 5)),
        lambda encoder: encoder(CELLS),
    ),
    (positional.FireBias, dict(num_heads=2), dict(width=8, threshold=2.0), attention(6)),
    (positional.KerpleBias, dict(num_heads=2), dict(kind="power"), attention(6)),
    (
        positional.T5RelativeBias,
        dict(num_heads=2),
        dict(num_buckets=8, max_distance=16, bidirectional=False),
        attention(40),
    ),
    (
        positional.LogCPBBias,
        dict(num_heads=2),
        dict(width=8, pretrained_window=(4, 4)),
        attention((3, 3)),
    ),
    (
        positional.ClippedRelativeBias,
        dict(num_heads=2, ends=(-3, 3)),
        dict(ends=(-2, 4)),
        attention(6),
    ),
    (
        positional.WindowBias,
        dict(num_heads=2, window=(2, 3)),
        dict(has_class_token=True, is_absolute=True),
        lambda bias: bias(),
    ),
]


def pairs() -> Iterator[Any]:
    """An encoder, the same with one argument that differs, and what to evaluate."""
    for kind, given, others, evaluate in CASES:
        for name, value in others.items():
            changed = {**given, **(value if name == "rotary" else {name: value})}
            if name == "bands" and kind is root.FourierEncoder:
                changed.pop("max_octave")
            yield pytest.param(kind, given, changed, evaluate, id=f"{kind.__name__}-{name}")


def made(kind: Any, arguments: dict[str, Any]) -> nn.Module:
    """An encoder whose initial weights depend on its arguments alone, none of them 0."""
    torch.manual_seed(0)
    encoder: nn.Module = kind(**arguments)
    for weight in encoder.parameters():
        if not weight.any():
            nn.init.normal_(weight)
    return encoder


@pytest.mark.parametrize(("kind", "given", "changed", "evaluate"), list(pairs()))
def test_an_argument_that_changes_the_numbers_is_printed(
    kind: Any, given: dict[str, Any], changed: dict[str, Any], evaluate: Callable[[Any], Tensor]
) -> None:
    first, second = made(kind, given), made(kind, changed)
    one, other = evaluate(first), evaluate(second)
    are_same = one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    assert not are_same, "the value that was chosen changes nothing"
    assert repr(first) != repr(second)
    assert repr(first) == repr(made(kind, given))


def test_no_argument_of_an_encoder_is_left_out() -> None:
    for kind, *_ in CASES:
        changed = {name for other, _, others, _ in CASES if other is kind for name in others}
        parameters = inspect.signature(kind.__init__).parameters.values()
        optional = {p.name for p in parameters if p.default is not inspect.Parameter.empty}
        assert optional - INITIAL - {"in_dim", "num_axes"} <= changed, kind.__name__
