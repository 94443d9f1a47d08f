"""Closed-form training of a small network by its neural tangent kernel (NTK)."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, jacrev

from nerf_posenc.core.encoder import Encoder, require_positive
from nerf_posenc.images import Image
from nerf_posenc.metrics.spectrum import BandScore, psnr_by_band

# A kernel of so many outputs takes 0.3 GB in float64 and its eigenvectors a minute.
_MOST_OUTPUTS = 6144


def tangent_kernel(
    model: nn.Module, points: Float[Tensor, "n in_dim"], *, chunk_size: int = 64
) -> Float[Tensor, "outputs outputs"]:
    r"""Neural tangent kernel of a model at some points.

    $K = J J^\top$ with $J$ the derivative of all outputs at all points by all trainable
    parameters (Jacot et al. 2018, equation 7, at finite width). Small steps of gradient descent
    train the eigenvectors of large eigenvalues first; an encoding of higher frequency
    raises the eigenvalues of fine detail (Tancik et al. 2020, section 4).

    Args:
        model: function from ``(n, in_dim)`` to ``(n, out_dim)``.
        points: points that it is evaluated at, in the type of the model.
        chunk_size: points whose derivatives are in memory at once.

    Returns:
        In float64, symmetric, positive semidefinite; outputs are counted point by point.

    Raises:
        ValueError: If the model has no trainable parameters.
    """
    parameters = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
    if not parameters:
        raise ValueError("the model has no trainable parameters, so it has no tangent kernel")

    def values(parameters: dict[str, Tensor], chunk: Tensor) -> Tensor:
        outputs: Tensor = functional_call(model, parameters, (chunk,))
        return outputs.flatten()

    rows = []
    for chunk in points.split(chunk_size):
        derivatives = jacrev(values)(parameters, chunk)
        rows.append(torch.cat([d.flatten(1) for d in derivatives.values()], dim=1).double())
    jacobian = torch.cat(rows)
    return jacobian @ jacobian.T


def gradient_descent(
    kernel: Float[Tensor, "outputs outputs"],
    initial: Float[Tensor, " outputs"],
    target: Float[Tensor, " outputs"],
    *,
    lr: float,
    steps: int,
) -> Float[Tensor, " outputs"]:
    r"""Outputs after full-batch gradient descent on the mean squared error, in closed form.

    With the kernel held constant, each eigenmode of eigenvalue $\lambda$ shrinks by
    $1 - 2 \eta \lambda / m$ per step, for $m$ outputs. Exact for a model that is linear in its
    parameters; for a network an approximation that is better the wider it is and the less it
    moves (Lee et al. 2019, equation 8, in discrete time).

    Args:
        kernel: tangent kernel at the points of the targets.
        initial: outputs before training.
        target: what they are fitted to.
        lr: learning rate, finite and positive.
        steps: 0 or more.

    Raises:
        ValueError: If the learning rate is so large that descent diverges, or a number is out of
            its range.
    """
    require_positive(lr=lr)
    if steps < 0:
        raise ValueError(f"steps must be 0 or more; got {steps}")
    eigenvalues, vectors = torch.linalg.eigh(kernel.double())
    factors = 1 - 2 * lr * eigenvalues.clamp(min=0) / len(kernel)
    if bool((factors < -1).any()):
        highest = float(len(kernel) / eigenvalues[-1])
        raise ValueError(f"gradient descent diverges at lr {lr:.4g}; use {highest:.4g} or less")
    error = vectors.T @ (initial - target).double()
    final: Tensor = target.double() + vectors @ (torch.pow(factors, steps) * error)
    return final


def forecast_gradient_descent(
    image: Image, encoder: Encoder, network: nn.Module, *, lr: float, steps: int
) -> list[BandScore]:
    """Forecast PSNR by octave after full-batch gradient descent, without a step of it.

    Args:
        image: small; its fitted pixels.
        encoder: encoder of its coordinates; its own parameters count too.
        network: network from features to RGB, as it is initialized.
        lr: learning rate of plain gradient descent, constant.
        steps: number of steps with full batches.

    Raises:
        ValueError: If the image has more than 2,048 pixels, or descent diverges.
    """
    width, height = image.size
    if width * height * 3 > _MOST_OUTPUTS:
        raise ValueError(
            f"the tangent kernel is for images of up to {_MOST_OUTPUTS // 3:,} pixels; got "
            f"{width} x {height}; reduce it by image.resized, or use forecast"
        )
    model = nn.Sequential(encoder, network)
    points = image.coordinates.reshape(-1, 2)
    with torch.no_grad():
        initial = _outputs(model, points)
    kernel = tangent_kernel(model, points)
    final = gradient_descent(kernel, initial, image.rgb.flatten(), lr=lr, steps=steps)
    return psnr_by_band(final.reshape(height, width, 3), image.rgb)


def _outputs(model: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
    outputs: Tensor = model(points).flatten().double()
    return outputs
