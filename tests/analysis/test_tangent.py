"""The tangent kernel against models whose training is known in closed form, or is run."""

import pytest
import torch
from torch import nn

from nerf_posenc import FourierEncoder
from nerf_posenc.analysis.tangent import forecast_gradient_descent, gradient_descent, tangent_kernel
from nerf_posenc.images import Image
from nerf_posenc.networks import MLP


def linear_model(generator: torch.Generator) -> nn.Linear:
    model = nn.Linear(6, 3, dtype=torch.float64)
    for parameter in model.parameters():
        nn.init.normal_(parameter, generator=generator)
    return model


def test_the_kernel_of_a_linear_model_is_the_product_of_its_inputs() -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(5, 6, dtype=torch.float64, generator=generator)
    found = tangent_kernel(linear_model(generator), points, chunk_size=2)
    # Each output has weights of its own, and a bias.
    expected = torch.kron(points @ points.T + 1, torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(found, expected)


def test_the_closed_form_is_gradient_descent_of_a_linear_model() -> None:
    generator = torch.Generator().manual_seed(1)
    model = linear_model(generator)
    points = torch.randn(8, 6, dtype=torch.float64, generator=generator)
    target = torch.randn(8, 3, dtype=torch.float64, generator=generator)
    initial = model(points).detach().flatten()
    kernel = tangent_kernel(model, points)
    forecast = gradient_descent(kernel, initial, target.flatten(), lr=0.3, steps=40)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for _ in range(40):
        optimizer.zero_grad()
        (model(points) - target).square().mean().backward()
        optimizer.step()
    torch.testing.assert_close(forecast, model(points).detach().flatten())


@pytest.mark.slow
def test_a_wide_network_trains_as_its_kernel_says() -> None:
    x = torch.linspace(0.3, 0.7, 8)
    image = Image.from_rgb((x[:, None] * x.flip(0))[..., None].expand(8, 8, 3).contiguous())
    encoder = FourierEncoder(2, num_bands=3)
    network = MLP(12, 3, width=512, depth=1, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(encoder, network)
    forecast = forecast_gradient_descent(image, encoder, network, lr=0.2, steps=30)
    points, target = image.coordinates.reshape(-1, 2), image.rgb.reshape(-1, 3)
    with torch.no_grad():
        before = float((model(points) - target).square().mean())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for _ in range(30):
        optimizer.zero_grad()
        (model(points) - target).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        after = float((model(points) - target).square().mean())
    total = sum(10 ** (-band.psnr / 10) for band in forecast)
    assert after < before / 10
    # What is not linear in the weights is of the order of the way that the outputs went.
    assert abs(total - after) < 0.02 * before


def test_no_steps_leave_the_outputs_as_they_are() -> None:
    kernel, initial = torch.eye(3), torch.tensor([1.0, 2.0, 3.0])
    found = gradient_descent(kernel, initial, torch.zeros(3), lr=0.1, steps=0)
    torch.testing.assert_close(found, initial.double())


def test_a_diverging_rate_is_refused_and_the_largest_that_does_not_is_named() -> None:
    with pytest.raises(ValueError, match=r"use 0\.75 or less"):
        gradient_descent(4 * torch.eye(3), torch.ones(3), torch.zeros(3), lr=1.0, steps=1)


def test_what_has_no_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="no trainable parameters"):
        tangent_kernel(nn.Sigmoid(), torch.zeros(2, 2))
    image = Image.from_rgb(torch.zeros(64, 64, 3))
    encoder, network = FourierEncoder(2, num_bands=1), MLP(4, 3, width=4, depth=1)
    with pytest.raises(ValueError, match="up to 2,048 pixels; got 64 x 64"):
        forecast_gradient_descent(image, encoder, network, lr=0.1, steps=1)
    with pytest.raises(ValueError, match="steps must be"):
        gradient_descent(torch.eye(2), torch.ones(2), torch.zeros(2), lr=0.1, steps=-1)
