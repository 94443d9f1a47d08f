"""Activations of coordinate networks that need no encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Float, Inexact


class Sine(nn.Module):
    """The activation of SIREN, sin(omega z) (Sitzmann et al. 2020, equation 5)."""

    def __init__(self, omega: float = 30.0) -> None:
        super().__init__()
        self.omega = omega

    def forward(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply to every value."""
        return torch.sin(self.omega * z)


class FinerSine(nn.Module):
    """The activation of FINER, sin(omega (|z| + 1) z) (Liu et al. 2024).

    As in the authors' code, no gradient goes through ``|z| + 1``.
    """

    def __init__(self, omega: float = 30.0) -> None:
        super().__init__()
        self.omega = omega

    def forward(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply to every value."""
        return torch.sin(self.omega * (z.detach().abs() + 1) * z)


class GaussianBump(nn.Module):
    """The Gaussian activation, exp(-(scale z)^2) (Ramasinghe and Lucey 2022)."""

    def __init__(self, scale: float = 30.0) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply to every value."""
        return torch.exp(-((self.scale * z) ** 2))


class GaborWavelet(nn.Module):
    """The activation of WIRE, exp(i omega z - |scale z|^2) (Saragadam et al. 2023).

    For real values it is complex; ``real`` keeps its real part.
    """

    def __init__(self, omega: float = 20.0, scale: float = 10.0, *, real: bool = False) -> None:
        super().__init__()
        self.omega = omega
        self.scale = scale
        self.real = real

    def forward(self, z: Inexact[Tensor, "*shape"]) -> Inexact[Tensor, "*shape"]:
        """Apply to every value."""
        if self.real:
            return torch.cos(self.omega * z) * torch.exp(-((self.scale * z) ** 2))
        return torch.exp(1j * self.omega * z - (self.scale * z.abs()) ** 2)


class FromSymmetric(nn.Module):
    """Map of values in [-1, 1] to [0, 1]: (y + 1) / 2."""

    def forward(self, y: Inexact[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Map every value, or the real part of complex values."""
        return (y.real + 1) / 2 if y.is_complex() else (y + 1) / 2
