"""Fourier encoders of coordinates."""

import math
from typing import Literal

import pytest
import torch
from torch import nn

from nerf_posenc import FourierEncoder, SinusoidalEncoder, geometric_bands, linear_bands
from nerf_posenc.core import coarse_to_fine_weight, ratio_bands
from nerf_posenc.encoders import column_order, icosahedron_basis, port_linear
from nerf_posenc.presets import FOURIER


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


def test_each_coordinate_stands_behind_its_own_waves() -> None:
    # fourier_encode of perceiver-pytorch, axis by axis, at two axes and three bands.
    x, bands = torch.rand(5, 2, dtype=torch.float64), torch.tensor([math.pi, 2.5, 7.0]).double()
    encoder = FourierEncoder(2, frequencies=bands, layout="apk", include_input="each")
    waves = x[..., None] * bands
    expected = torch.cat([waves.sin(), waves.cos(), x[..., None]], dim=-1).flatten(-2)
    torch.testing.assert_close(encoder(x), expected, rtol=0, atol=1e-12)
    assert encoder.columns[6] == (-1, "x", 0)
    assert encoder.frequencies[13].tolist() == [0, 0]
    with pytest.raises(ValueError, match="axes outermost"):
        FourierEncoder(2, 3, layout="kpa", include_input="each")


@pytest.mark.parametrize("bands", [[1.0], [2 * math.pi], [2 * math.pi, 4 * math.pi], [7.0, 30.0]])
def test_a_basis_gives_the_waves_of_the_coordinates_along_it(bands: list[float]) -> None:
    x = torch.rand(9, 3, dtype=torch.float64) * 2 - 1
    basis = torch.tensor([[0.6, 0.0, 0.8], [1.0, -2.0, 0.5]], dtype=torch.float64)
    found = FourierEncoder(3, frequencies=bands, basis=basis)(x)
    torch.testing.assert_close(found, FourierEncoder(2, frequencies=bands)(x @ basis.T))
    torch.testing.assert_close(found[:, 0], torch.sin(bands[0] * (x @ basis[0])))


@pytest.mark.parametrize("phase", ["sin", "cos"])
def test_one_phase_can_be_had_alone(phase: Literal["sin", "cos"]) -> None:
    x = torch.rand(5, 3, dtype=torch.float64)
    encoder = FourierEncoder(3, 4, layout="kpa", phases=(phase,), include_input="front")
    angles = math.pi * 2.0 ** torch.arange(4).double()[:, None] * x[:, None]
    expected = torch.cat([x, getattr(angles, phase)().flatten(1)], dim=-1)
    torch.testing.assert_close(encoder(x), expected, rtol=0, atol=1e-12)
    assert f"phases=('{phase}',)" in repr(encoder)


def test_no_bands_leave_the_raw_input_alone() -> None:
    x = torch.rand(5, 3)
    assert torch.equal(FourierEncoder(3, 0, include_input="front")(x), x)
    with pytest.raises(ValueError, match="0 bands leave no column"):
        FourierEncoder(3, 0)


def test_it_agrees_to_the_bit_with_the_sequence_encoder_on_the_same_bands() -> None:
    positions = torch.arange(5000)
    sequence = SinusoidalEncoder(64)
    fourier = FourierEncoder(1, frequencies=geometric_bands(32))
    assert torch.equal(sequence(positions), fourier(positions[:, None].float()))


def test_single_bands_agree_to_the_bit_whatever_stands_beside_them() -> None:
    # Wavelengths 2 pi, 4 pi, 8 pi: the bands 1, 1/2 and 1/4 of both encoders.
    positions = torch.rand(1000) * 100
    sequence = SinusoidalEncoder(6, base=8.0)(positions)
    fourier = FourierEncoder(1, 5, min_octave=-1, base=1.0)(positions[:, None])
    assert torch.equal(sequence[:, 0:2], fourier[:, 2:4])
    assert torch.equal(sequence[:, 2:4], fourier[:, 0:2])


@pytest.mark.slow
def test_the_expectation_over_a_gaussian_of_any_orientation() -> None:
    generator = torch.Generator().manual_seed(2)
    mean = torch.tensor([0.2, -0.5, 0.4])
    root = torch.tensor([[0.2, 0.0, 0.0], [0.1, 0.15, 0.0], [-0.1, 0.05, 0.3]])
    draws = mean + torch.randn(400_000, 3, generator=generator) @ root.T
    for basis in (None, icosahedron_basis()):
        encoder = FourierEncoder(3, 3, base=1.0, basis=basis)
        sampled = encoder(draws).double().mean(0)
        exact = encoder(mean, covariance=root @ root.T).double()
        # The standard error of a mean of 400,000 values of at most 1 is at most 1.6e-3.
        torch.testing.assert_close(exact, sampled, atol=8e-3, rtol=0)


def test_a_diagonal_covariance_is_its_variance() -> None:
    x, variance = torch.rand(7, 3), torch.rand(7, 3) * 0.1
    for basis in (None, icosahedron_basis()):
        encoder = FourierEncoder(3, 4, basis=basis)
        by_covariance = encoder(x, covariance=torch.diag_embed(variance))
        torch.testing.assert_close(by_covariance, encoder(x, variance=variance))


def test_nerfstudios_variance_is_the_true_one() -> None:
    x, variance = torch.rand(3, 2), torch.full((3, 2), 0.01)
    exact = FourierEncoder.preset("nerfstudio", 2, 1)(x, variance=variance)
    plain = FourierEncoder.preset("nerfstudio", 2, 1)(x)
    torch.testing.assert_close(exact, plain * math.exp(-0.01 * (2 * math.pi) ** 2 / 2))


@pytest.mark.parametrize(("subdivisions", "expected"), [(1, 6), (2, 21), (3, 46)])
def test_the_lifted_basis_has_one_of_each_opposite_pair(subdivisions: int, expected: int) -> None:
    basis = icosahedron_basis(subdivisions)
    assert basis.shape == (expected, 3)
    torch.testing.assert_close(basis.norm(dim=1), torch.ones(expected, dtype=torch.float64))
    assert ((basis @ basis.T).abs() - torch.eye(expected)).max() < 0.99
    # A symmetric set of directions is a tight frame.
    frame = basis.T @ basis
    torch.testing.assert_close(frame, torch.eye(3, dtype=torch.float64) * expected / 3)


def test_coarse_to_fine_lets_bands_in_one_by_one() -> None:
    encoder = FourierEncoder(2, 4, layout="kpa", include_input="front")
    x = torch.rand(9, 2)
    assert torch.equal(encoder(x, progress=1.0), encoder(x))
    shut = encoder(x, progress=0.0)
    assert torch.equal(shut[:, :2], x)
    assert not shut[:, 2:].any()
    half = encoder(x, progress=0.5)
    assert torch.equal(half[:, :10], encoder(x)[:, :10])
    assert not half[:, 10:].any()
    # Three eighths of the way a band and a half is open: (1 - cos(pi / 2)) / 2.
    open_part = encoder(x, progress=torch.tensor(0.375))
    torch.testing.assert_close(open_part[:, 6:10], encoder(x)[:, 6:10] / 2)
    assert coarse_to_fine_weight(5, torch.tensor(2.0)).tolist() == [1.0] * 5
    for percent in (30.0, -1.0, math.nan):
        with pytest.raises(ValueError, match=r"progress must be in \[0, 1\], a share of the steps"):
            encoder(x, progress=percent)


def test_no_variance_is_negative() -> None:
    x, encoder = torch.rand(9, 2), FourierEncoder(2, 4)
    with pytest.raises(ValueError, match=r"^variance must be 0 or more; got -0\.5"):
        encoder(x, variance=torch.tensor([0.0, -0.5]).expand(9, 2))
    with pytest.raises(ValueError, match="covariance must be 0 or more; got -1"):
        encoder(x, covariance=-torch.eye(2).expand(9, 2, 2))
    assert encoder(torch.zeros(0, 2), variance=torch.zeros(0, 2)).shape == (0, 16)


def test_the_raw_input_is_asked_for_by_true() -> None:
    x = torch.rand(9, 2)
    assert torch.equal(
        FourierEncoder(2, 4, include_input=True)(x), FourierEncoder(2, 4, include_input="front")(x)
    )
    assert FourierEncoder(2, 4, include_input=False).out_dim == 16
    assert not FourierEncoder(2, 0, include_input=True).frequencies.any()


@pytest.mark.parametrize("include_input", ["front", "each"])
def test_gradients_of_half_precision_are_rounded_once(
    include_input: Literal["front", "each"],
) -> None:
    encoder = FourierEncoder(2, 4, include_input=include_input)
    x, grad = torch.rand(50, 2).half(), torch.rand(50, encoder.out_dim).half()
    half, single = x.clone().requires_grad_(), x.float().requires_grad_()
    (found,) = torch.autograd.grad(encoder(half), half, grad)
    (expected,) = torch.autograd.grad(encoder(single), single, grad.float())
    assert torch.equal(found, expected.half())


def test_its_name_is_what_made_it() -> None:
    assert "num_bands=10, layout" in repr(FourierEncoder(3, 10))
    assert "num_bands=10, base=1.0, layout" in repr(FourierEncoder.preset("nerf", 3))
    assert "crc32" in repr(FourierEncoder(3, frequencies=torch.rand(9)))


def test_axes_may_have_different_numbers_of_bands() -> None:
    x = torch.rand(6, 2)
    encoder = FourierEncoder(2, (1, 3), layout="akp")
    assert encoder.out_dim == 8
    expected = torch.cat([FourierEncoder(1, 1)(x[:, :1]), FourierEncoder(1, 3)(x[:, 1:])], -1)
    assert torch.equal(encoder(x), expected)
    assert encoder.columns[:3] == [(0, "sin", 0), (0, "cos", 0), (0, "sin", 1)]


@pytest.mark.parametrize("name", sorted(FOURIER))
def test_presets_are_frozen_and_know_their_columns(name: str) -> None:
    bands = (
        linear_bands(3, first=1.0, last=4.0) if "frequencies" in FOURIER[name].arguments else None
    )
    overrides = {} if bands is None else {"frequencies": bands}
    encoder = FourierEncoder.preset(name, 2, 3 if bands is None else None, **overrides)
    x = torch.rand(4, 2)
    along = x.double() if encoder.basis is None else x.double() @ encoder.basis.T
    features = encoder(x)
    for column, (band, phase, axis) in enumerate(encoder.columns):
        if phase == "x":
            expected = x[:, axis]
        else:
            angle = along[:, axis] * encoder.sincos.frequencies[band, axis]
            expected = getattr(torch, phase)(angle).float()
        torch.testing.assert_close(features[:, column], expected, atol=1e-6, rtol=0)
    with pytest.raises(TypeError):
        FOURIER[name].arguments["base"] = 3.0  # type: ignore[index]


# One preset of each order of columns.
ORDERS = {
    preset.arguments.get("layout"): name
    for name, preset in FOURIER.items()
    if "frequencies" not in preset.arguments
}


@pytest.mark.parametrize("source", ORDERS.values())
def test_a_checkpoint_ports_from_every_convention_to_every_other(source: str) -> None:
    same_bands = dict(base=FOURIER[source].arguments["base"], min_octave=0, max_octave=None)
    x = torch.rand(50, 3) * 2 - 1
    there = FourierEncoder.preset(source, 3, 5, **same_bands, include_input="front")
    network = nn.Sequential(nn.Linear(there.out_dim, 16), nn.ReLU(), nn.Linear(16, 3))
    before = network(there(x))
    for target in ORDERS.values():
        here = FourierEncoder.preset(target, 3, 5, **same_bands, include_input="back")
        assert torch.equal(here(x), there(x)[:, column_order(there, here)])
        first = port_linear(network[0], there, here)  # type: ignore[arg-type]
        after = nn.Sequential(first, *list(network)[1:])(here(x))
        torch.testing.assert_close(after, before, atol=1e-5, rtol=0)


def test_what_cannot_be_ported_is_refused() -> None:
    raw, plain = FourierEncoder.preset("nerf", 3, 4), FourierEncoder(3, 4, base=1.0)
    with pytest.raises(ValueError, match="different coordinates, bands or directions"):
        column_order(raw, FourierEncoder(3, 4))
    with pytest.raises(ValueError, match="the source has no column"):
        column_order(plain, raw)
    with pytest.raises(ValueError, match="would be lost"):
        port_linear(nn.Linear(raw.out_dim, 2), raw, plain)
    with pytest.raises(ValueError, match="takes 7 features and the source gives 27"):
        port_linear(nn.Linear(7, 2), raw, raw)


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused() -> None:
    encoder = FourierEncoder(2, 3)
    x = torch.zeros(4, 2)
    with pytest.raises(ValueError, match="variance or covariance, not both"):
        encoder(x, variance=x, covariance=torch.zeros(4, 2, 2))
    with pytest.raises(ValueError, match=r"covariance must have shape \(4, 2, 2\)"):
        encoder(x, covariance=torch.zeros(4, 2))
    with pytest.raises(TypeError, match=r"variance must be a torch\.Tensor; got float"):
        encoder(torch.zeros(4, 2), variance=0.1)
    with pytest.raises(ValueError, match=r"variance must have shape \(4, 2\)"):
        encoder(x, variance=torch.zeros(2))
    with pytest.raises(ValueError, match="weight or progress, not both"):
        encoder(x, weight=torch.ones(3), progress=0.5)
    with pytest.raises(ValueError, match="no preset 'nerv'; did you mean nerf"):
        FourierEncoder.preset("nerv", 3)
    with pytest.raises(ValueError, match="give frequencies="):
        FourierEncoder.preset("rff", 3)
    with pytest.raises(ValueError, match="num_bands must be one number or 3"):
        FourierEncoder(3, (1, 2))
    with pytest.raises(ValueError, match="basis must have shape"):
        FourierEncoder(2, basis=icosahedron_basis())


def test_rff_positional_encoding() -> None:
    # rff.functional.positional_encoding(v, sigma, m): cosines first, of 2 pi sigma^(j/m) v.
    sigma, m = 10.0, 4
    bands = ratio_bands(m, first=2 * math.pi, ratio=sigma ** (1 / m))
    x = torch.rand(3, 2)
    features = FourierEncoder.preset("rff", 2, frequencies=bands)(x)
    angles = 2 * math.pi * sigma ** (torch.arange(m).double() / m) * x.double()[..., None]
    expected = torch.cat([angles.cos(), angles.sin()], -1).flatten(-2)
    torch.testing.assert_close(features.double(), expected, atol=1e-6, rtol=0)


def test_constants_that_inference_moved_are_differentiated_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = FourierEncoder(3, 4, basis=icosahedron_basis())
    # As on another device: constants are copied at the first call.
    monkeypatch.setattr(encoder, "_constants_device", torch.device("meta"))
    monkeypatch.setattr(encoder, "_constant_on", lambda name, _: encoder._constants[name].clone())
    with torch.inference_mode():
        encoder(torch.rand(5, 3))
    x = torch.rand(5, 3, requires_grad=True)
    encoder(x).sum().backward()
    assert x.grad is not None


def test_trained_bands_begin_as_the_constant_ones_and_have_gradients() -> None:
    x = torch.rand(6, 2) * 2 - 1
    for arguments in ({}, {"include_input": "each"}, {"layout": "pka", "phases": ("cos", "sin")}):
        constant = FourierEncoder(2, 4, **arguments)
        trained = FourierEncoder(2, 4, trainable=True, **arguments)
        # The bands are rounded to float32, which moves 8 pi by 4e-7 of a radian.
        torch.testing.assert_close(trained(x), constant(x), atol=2e-6, rtol=0)

    def features(bands: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(trained, {"sincos.frequencies": bands}, (x,))  # type: ignore[no-any-return]

    bands = trained.frequency_bands.detach().double().requires_grad_()
    assert torch.autograd.gradgradcheck(features, (bands, x.double().requires_grad_()))
