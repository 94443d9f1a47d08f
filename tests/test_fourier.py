"""Fourier encoders of coordinates."""

import copy
import math

import pytest
import torch

from nerf_posenc import FourierEncoder, SinusoidalEncoder, geometric_bands, octave_bands


def test_the_default_is_equation_4_of_nerf() -> None:
    x = torch.tensor([0.3, -0.7])
    expected = [
        function(2**k * math.pi * coordinate)
        for coordinate in x.tolist()
        for k in range(3)
        for function in (math.sin, math.cos)
    ]
    features = FourierEncoder(2, 3)(x)
    torch.testing.assert_close(features, torch.tensor(expected), atol=3e-7, rtol=0)


@pytest.mark.parametrize("include_input", [None, "front", "back"])
def test_raw_input_stands_where_it_is_asked_for(include_input: str | None) -> None:
    x = torch.rand(5, 3)
    encoder = FourierEncoder(3, 4, include_input=include_input)  # type: ignore[arg-type]
    features = encoder(x)
    assert features.shape == (5, encoder.out_dim)
    plain = FourierEncoder(3, 4)(x)
    parts = {None: [plain], "front": [x, plain], "back": [plain, x]}[include_input]
    assert torch.equal(features, torch.cat(parts, -1))


def test_no_bands_leave_the_raw_input_alone() -> None:
    x = torch.rand(5, 3)
    assert torch.equal(FourierEncoder(3, 0, include_input="front")(x), x)
    with pytest.raises(ValueError, match="0 bands leave no column"):
        FourierEncoder(3, 0)


def test_it_agrees_to_the_bit_with_the_sequence_encoder_on_the_same_bands() -> None:
    positions = torch.arange(5000)
    sequence = SinusoidalEncoder(64)
    fourier = FourierEncoder(1, bands=geometric_bands(64))
    assert torch.equal(sequence(positions), fourier(positions[:, None].float()))


def test_single_bands_agree_to_the_bit_whatever_stands_beside_them() -> None:
    # Wavelengths 2 pi, 4 pi, 8 pi: the bands 1, 1/2 and 1/4 of both encoders.
    positions = torch.rand(1000) * 100
    sequence = SinusoidalEncoder(6, base=8.0)(positions)
    fourier = FourierEncoder(1, 5, min_octave=-1, base=1.0)(positions[:, None])
    assert torch.equal(sequence[:, 0:2], fourier[:, 2:4])
    assert torch.equal(sequence[:, 2:4], fourier[:, 0:2])


def test_copies_and_state_dicts_encode_alike() -> None:
    encoder = FourierEncoder(2, 6, layout="pak", include_input="back")
    x = torch.rand(10, 2)
    assert torch.equal(copy.deepcopy(encoder)(x), encoder(x))
    other = FourierEncoder(2, 6, layout="pak", include_input="back")
    other.load_state_dict(encoder.state_dict())
    assert torch.equal(other(x), encoder(x))


def test_bands_may_be_any_list() -> None:
    bands = torch.tensor([0.5, 3.0], dtype=torch.float64)
    features = FourierEncoder(1, bands=bands)(torch.tensor([2.0]))
    expected = [math.sin(1), math.cos(1), math.sin(6), math.cos(6)]
    torch.testing.assert_close(features, torch.tensor(expected), atol=3e-7, rtol=0)


@pytest.mark.usefixtures("unchecked")
def test_integer_coordinates_are_refused() -> None:
    with pytest.raises(TypeError, match=r"floating-point coordinates; got torch\.int64"):
        FourierEncoder(2)(torch.zeros(3, 2, dtype=torch.long))


@pytest.mark.usefixtures("unchecked")
def test_a_wrong_include_input_is_refused() -> None:
    with pytest.raises(ValueError, match="include_input must be"):
        FourierEncoder(2, include_input="yes")  # type: ignore[arg-type]


def test_it_prints_its_convention() -> None:
    assert "layout='akp'" in repr(FourierEncoder(2, 3))
    assert octave_bands(0).shape == (0,)
