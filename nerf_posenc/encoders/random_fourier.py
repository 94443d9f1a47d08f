"""Fourier features of sampled frequencies, which may be trained."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nerf_posenc.core.checks import (
    default_dtype,
    format_values,
    require_coordinates,
    require_counts,
    require_not_negative,
    require_positive,
)
from nerf_posenc.core.columns import IncludeInput, Phases, raw_side
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.core.filters import Filter, filtered
from nerf_posenc.core.sinusoids import SinCos, project_cycles
from nerf_posenc.core.speed import exact_product

if TYPE_CHECKING:
    from jaxtyping import Float

_NUM_FEATURES = 256


class GaussianEncoder(Encoder):
    r"""Random Fourier features: all sines, then all cosines, of sampled frequencies.

    $$\gamma(x) = \big(\sin(2 \pi B x), \cos(2 \pi B x)\big), \quad
      B_{ij} \sim \mathcal N(0, \sigma^2)$$

    (Tancik et al. 2020, equation 5; Rahimi and Recht 2007). The matrix is in the
    ``state_dict``, and no cast reaches it: it stays float32 (or float64, if one is given).
    With ``trainable=True`` it is a parameter (Li et al. 2021, arXiv:2106.02795).

    Args:
        in_dim: number of coordinates, 1 or more.
        num_features: number m of frequencies, 1 or more; there are twice as many columns.
        sigma: standard deviation of the frequencies, in cycles per unit of the coordinate.
            For coordinates in [-1, 1] it is half of what the paper has for [0, 1].
        matrix: frequencies to use instead of sampled ones, ``(num_features, in_dim)`` in
            cycles per unit.
        phases: ``("sin", "cos")`` as in the paper, ``("cos", "sin")`` as in the rff package.
        offsets: phase of each frequency in cycles, ``(num_features,)``; the features are then the
            cosines $\cos(2 \pi (B x + b))$ alone, as in AlphaFold 3 (Boltz), RoMa, and
            EDM2, which multiplies them by the square root of 2. ``phases`` is not used then.
        include_input: put the raw coordinates before (``"front"``) or after (``"back"``) the
            features. True is ``"front"``, False is None.
        trainable: train the frequencies, and the offsets where there are any, from these values on.
        generator: random number generator; None is torch's own.
        out_dtype: type of the features; None is the type that the module was last cast to, or that
            of the coordinates.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> GaussianEncoder(2, 128, sigma=10.0)(torch.rand(5, 2)).shape
        torch.Size([5, 256])
    """

    children_in_repr = ("sincos",)
    takes_variance = True
    uncast = ("matrix", "offsets")

    matrix: Tensor
    offsets: Tensor | None

    def __init__(
        self,
        in_dim: int,
        num_features: int | None = None,
        *,
        sigma: float = 10.0,
        matrix: Float[Tensor, "num_features in_dim"] | None = None,
        phases: Phases = ("sin", "cos"),
        offsets: Float[Tensor, " num_features"] | None = None,
        include_input: IncludeInput | bool = None,
        trainable: bool = False,
        generator: torch.Generator | None = None,
        out_dtype: torch.dtype | None = None,
    ) -> None:
        num_features, dtype = _shape_and_dtype(in_dim, num_features, sigma, matrix)
        if offsets is not None:
            if offsets.shape != (num_features,):
                raise ValueError(
                    f"offsets must have shape ({num_features},), one for each frequency; got "
                    f"{tuple(offsets.shape)}"
                )
            phases = ("cos", "sin")
        self.include_input = raw_side(include_input)
        self._num_waves = (2 if offsets is None else 1) * num_features
        super().__init__(in_dim, self._num_waves + (in_dim if self.include_input else 0))
        self.out_dtype = out_dtype
        one_cycle = torch.tensor([2 * math.pi], dtype=torch.float64, device="cpu")
        self.sincos = SinCos(num_features, one_cycle, layout="pka", phases=phases)
        self.sigma = sigma
        self._initial = {"matrix": matrix, "offsets": offsets}
        device = None if matrix is None else matrix.device
        for name, shape in (("matrix", (num_features, in_dim)), ("offsets", (num_features,))):
            values = torch.empty(shape, dtype=dtype, device=device)
            if name == "offsets" and offsets is None:
                self.register_buffer(name, None)
            elif trainable:
                self.register_parameter(name, nn.Parameter(values))
            else:
                self.register_buffer(name, values)
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the matrix, or set the one that the constructor was given, and the offsets."""
        with torch.no_grad():
            for name, values in self._initial.items():
                if values is not None:
                    getattr(self, name).copy_(values)
                elif name == "matrix":
                    shape, device = (
                        self.matrix.shape,
                        None if generator is None else generator.device,
                    )
                    drawn = torch.randn(
                        shape, generator=generator, device=device, dtype=default_dtype()
                    )
                    self.matrix.copy_(drawn.mul_(self.sigma))

    @property
    def frequencies(self) -> Float[Tensor, "out_dim in_dim"]:
        """Angular frequency of each column, rad per unit; 0 for the raw input."""
        omega = self.matrix * (2 * math.pi)
        omega = torch.cat([omega, omega]) if self.offsets is None else omega
        return self._beside(omega, omega.new_zeros(self.in_dim, self.in_dim), dim=0)

    def forward(
        self,
        x: Float[Tensor, "*batch in_dim"],
        *,
        variance: Float[Tensor, "*batch in_dim"] | None = None,
        filter: Filter | None = None,
    ) -> Float[Tensor, "*batch out_dim"]:
        """Encode coordinates.

        Args:
            x: coordinates of any range and batch shape.
            variance: variance of each coordinate; the features become expectations over a Gaussian.
            filter: filter whose mean around each point the features become; see
                [FourierEncoder][nerf_posenc.FourierEncoder].

        Returns:
            Features in ``out_dtype``.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If a shape does not fit.
        """
        require_coordinates(x, self.in_dim)
        self.require_set()
        along = None
        if variance is not None:
            require_not_negative(variance, "variance")
            along = exact_product(variance, self.matrix.T.square().to(variance))
        dtype = self.features_dtype(x)
        if self.offsets is None and along is None:
            features: Tensor = self.sincos(x, basis=self.matrix, out_dtype=dtype)
        else:
            cycles = project_cycles(x, self.matrix)
            if self.offsets is not None:
                cycles = cycles + self.offsets.to(cycles)
            features = self.sincos(cycles, variance=along, out_dtype=dtype)
        if self.offsets is not None:
            features = features[..., : self._num_waves]  # The cosines.
        features = self._beside(features, x.to(features.dtype), dim=-1)
        return features if filter is None else filtered(features, filter, self.frequencies)

    def _beside(self, waves: Tensor, raw: Tensor, dim: int) -> Tensor:
        """Put the raw columns on their side, if there are any."""
        if self.include_input is None:
            return waves
        return torch.cat([raw, waves] if self.include_input == "front" else [waves, raw], dim)

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        return (
            f"in_dim={self.in_dim}, out_dim={self.out_dim}, matrix={format_values(self.matrix)}, "
            + (
                f"phases={self.sincos.phases!r}"
                if self.offsets is None
                else f"offsets={format_values(self.offsets)}"
            )
            + (f", include_input={self.include_input!r}" if self.include_input else "")
            + (", trainable=True" if isinstance(self.matrix, nn.Parameter) else "")
            + (f", out_dtype={self.out_dtype}" if self.out_dtype else "")
        )


def _shape_and_dtype(
    in_dim: int, num_features: int | None, sigma: float, matrix: Tensor | None
) -> tuple[int, torch.dtype]:
    """Number of frequencies, and their type: float32, or float64 if a matrix has that."""
    if matrix is not None:
        if matrix.ndim != 2 or matrix.shape[1] != in_dim or len(matrix) == 0:
            raise ValueError(
                f"matrix must have shape (num_features, {in_dim}) with 1 feature or more; "
                f"got {tuple(matrix.shape)}"
            )
        if num_features not in (None, len(matrix)):
            raise ValueError(f"num_features is {num_features}, and matrix has {len(matrix)} rows")
        return len(matrix), torch.promote_types(matrix.dtype, torch.float32)
    num_features = _NUM_FEATURES if num_features is None else num_features
    require_counts(in_dim=in_dim, num_features=num_features)
    require_positive(sigma=sigma)
    return num_features, torch.float32
