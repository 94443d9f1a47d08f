"""Two encoders that print alike give the same numbers."""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import nerf_posenc as root

# What sets initial weights or trains them: no part of the encoding.
INITIAL = {"trainable", "std", "generator", "gain", "c"}
POINTS = torch.rand(6, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1


def coordinates(width: int) -> Callable[[Any], Tensor]:
    """Encode points with this number of coordinates."""
    return lambda encoder: encoder(POINTS[:, :width])


GRID = dict(interpolation="smoothstep", bounds=(0.0, 1.0))
BANDS = torch.tensor([1.0, 2.5], dtype=torch.float64)
# Class, arguments, other values of all its arguments, and what to evaluate.
CaseOfPrinting = tuple[Any, dict[str, Any], dict[str, Any], Callable[[Any], Tensor]]
CASES: list[CaseOfPrinting] = [
    (
        root.FourierEncoder,
        dict(in_dim=3, num_bands=4, max_octave=4.0),
        dict(
            num_bands=[4, 3, 4],
            frequencies=BANDS,
            min_octave=1,
            max_octave=5.0,
            base=1.0,
            layout="pka",
            phases=("sin",),
            include_input="each",
            basis=torch.eye(3)[:2],
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
            include_input="back",
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
            frequencies=torch.arange(1.0, 5.0).double(),
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
            frequencies=torch.arange(1.0, 4.0).double(),
            start=1,
            span=2 * math.pi,
            base_size=16,
            position_scale=2.0,
            out_dtype=torch.float64,
        ),
        lambda encoder: encoder.table((3, 5)),
    ),
    (root.SphericalHarmonicsEncoder, {}, dict(num_levels=3, condon_shortley=False), coordinates(3)),
    (root.IntegratedDirectionalEncoder, {}, dict(num_degrees=3), coordinates(3)),
    (
        root.Sphere2VecEncoder,
        dict(unit="degrees"),
        dict(num_scales=4, unit="radians", kind="dfs", min_radius=0.1, max_radius=9.0),
        coordinates(2),
    ),
    (
        root.HashGridEncoder,
        dict(in_dim=3, num_levels=3, log2_table_size=8, base_resolution=4),
        dict(
            num_levels=4,
            features_per_level=1,
            log2_table_size=9,
            base_resolution=5,
            growth=1.5,
            max_resolution=20,
            resolutions=[4, 6, 20],
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
            max_resolution=20,
            resolutions=[4, 6, 20],
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
]


def pairs(cases: Sequence[CaseOfPrinting]) -> list[Any]:
    """An encoder, the same with one argument that differs, and what to evaluate."""
    return list(_pairs(cases))


def _pairs(cases: Sequence[CaseOfPrinting]) -> Iterator[Any]:
    for kind, given, others, evaluate in cases:
        for name, value in others.items():
            changed = {**given, **(value if name == "rotary" else {name: value})}
            # What replaces other arguments is given alone.
            for replaced in {
                "frequencies": ["num_bands", "max_octave"],
                "resolutions": ["num_levels"],
            }.get(name, []):
                changed.pop(replaced, None)
            yield pytest.param(kind, given, changed, evaluate, id=f"{kind.__name__}-{name}")


def made(kind: Any, arguments: dict[str, Any]) -> nn.Module:
    """An encoder whose initial weights depend on its arguments alone, none of them 0."""
    torch.manual_seed(0)
    encoder: nn.Module = kind(**arguments)
    for weight in encoder.parameters():
        if not weight.any():
            nn.init.normal_(weight)
    return encoder


@pytest.mark.parametrize(("kind", "given", "changed", "evaluate"), pairs(CASES))
def test_an_argument_that_changes_the_numbers_is_printed(
    kind: Any, given: dict[str, Any], changed: dict[str, Any], evaluate: Callable[[Any], Tensor]
) -> None:
    printed_apart(kind, given, changed, evaluate)


def printed_apart(
    kind: Any, given: dict[str, Any], changed: dict[str, Any], evaluate: Callable[[Any], Tensor]
) -> None:
    """Require that two encoders of other numbers print otherwise."""
    first, second = made(kind, given), made(kind, changed)
    one, other = evaluate(first), evaluate(second)
    are_same = one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    assert not are_same, "the value that was chosen changes nothing"
    assert repr(first) != repr(second)
    assert repr(first) == repr(made(kind, given))


def test_no_argument_of_an_encoder_is_left_out() -> None:
    assert not untried(CASES)


def untried(cases: Sequence[CaseOfPrinting]) -> set[str]:
    """Arguments of encoders that no case changes."""
    missing = set[str]()
    for kind, *_ in cases:
        changed = {name for other, _, others, _ in cases if other is kind for name in others}
        parameters = inspect.signature(kind.__init__).parameters.values()
        optional = {p.name for p in parameters if p.default is not inspect.Parameter.empty}
        missing |= {
            f"{kind.__name__}.{name}"
            for name in optional - INITIAL - {"in_dim", "num_axes"} - changed
        }
    return missing
