"""Products of lines against interpolation by torch, and their blur against its definition."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.encoders import LineProductEncoder


def small(in_dim: int = 2, resolution: int = 9, blur: float = 0.25) -> LineProductEncoder:
    generator = torch.Generator().manual_seed(0)
    encoder = LineProductEncoder(in_dim, 3, resolution=resolution, blur=blur, generator=generator)
    return encoder.double()


def points(in_dim: int, count: int = 200) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return 2 * torch.rand(count, in_dim, generator=generator, dtype=torch.float64) - 1


def test_a_plane_of_products_is_sampled_bilinearly() -> None:
    encoder, x = small(), points(2)
    across, along = encoder.lines
    image = torch.einsum("xr,yr->ryx", across, along)
    expected = F.grid_sample(image[None], x[None, None], align_corners=True)[0, :, 0].T
    torch.testing.assert_close(encoder(x), expected)
    # The far edge is the last node.
    torch.testing.assert_close(encoder(torch.ones(1, 2).double())[0], across[-1] * along[-1])


@pytest.mark.parametrize("in_dim", [1, 3, 4])
def test_features_at_nodes_are_products_of_their_values(in_dim: int) -> None:
    encoder = small(in_dim)
    nodes = torch.randint(9, (50, in_dim), generator=torch.Generator().manual_seed(2))
    x = nodes.double() / 4 - 1
    expected = torch.stack([encoder.lines[a, nodes[:, a]] for a in range(in_dim)]).prod(0)
    torch.testing.assert_close(encoder(x), expected)


def test_blurred_lines_blur_the_whole_grid() -> None:
    encoder, progress = small(resolution=21), 0.3
    least = 0.25 * 2 / 20
    sigma = 0.25 * (least / 0.25) ** progress
    nodes = torch.linspace(-1, 1, 21, dtype=torch.float64)
    y, x = torch.meshgrid(nodes, nodes, indexing="ij")
    at = torch.stack([x, y], dim=-1).view(-1, 2)
    image = encoder(at)
    # A Gaussian over both axes at once, normalized over the nodes that there are.
    weights = torch.exp(-torch.cdist(at, at).square() / (2 * sigma**2))
    expected = weights @ image / weights.sum(-1, keepdim=True)
    torch.testing.assert_close(encoder(at, progress=progress), expected, atol=1e-6, rtol=1e-4)


def test_blur_begins_as_wide_as_asked_keeps_constants_and_ends_sharp() -> None:
    encoder = small(1, resolution=2001, blur=0.1)
    nodes = torch.linspace(-1, 1, 2001, dtype=torch.float64)[:, None]
    with torch.no_grad():
        encoder.lines.zero_()[0, 1000] = 1.0
        response = encoder(nodes, progress=0.0)[:, 0]
        width = float((response * nodes[:, 0].square()).sum() / response.sum())
        assert math.sqrt(width) == pytest.approx(0.1, rel=1e-3)
        encoder.lines.fill_(0.7)
        flat = encoder(points(1), progress=0.1)
        torch.testing.assert_close(flat, torch.full_like(flat, 0.7), atol=1e-6, rtol=0)
        encoder.lines.normal_(generator=torch.Generator().manual_seed(3))
        sharp, last = encoder(points(1)), encoder(points(1), progress=torch.tensor(1.0))
        assert float((sharp - last).abs().max()) < 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": 0}, "features must be"),
        ({"resolution": 1}, "resolution must be"),
        ({"blur": 0.0}, "blur must be"),
        ({"bounds": (1.0, -1.0)}, "bounds must be"),
    ],
)
def test_arguments_out_of_range_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LineProductEncoder(2, **options)  # type: ignore[arg-type]
