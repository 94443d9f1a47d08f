"""Exact sines and cosines of coordinates on frequency bands.

Every encoder of this library is *bands -> angles -> sin/cos*, and every sine of a coordinate is
computed here. (Windows in `core.bands`, responses in `core.filters` and activations in `networks`
have sines of other things.) The two functions at the top are the definition, and `SinCos` holds the
constants of the bands. How rows are chunked and differentiated is in `core.speed`.

The coordinates stay float32 under autocast too: only the features are cast, because a coordinate
in bfloat16 has lost the digits that a high band multiplies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from nerf_posenc.core.bands import require_bands
from nerf_posenc.core.checks import (
    default_dtype,
    format_values,
    inside_transform,
    is_recorded,
    require_counts,
    require_tensor,
)
from nerf_posenc.core.columns import Phases, require_layout
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.core.speed import Sines, unrounded
from nerf_posenc.core.speed import exact_product as exact_product

if TYPE_CHECKING:
    from jaxtyping import Float, Num

RADIANS_PER_CYCLE = 2 * math.pi


def fraction_of_cycles(
    cycles: Float[Tensor, "*shape"], *, in_place: bool = False
) -> Float[Tensor, "*shape"]:
    """Take whole cycles away, which no sine depends on: the rest is within [-1/2, 1/2].

    Args:
        cycles: angles in cycles, 1 cycle = 2 pi rad.
        in_place: use the memory of ``cycles``.
    """
    whole = cycles.round()
    # Exact: the difference of two near numbers has no more digits than they have.
    return cycles.sub_(whole) if in_place else cycles - whole


def sine_of_fraction(
    fraction: Float[Tensor, "*shape"], phase: Float[Tensor, "*phases"], dtype: torch.dtype
) -> Float[Tensor, "*all"]:
    r"""Compute $\sin(\alpha)$, or $\cos(\alpha) = \sin(\alpha + \pi/2)$.

    NeRF's $\sin(2^k \pi x)$ (Mildenhall et al. 2020, equation 4) is the sine of $2^{k-1} x$
    cycles. ``torch.sin(math.pi * 2**k * x)`` rounds the whole angle, and its error doubles with
    each octave. Here the factor 2 pi comes after whole cycles have gone, and the error of float32
    stays within 3e-7 at every octave of pi, and of 1. The float64 cycles of any other band c
    are rounded: 3e-7 + 1.5e-15 abs(c), which is 1.5e-3 at 1e12 cycles.

    Args:
        fraction: fraction of cycles. It is exact in float32 for bands that are powers of two in
            cycles, since ``2**j * x`` changes only the exponent. For all others it is in float64,
            whose rounding of ``band * x`` is far below float32's digits.
        phase: 0 for a sine, pi / 2 for a cosine, in rad.
        dtype: type of the sines.
    """
    # Within [-pi, 3/2 pi]. One fused multiply-add: one rounding for 2 pi and the phase.
    angles = torch.add(phase, fraction, alpha=RADIANS_PER_CYCLE)
    return torch.sin(angles.to(dtype))


def sincos(
    x: Num[Tensor, "*batch in_dim"],
    frequencies: Float[Tensor, "num_bands *axes"],
    *,
    layout: str = "akp",
    phases: Phases = ("sin", "cos"),
    weight: Float[Tensor, " num_bands"] | None = None,
    variance: Float[Tensor, "*batch in_dim"] | None = None,
) -> Float[Tensor, "*batch out_dim"]:
    r"""Sines and cosines of every coordinate on every band.

    The columns hold $\sin(\omega_k x_a)$ and $\cos(\omega_k x_a)$; with a ``weight`` each
    is multiplied by $w_k$ (coarse-to-fine windows: Lin et al. 2021, BARF, equation 14), and with
    a ``variance`` by $\exp(-\omega_k^2 \sigma_a^2 / 2)$, which makes them the expectations
    over $\mathcal N(x_a, \sigma_a^2)$ (Barron et al. 2021, mip-NeRF, equation 13).

    To encode more than once on the same bands, keep a [SinCos][nerf_posenc.core.SinCos],
    which prepares the bands a single time.

    Args:
        x: coordinates, floating point of any range, or integer positions. Half-precision
            values are taken as they are and computed on in float32.
        frequencies: bands in rad per unit of the coordinate, ``(num_bands,)`` for all axes or
            ``(num_bands, in_dim)``; give float64, since they are taken at their exact value.
        layout: nesting of the columns, outermost first; one of ``LAYOUTS``.
        phases: order of sine and cosine.
        weight: factor of each band.
        variance: variance of each coordinate, in squared units of the coordinate.

    Returns:
        Features of width ``2 * num_bands * in_dim`` in ``x.dtype`` (integers: the default
        floating-point type).

    Raises:
        ValueError: If a shape, the layout or the phases do not fit.

    Examples:
        >>> from nerf_posenc.core import octave_bands
        >>> sincos(torch.tensor([[0.5]]), octave_bands(2)).round(decimals=4)
        tensor([[ 1., -0., -0., -1.]])
    """
    table = SinCos(x.shape[-1], frequencies, layout=layout, phases=phases).to(x.device)
    features: Tensor = table(x, weight=weight, variance=variance)
    return features


class SinCos(Encoder):
    """[sincos][nerf_posenc.core.sincos] with its bands prepared once and held on the device.

    The bands are constants in float64: they follow the module to a device, but neither
    ``.half()`` nor ``.to(dtype)`` reaches them, and they are not in the ``state_dict``.

    Args:
        in_dim: number of coordinates, 1 or more.
        frequencies: bands in rad per unit, ``(num_bands,)`` or ``(num_bands, in_dim)``; numbers
            in a list will do.
        layout: nesting of the columns, outermost first; one of ``LAYOUTS``.
        phases: ``("sin", "cos")`` or ``("cos", "sin")``.
        raw_side: side of the features on which ``forward`` puts the columns of ``raw``.

    Raises:
        ValueError: If a shape, the layout or the phases do not fit.

    Examples:
        >>> from nerf_posenc.core import octave_bands
        >>> SinCos(3, octave_bands(10))(torch.rand(8, 3)).shape
        torch.Size([8, 60])
    """

    takes_variance = True

    _cycles: Tensor
    _omega: Tensor
    _phase_angles: Tensor
    row: Tensor | None

    def __init__(
        self,
        in_dim: int,
        frequencies: Float[Tensor, "num_bands *axes"] | Sequence[float],
        *,
        layout: str = "akp",
        phases: Phases = ("sin", "cos"),
        raw_side: Literal["front", "back"] = "front",
    ) -> None:
        bands = torch.as_tensor(frequencies, dtype=torch.float64, device="cpu").detach()
        require_counts(in_dim=in_dim)
        require_layout(layout, phases)
        require_bands(bands, in_dim)
        super().__init__(in_dim, 2 * len(bands) * in_dim)
        self.num_bands = len(bands)
        self.frequencies = bands if bands.ndim == 2 else bands[:, None].expand(-1, in_dim)
        self.layout = layout
        self.phases = phases
        self.raw_side = raw_side
        # Features are computed as (n, *columns), the sizes of the layout's letters, and flattened.
        sizes = dict(k=self.num_bands, p=2, a=in_dim)
        self._columns = tuple(sizes[letter] for letter in layout)
        self._phase_dim = 1 + layout.index("p")
        # Angles have no phases: they are (n, k, a), or (n, a, k) where the axes stand outside.
        self._band_dim = 1 if layout.index("k") < layout.index("a") else 2
        is_cosine = torch.tensor([phase == "cos" for phase in phases], device="cpu")
        self.register_constant("_phase_angles", is_cosine.double() * (RADIANS_PER_CYCLE / 4))
        self._register_bands()

    def _register_bands(self) -> None:
        """Hold the bands in rad and in cycles per unit, and whether they are exact in float32."""
        # (k, a), or (k, 1) if all axes have the same bands; transposed for (n, a, k).
        self._is_shared = is_shared = bool((self.frequencies == self.frequencies[:, :1]).all())
        omega = self.frequencies[:, :1] if is_shared else self.frequencies
        omega = omega if self._band_dim == 1 else omega.T
        cycles = omega / RADIANS_PER_CYCLE
        self._is_by_band = self.layout == "kpa" and is_shared and self.in_dim > 1
        self._is_unit = bool((cycles == 1).all())
        self.is_exact = _are_powers_of_two(cycles)
        self.is_exact_in_radians = _are_powers_of_two(omega)
        # A product with a power of two is exact in float32; any other band needs float64's digits.
        dtype = torch.float32 if self.is_exact else torch.float64
        self.register_constant("_cycles", cycles.to(dtype).contiguous())
        self.register_constant("_omega", omega.contiguous())
        # Cycles per unit and phases of the columns (k, p) or (p, k) of one axis, if all have them.
        rows = torch.broadcast_tensors(cycles.float().reshape(-1, 1), self._phase_angles.float())
        row = torch.stack([each if self.layout == "akp" else each.T for each in rows]).flatten(1)
        is_row = self.layout[0] == "a" and is_shared and self.is_exact
        self.register_constant("row", row if is_row else None)

    def _constant_on(self, name: str, device: torch.device) -> Tensor:
        # MPS has no float64: angles that need it are computed on the CPU.
        value = self._constants[name]
        return value if device.type == "mps" and value.dtype == torch.float64 else value.to(device)

    def forward(
        self,
        x: Num[Tensor, "*batch coordinates"],
        *,
        weight: Float[Tensor, " num_bands"] | None = None,
        variance: Float[Tensor, "*batch in_dim"] | None = None,
        basis: Float[Tensor, "in_dim coordinates"] | None = None,
        raw: Float[Tensor, "*batch num_raw"] | None = None,
        out_dtype: torch.dtype | None = None,
    ) -> Float[Tensor, "*batch out_dim_and_raw"]:
        """Encode coordinates; see [sincos][nerf_posenc.core.sincos].

        Args:
            x: coordinates or integer positions.
            weight: factor of each band.
            variance: variance of each coordinate.
            basis: directions to encode along, instead of the axes of ``x``.
            raw: columns to put beside the features, as they are.
            out_dtype: type of the features; None is that of the coordinates. Float64 coordinates
                and float32 features have exact angles and the speed of float32 sines.

        Raises:
            ValueError: If a shape does not fit.
        """
        self._require_shapes(x, weight, variance, basis)
        self.move_constants(x.device)
        dtype = out_dtype
        if dtype is None:
            dtype = x.dtype if x.is_floating_point() else default_dtype()
        # Half precision would round the angles: sines are computed in float32 and rounded once.
        sine_dtype = torch.float64 if dtype == torch.float64 else torch.float32
        if x.dtype in (torch.float16, torch.bfloat16):
            x = x.float()
        batch = x.shape[:-1]
        if len(batch) != 1:
            x = x.reshape(-1, x.shape[-1])
            raw = None if raw is None else raw.reshape(-1, raw.shape[-1])
        if weight is None and variance is None:
            features = self.evaluated(x, sine_dtype, basis, raw)
        else:
            waves = self.evaluated(x, sine_dtype, basis)
            features = self._joined(self._weighted(waves, weight, variance), raw)
        if features.dtype != dtype:
            features = features.to(dtype)
        return features if len(batch) == 1 else features.reshape(*batch, features.shape[-1])

    def _require_shapes(
        self, x: Tensor, weight: Tensor | None, variance: Tensor | None, basis: Tensor | None
    ) -> None:
        require_tensor(x, "x")
        in_dim = self.in_dim if basis is None else basis.shape[1]
        if x.ndim == 0 or x.shape[-1] != in_dim:
            raise ValueError(
                f"x must have shape (*batch, {in_dim}), the last dimension being the "
                f"coordinates; got {tuple(x.shape)}"
            )
        if weight is not None and weight.shape != (self.num_bands,):
            raise ValueError(
                f"weight must have shape ({self.num_bands},), one factor per band; "
                f"got {tuple(weight.shape)}"
            )
        shape = (*x.shape[:-1], self.in_dim)
        if variance is not None and variance.shape != shape:
            raise ValueError(
                f"variance must have the shape of x, {shape}; got {tuple(variance.shape)}"
            )

    def evaluated(
        self,
        x: Num[Tensor, "n coordinates"],
        dtype: torch.dtype,
        basis: Tensor | None = None,
        raw: Tensor | None = None,
    ) -> Float[Tensor, "n out_dim_and_raw"]:
        """Compute features of rows, beside their raw columns; differentiable.

        Args:
            x: coordinates.
            dtype: type of the features, float32 or float64.
            basis: directions, or None for the axes.
            raw: raw columns, or None.
        """
        if is_recorded() or inside_transform():
            # Compilers and exporters fuse plain operations themselves, and forward mode
            # differentiates them more than once, which it does not with an autograd function.
            return self.recorded(x, dtype, basis, raw)
        inputs = [t for t in (x, basis, raw) if t is not None]
        is_differentiated = torch.is_grad_enabled() and any(t.requires_grad for t in inputs)
        evaluate = Sines.apply if is_differentiated else Sines.forward
        features: Tensor = evaluate(x, basis, raw, self, dtype)
        return features

    def recorded(
        self, x: Tensor, dtype: torch.dtype, basis: Tensor | None, raw: Tensor | None
    ) -> Tensor:
        """`evaluated` by plain operations alone."""
        waves = list(self.waves(x, dtype, basis))
        return self._joined(torch.stack(waves, self._phase_dim).flatten(1), raw)

    def waves(
        self,
        x: Num[Tensor, "n coordinates"],
        dtype: torch.dtype,
        basis: Tensor | None = None,
        *,
        in_place: bool = False,
    ) -> Iterator[Float[Tensor, "n _ _"]]:
        """Yield one phase of all bands and axes, then the other, in the layout without phases.

        Args:
            x: coordinates.
            dtype: type of the sines.
            basis: directions, or None for the axes.
            in_place: compute in as few arrays as possible, without derivatives.
        """
        device, angles = x.device, None
        if basis is not None:
            x = project(x, basis)
            if self._is_unit:
                # The products are cycles already. In float64, one operation takes the whole ones
                # away, and angles within 2 pi are rounded to float32 once.
                x = x.frac_().mul_(RADIANS_PER_CYCLE) if in_place else x.frac() * RADIANS_PER_CYCLE
                angles = x.unsqueeze(self._band_dim).to(device, dtype)
        elif self.is_exact_in_radians and x.dtype == dtype and device.type != "mps":
            # Powers of two are exact in radians too, as NeRF's own code has them, and the sines of
            # torch take their whole cycles away with all digits of pi, but for MPS.
            angles = self._multiplied(x, self._omega)
        elif not (self.is_exact and x.dtype == torch.float32):
            x = _in_float64(x)
        if angles is not None:
            # A quarter of a cycle is not exact in radians, so the cosine is computed as such.
            for phase in self.phases:
                yield torch.sin(angles) if phase == "sin" else torch.cos(angles)
            return
        fraction = fraction_of_cycles(self._multiplied(x, self._cycles), in_place=in_place)
        for phase_angle in self._phase_angles.to(fraction).unbind():
            yield sine_of_fraction(fraction, phase_angle, dtype).to(device)

    def _multiplied(self, x: Tensor, bands: Tensor) -> Tensor:
        """Products of ``x``, ``(n, a)``, with bands in the layout."""
        bands = bands.to(x)
        if self._is_by_band:
            # In memory (k, n, a): one scalar times contiguous rows is fast, as are its sines.
            return (x * bands[:, None]).movedim(0, 1)
        return x.unsqueeze(self._band_dim) * bands

    def raw_part(self, features: Tensor) -> Tensor:
        """View of the raw columns of features ``(n, width)``."""
        first = 0 if self.raw_side == "front" else self.out_dim
        return features.narrow(1, first, features.shape[1] - self.out_dim)

    def sinusoid_part(self, features: Tensor) -> Tensor:
        """View of all columns but the raw ones."""
        num_raw = features.shape[1] - self.out_dim
        first = num_raw if self.raw_side == "front" else 0
        return features.narrow(1, first, self.out_dim) if num_raw else features

    def phase_parts(self, features: Tensor) -> tuple[Tensor, ...]:
        """Views of the columns of each phase, in the shape and order of `waves`."""
        columns = self.sinusoid_part(features).view(len(features), *self._columns)
        return columns.unbind(self._phase_dim)

    def gradient(
        self, grad: Float[Tensor, "n width"], features: Float[Tensor, "n width"]
    ) -> Float[Tensor, "n in_dim"]:
        """Gradient with respect to coordinates, from features and the gradient of each."""
        order = 1 if self.phases[0] == "sin" else -1
        sines, cosines = self.phase_parts(features)[::order]
        of_sines, of_cosines = self.phase_parts(grad)[::order]
        # d sin(omega x) = omega cos(omega x) dx and d cos(omega x) = -omega sin(omega x) dx.
        of_angles = torch.addcmul(of_sines * cosines, of_cosines, sines, value=-1)
        # Each coordinate has an angle on every band: sum over the bands.
        if not self._is_shared:
            return (of_angles * self._omega.to(grad)).sum(self._band_dim)
        if self.num_bands == 1:
            return (of_angles * self._omega.to(grad)).squeeze(self._band_dim)
        of_angles = unrounded(of_angles)
        omega = self._omega.to(of_angles).mT
        # (n, a, k) @ (k, 1) or (1, k) @ (n, k, a)
        factors = (of_angles, omega) if self._band_dim == 2 else (omega, of_angles)
        return exact_product(*factors).squeeze(self._band_dim)

    def _joined(self, columns: Tensor, raw: Tensor | None) -> Tensor:
        """Put raw columns on their side of the others."""
        if raw is None:
            return columns
        raw = raw.to(columns.dtype)
        return torch.cat([raw, columns] if self.raw_side == "front" else [columns, raw], dim=-1)

    def _weighted(self, features: Tensor, weight: Tensor | None, variance: Tensor | None) -> Tensor:
        """Multiply features ``(n, out_dim)`` by the factors of their bands."""
        features = features.unflatten(1, self._columns)
        if weight is not None:
            factor = weight.to(features).unsqueeze(2 - self._band_dim)
            features = features * factor.unsqueeze(self._phase_dim - 1)
        if variance is not None:
            omega = self._omega.to(features)
            # E[sin(omega x)] of a normal x is sin(omega mean) exp(-omega^2 variance / 2), mip-NeRF.
            variance = variance.reshape(len(features), self.in_dim).to(features)
            exponent = variance.unsqueeze(self._band_dim) * omega * omega
            features = features * torch.exp(-0.5 * exponent).unsqueeze(self._phase_dim)
        return features.flatten(1)

    def convention(self) -> str:
        """Describe bands, layout and phases, for an encoder's ``repr``."""
        is_shared = not self.frequencies.is_meta and bool(
            (self.frequencies == self.frequencies[:, :1]).all()
        )
        bands = self.frequencies[:, :1] if is_shared else self.frequencies
        return f"frequencies={format_values(bands)}, layout={self.layout!r}, phases={self.phases!r}"

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        return f"in_dim={self.in_dim}, out_dim={self.out_dim}, {self.convention()}"


class TrainableSinCos(SinCos):
    """[SinCos][nerf_posenc.core.SinCos] whose bands are a parameter, in the ``state_dict``.

    They are held in float32, or in float64 where the default floating-point type is that, and
    derivatives reach them and the coordinates alike, of any order.
    """

    uncast = ("frequencies",)

    frequencies: Tensor

    def _register_bands(self) -> None:
        self.is_exact = self.is_exact_in_radians = self._is_by_band = self._is_unit = False
        self.row = None
        device = torch.get_default_device()
        self._initial = self.frequencies
        self.frequencies = nn.Parameter(self._initial.to(device, default_dtype(), copy=True))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Set the bands that the constructor was given."""
        with torch.no_grad():
            self.frequencies.copy_(self._initial)

    def evaluated(
        self, x: Tensor, dtype: torch.dtype, basis: Tensor | None = None, raw: Tensor | None = None
    ) -> Tensor:
        """Features that are differentiable with respect to the bands, too."""
        self.require_set()
        return self.recorded(x, dtype, basis, raw)

    @property
    def _omega(self) -> Tensor:  # type: ignore[override]
        omega = _in_float64(self.frequencies)
        return omega if self._band_dim == 1 else omega.T

    @property
    def _cycles(self) -> Tensor:  # type: ignore[override]
        return self._omega / RADIANS_PER_CYCLE


def _are_powers_of_two(values: Tensor) -> bool:
    # frexp gives mantissas in [0.5, 1): 0.5 is a power of two, and 0 a constant column.
    mantissa = torch.frexp(values).mantissa.abs()
    return bool(((mantissa == 0.5) | (mantissa == 0)).all())


def project(
    x: Float[Tensor, "*batch in_dim"], matrix: Float[Tensor, "num_directions in_dim"]
) -> Float[Tensor, "*batch num_directions"]:
    """Coordinates along other directions, ``x @ matrix.T``, in float64.

    A float32 product would lose digits that a high band multiplies, and autocast and the
    switches for TF32 and bfloat16 products do not affect one in float64.

    Args:
        x: coordinates.
        matrix: one direction per row.

    Returns:
        Float64 on the device of ``x`` (MPS has none: there, on the CPU).
    """
    return _in_float64(x) @ _in_float64(matrix).T.contiguous()


def _in_float64(x: Tensor) -> Tensor:
    return x.to("cpu" if x.device.type == "mps" else x.device, torch.float64)


def project_cycles(
    x: Float[Tensor, "*batch in_dim"], matrix: Float[Tensor, "num_directions in_dim"]
) -> Float[Tensor, "*batch num_directions"]:
    """Cycles along other directions, as `project` gives them, on the device of ``x``.

    Args:
        x: coordinates.
        matrix: cycles per unit of the coordinate, one direction per row.

    Returns:
        Float64; on MPS, which has none, float32 of what whole cycles leave: as many digits.
    """
    cycles = project(x, matrix)
    if x.device.type == "mps":
        cycles = (cycles - cycles.round()).float()
    return cycles.to(x.device)
