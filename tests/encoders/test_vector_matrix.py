"""The vector-matrix decomposition: interpolation, gradients, and refinement."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc import KPlanesEncoder
from nerf_posenc.encoders import VectorMatrixEncoder

# Axis of the line, then of the columns and the rows of its plane.
AXES = ((2, 1, 0), (1, 2, 0), (0, 2, 1))


def small(stride: int = 1) -> VectorMatrixEncoder:
    return VectorMatrixEncoder(
        3, resolution=9, stride=stride, generator=torch.Generator().manual_seed(0)
    ).double()


def points(count: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(count, 3, generator=generator, dtype=torch.float64) * 2 - 1


def by_grid_sample(encoder: VectorMatrixEncoder, x: Tensor) -> Tensor:
    """The same by torch's own interpolation of images."""
    parts = []
    for plane, line, (along, column, row) in zip(encoder.planes, encoder.lines, AXES, strict=True):
        over = x[None, None, :, [column, row]]
        across = F.grid_sample(plane.permute(2, 0, 1)[None], over, align_corners=True)[0, :, 0]
        on = torch.stack([torch.zeros_like(x[:, along]), x[:, along]], dim=-1)[None, None]
        values = F.grid_sample(line.T[None, :, :, None], on, align_corners=True)[0, :, 0]
        parts.append((across * values).T)
    return torch.cat(parts, dim=-1)


def test_features_are_products_of_an_interpolated_plane_and_line() -> None:
    encoder, x = small(), points(200)
    torch.testing.assert_close(encoder(x), by_grid_sample(encoder, x))


def test_gradients_of_features_and_coordinates_are_those_of_autograd() -> None:
    encoder, x = small(), points(200).requires_grad_()
    weights = torch.randn(200, 9, generator=torch.Generator().manual_seed(2)).double()
    leaves = [encoder.planes, encoder.lines, x]
    ours = torch.autograd.grad((encoder(x) * weights).sum(), leaves)
    theirs = torch.autograd.grad((by_grid_sample(encoder, x) * weights).sum(), leaves)
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize("stride", [1, 2])
def test_planes_and_lines_are_blurred_by_a_normalized_gaussian(stride: int) -> None:
    encoder, progress = small(stride), 0.4
    nodes = torch.linspace(-1, 1, 9, dtype=torch.float64)[::stride]
    least = 0.25 * 2 / 8 * stride
    sigma = 0.25 * (least / 0.25) ** progress
    # Of a plane over both axes at once.
    at = torch.cartesian_prod(nodes, nodes)
    over_plane = torch.exp(-torch.cdist(at, at).square() / (2 * sigma**2))
    over_line = torch.exp(-((nodes[:, None] - nodes) ** 2) / (2 * sigma**2))
    expected = small(stride)
    with torch.no_grad():
        for plane in expected.planes:
            in_use = plane[::stride, ::stride]
            blurred = over_plane @ in_use.flatten(0, 1) / over_plane.sum(-1, keepdim=True)
            in_use.copy_(blurred.view_as(in_use))
        expected.lines[:, ::stride] = (
            over_line @ expected.lines[:, ::stride] / over_line.sum(-1, keepdim=True)
        )
    x = points(200)
    torch.testing.assert_close(encoder(x, progress=progress), expected(x), atol=1e-6, rtol=1e-4)
    with torch.no_grad():
        first, last = ((encoder(x, progress=p) - encoder(x)).abs().max() for p in (0.0, 1.0))
    assert float(last) < 0.01 * float(first)


def test_wide_rows_get_the_gradient_of_narrow_ones() -> None:
    # Rows of 8 features and more are summed in another way; each feature is on its own.
    wide = KPlanesEncoder(2, 12, resolution=5).double()
    narrow = KPlanesEncoder(2, 4, resolution=5).double()
    with torch.no_grad():
        narrow.planes[0].copy_(wide.planes[0][:, :4])
    x = points(300)[:, :2]
    wide(x)[:, :4].sin().sum().backward()
    narrow(x).sin().sum().backward()
    (gradient,), (expected,) = ([plane.grad for plane in e.planes] for e in (wide, narrow))
    torch.testing.assert_close(gradient[:, :4], expected)
    assert not bool(gradient[:, 4:].any())


def test_no_points_have_no_features_and_a_gradient_of_zero() -> None:
    encoder = VectorMatrixEncoder(8, resolution=5)
    encoder(torch.empty(0, 3)).sum().backward()
    assert encoder.planes.grad is not None
    assert not bool(encoder.planes.grad.any())


@pytest.mark.parametrize("strides", [(4, 2, 1), (8, 1), (2, 2)])
def test_refining_leaves_the_encoding_of_every_point(strides: tuple[int, ...]) -> None:
    encoder, x = small(strides[0]), points(100)
    before = encoder(x)
    for stride in strides[1:]:
        encoder.refine(stride)
        torch.testing.assert_close(encoder(x), before)


def test_with_a_stride_only_each_such_node_has_a_gradient() -> None:
    encoder = small(4)
    encoder(points(500)).sum().backward()
    assert encoder.planes.grad is not None
    touched = encoder.planes.grad.abs().sum((0, 3)) > 0
    assert touched.sum() == 9
    assert bool(touched[::4, ::4].all())


def test_the_stride_is_saved_with_the_features() -> None:
    refined = small(4)
    refined.refine(2)
    loaded = small(4)
    loaded.load_state_dict(refined.state_dict())
    x = points(50)
    assert torch.equal(loaded(x), refined(x))
    assert "stride=2" in repr(loaded)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"resolution": 9, "stride": 3}, "stride must divide resolution - 1, which is 8; got 3"),
        ({"resolution": 1}, "resolution must be"),
        ({"features": 0}, "features must be"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VectorMatrixEncoder(**arguments)  # type: ignore[arg-type]


def test_a_field_is_not_coarsened() -> None:
    encoder = small(2)
    with pytest.raises(ValueError, match="stride must divide the present one, 2; got 4"):
        encoder.refine(4)
