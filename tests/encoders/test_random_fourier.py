"""Random and learned Fourier features."""

import math

import pytest
import torch

from nerf_posenc import FourierEncoder, GaussianEncoder
from nerf_posenc.encoders import Box


def test_the_kernel_is_a_gaussian_of_the_distance() -> None:
    # E[cos(2 pi b (x - y))] over b ~ N(0, sigma^2) is exp(-2 pi^2 sigma^2 (x - y)^2).
    sigma = 0.7
    generator = torch.Generator().manual_seed(0)
    encoder = GaussianEncoder(2, 100_000, sigma=sigma, generator=generator)
    x = torch.rand(20, 2)
    codes = encoder(x).double()
    kernel = codes @ codes.T / 100_000
    expected = torch.exp(-2 * math.pi**2 * sigma**2 * torch.cdist(x, x).double() ** 2)
    # The standard error of a mean of 100,000 values of at most 1 is at most 3.2e-3.
    torch.testing.assert_close(kernel, expected, atol=0.02, rtol=0)


def test_axis_aligned_rows_are_bands() -> None:
    matrix = torch.tensor([[0.5, 0.0], [0.0, 0.5], [1.0, 0.0], [0.0, 1.0]])
    x = torch.rand(6, 2)
    bands = FourierEncoder(2, 2, layout="pka")(x)
    torch.testing.assert_close(GaussianEncoder(2, matrix=matrix)(x), bands, atol=3e-7, rtol=0)


@pytest.mark.parametrize("offsets", [None, torch.rand(5)])
def test_raw_coordinates_stand_on_their_side(offsets: torch.Tensor | None) -> None:
    x, matrix = torch.rand(4, 2), torch.rand(5, 2)
    variance = torch.rand(4, 2)
    plain = GaussianEncoder(2, matrix=matrix, offsets=offsets)
    waves = plain(x, variance=variance)
    for side, parts in {"front": [x, waves], "back": [waves, x]}.items():
        encoder = GaussianEncoder(2, matrix=matrix, offsets=offsets, include_input=side)  # type: ignore[arg-type]
        features = encoder(x, variance=variance)
        assert torch.equal(features, torch.cat(parts, -1))
        assert encoder.frequencies.shape == (encoder.out_dim, 2)
    filtered = encoder(x, filter=Box(0.1))
    assert torch.equal(filtered[:, -2:], x)
    assert torch.equal(filtered[:, :-2], plain(x, filter=Box(0.1)))


def test_high_frequencies_stay_exact() -> None:
    matrix = torch.tensor([[12345.678, -98765.43]])
    x = torch.rand(500, 2) * 2 - 1
    turns = x.double() @ matrix.double().T
    features = GaussianEncoder(2, matrix=matrix)(x).double()
    expected = torch.cat([(2 * math.pi * turns).sin(), (2 * math.pi * turns).cos()], -1)
    assert (features - expected).abs().max() < 4e-7


def test_autocast_and_reduced_products_do_not_reach_the_angles() -> None:
    encoder = GaussianEncoder(3, 32, sigma=30.0)
    x = torch.rand(100, 3)
    expected = encoder(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(encoder(x), expected)


def test_expectations_over_a_gaussian() -> None:
    encoder = GaussianEncoder(2, 4, sigma=0.5)
    mean, variance = torch.tensor([0.1, -0.4]), torch.tensor([0.02, 0.05])
    generator = torch.Generator().manual_seed(1)
    draws = mean + variance.sqrt() * torch.randn(400_000, 2, generator=generator)
    sampled = encoder(draws).double().mean(0)
    torch.testing.assert_close(
        encoder(mean, variance=variance).double(), sampled, atol=8e-3, rtol=0
    )


def test_learned_frequencies_have_gradients() -> None:
    encoder = GaussianEncoder(2, 3, sigma=1.0, trainable=True)
    x = torch.rand(4, 2).double()

    def features(matrix: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(encoder, {"matrix": matrix}, (x,))  # type: ignore[no-any-return]

    matrix = encoder.matrix.detach().double().requires_grad_()
    assert torch.autograd.gradcheck(features, matrix)
    encoder(x).sum().backward()
    assert encoder.matrix.grad is not None


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused() -> None:
    for arguments, message in (
        (dict(in_dim=0), "in_dim must be 1 or more"),
        (dict(num_features=0), "num_features must be 1 or more"),
        (dict(sigma=-1.0), "sigma must be finite and positive"),
        (dict(matrix=torch.zeros(4, 3)), r"matrix must have shape \(num_features, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            GaussianEncoder(**{"in_dim": 2, **arguments})  # type: ignore[arg-type]


def test_a_number_of_features_that_a_matrix_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="num_features is 4, and matrix has 3 rows"):
        GaussianEncoder(2, 4, matrix=torch.rand(3, 2))
    assert GaussianEncoder(2).out_dim == 512


def test_no_variance_is_negative() -> None:
    with pytest.raises(ValueError, match="variance must be 0 or more; got -1"):
        GaussianEncoder(2, 8)(torch.rand(5, 2), variance=-torch.ones(5, 2))
