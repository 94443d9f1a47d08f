"""CAFE+: its features by NumPy's polynomials and by sines written out."""

import math
import warnings

import numpy as np
import pytest
import torch

from nerf_posenc.encoders import CAFEEncoder


@pytest.mark.parametrize("num_polynomials", [0, 1, 2, 9])
def test_features_are_products_of_layers_on_sines_and_polynomials(num_polynomials: int) -> None:
    generator = torch.Generator().manual_seed(0)
    encoder = CAFEEncoder(
        2, 5, num_frequencies=3, num_polynomials=num_polynomials, generator=generator
    ).double()
    x = torch.rand(7, 2, generator=generator).double() * 2 - 1
    angle = 2 * math.pi * x @ encoder.frequencies.matrix.double().T
    degrees = np.polynomial.chebyshev.chebvander(x.numpy(), max(num_polynomials - 1, 0))
    # Degree by degree, each of both coordinates.
    polynomials = torch.from_numpy(degrees)[..., :num_polynomials].transpose(1, 2).flatten(1)
    features = torch.cat([angle.sin(), angle.cos(), polynomials], 1)
    expected = torch.ones(7, 5).double()
    for branch in encoder.branches:
        assert isinstance(branch, torch.nn.Linear)
        expected *= features @ branch.weight.T + branch.bias
    torch.testing.assert_close(encoder(x), expected)


def test_weights_come_from_the_generator_alone() -> None:
    first, second = (CAFEEncoder(3, generator=torch.Generator().manual_seed(4)) for _ in range(2))
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name])
    assert len(list(first.branches)) == 3
    assert first.out_dim == 2 * 88 + 3 * 30


def test_counts_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="num_branches must be"):
        CAFEEncoder(2, num_branches=0)
    with pytest.raises(ValueError, match="num_features must be"):
        CAFEEncoder(2, 0)
    with pytest.raises(ValueError, match="num_polynomials must be 0 or more"):
        CAFEEncoder(2, num_polynomials=-1)


def test_the_global_generator_is_left_alone_and_quantized_layers_are_taken() -> None:
    before = torch.random.get_rng_state()
    encoder = CAFEEncoder(2, 32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(torch.random.get_rng_state(), before)
    x = torch.rand(50, 2) * 2 - 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantized = torch.ao.quantization.quantize_dynamic(encoder, {torch.nn.Linear})
        difference = quantized(x) - encoder(x)
    assert difference.std() < 0.1 * encoder(x).std()
