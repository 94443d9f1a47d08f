"""Exact sines and cosines of coordinates on frequency bands.

Every encoder of this library is *bands -> angles -> sin/cos*, and no sinusoid is computed outside
`core`. The two functions at the top are the definition; `SinCos` holds the constants of the bands
and chooses between them. How rows are chunked and differentiated is in `core.fused_sinusoids`.

The coordinates stay float32 under autocast too: only the features are cast, because a coordinate
in bfloat16 has lost the digits that a high band multiplies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nerf_posenc.core.bands import require_bands
from nerf_posenc.core.columns import Phases, require_layout
from nerf_posenc.core.encoder import (
    format_values,
    has_values,
    in_forward_mode,
    is_recorded,
    require_counts,
    require_tensor,
    without_autocast,
)
from nerf_posenc.core.fused_sinusoids import Arrays, PairedColumns

if TYPE_CHECKING:
    from jaxtyping import Float, Num

RADIANS_PER_CYCLE = 2 * math.pi
# Cycles in float64 that stay in the cache of a core beside what is made of them.
_PART = 1 << 16


def sines_of_cycles(
    x: Num[Tensor, "rows _ _ _"],
    cycles_per_unit: Float[Tensor, "_ _ _"],
    offset: Float[Tensor, " out_dim"],
    dtype: torch.dtype,
    out: Float[Tensor, "rows out_dim"] | None = None,
) -> Float[Tensor, "rows out_dim"]:
    r"""Compute $\sin(2\pi \cdot 2^{k-1} x)$ and $\cos(2\pi \cdot 2^{k-1} x)$, or other bands.

    Mildenhall et al. 2020, equation 4, with $\cos \alpha = \sin(\alpha + \pi/2)$ and the angle in
    **cycles** (1 cycle = 2 pi rad) as long as possible. The error of float32 stays near 2e-7 at
    every octave; that of ``torch.sin(math.pi * 2**k * x)`` doubles with each.

    Args:
        x: coordinates, of size 1 along the bands and the phases. float32 for bands that are powers
            of two in cycles, float64 for all others.
        cycles_per_unit: each band over 2 pi, broadcast over the three dimensions of the columns.
        offset: rad for each column: 0 for a sine, pi / 2 for a cosine.
        dtype: type of the sines.
        out: array for the sines; None makes a new one.
    """
    # (rows, *columns). 2**j * x changes only the exponent, so it is exact in any floating-point
    # type. A product with another band is rounded, which float64 leaves far below float32's digits.
    cycles = x * cycles_per_unit
    # In [-1/2, 1/2]. Exact: the difference of two near numbers has no more digits than they have.
    # This is why the factor 2 pi comes later: it would round whole cycles into the angle.
    whole = cycles.round()
    # A tangent that is 0 cannot be changed in place.
    fraction = (cycles - whole if in_forward_mode() else cycles.sub_(whole)).flatten(1)
    # (rows, out_dim), in [-pi, 3/2 pi]. One fused multiply-add: one rounding for 2 pi and offset.
    angles = torch.add(offset, fraction, alpha=RADIANS_PER_CYCLE)
    return torch.sin(angles.to(dtype), out=out)


def exact_sines_in_place(
    x: Num[Tensor, "rows _ _ _"],
    cycles_per_unit: Float[Tensor, "_ _ _"],
    offset: Float[Tensor, " out_dim"],
    out: Float[Tensor, "rows _ _ _"],
) -> Float[Tensor, "rows out_dim"]:
    """`sines_of_cycles` for bands that are powers of two in cycles, with no array but the output.

    The numbers are the same, since the products are exact: to compute them twice is faster than to
    keep them.
    """
    # Whole cycles less cycles, which is the fraction with its sign changed.
    torch.mul(x, cycles_per_unit, out=out).round_()
    fraction = torch.addcmul(out, x, cycles_per_unit, value=-1, out=out).flatten(1)
    return torch.add(offset, fraction, alpha=-RADIANS_PER_CYCLE, out=fraction).sin_()


def sines_of_radians(
    angles: Float[Tensor, "*shape"], arrays: Arrays = (None, None)
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Compute ``sin(2**k * x)`` and ``cos(2**k * x)``, bands without pi, as in NeRF's own code.

    These angles are exact in radians, and ``torch.sin`` takes their whole cycles away with all
    digits of pi. A quarter of a cycle is not exact in radians, so the cosine is computed as such.

    Args:
        angles: rad, exact in their type.
        arrays: arrays for sines and cosines, of which the second may hold the angles; None makes
            new ones.
    """
    return torch.sin(angles, out=arrays[0]), torch.cos(angles, out=arrays[1])


def sincos(
    x: Num[Tensor, "*batch in_dim"],
    bands: Float[Tensor, "num_bands *axes"],
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
        bands: rad per unit of the coordinate, ``(num_bands,)`` for all axes or
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
    table = SinCos(x.shape[-1], bands, layout=layout, phases=phases).to(x.device)
    features: Tensor = table(x, weight=weight, variance=variance)
    return features


class SinCos(PairedColumns):
    """[sincos][nerf_posenc.core.sincos] with its bands prepared once and held on the device.

    The bands are constants in float64: they follow the module to a device, but neither
    ``.half()`` nor ``.to(dtype)`` reaches them, and they are not in the ``state_dict``.

    Args:
        in_dim: number of coordinates, 1 or more.
        bands: rad per unit, ``(num_bands,)`` or ``(num_bands, in_dim)``; numbers in a list will
            do.
        layout: nesting of the columns, outermost first; one of ``LAYOUTS``.
        phases: ``("sin", "cos")`` or ``("cos", "sin")``.

    Raises:
        ValueError: If a shape, the layout or the phases do not fit.

    Examples:
        >>> from nerf_posenc.core import octave_bands
        >>> SinCos(3, octave_bands(10))(torch.rand(8, 3)).shape
        torch.Size([8, 60])
    """

    takes_variance = True

    _offset: Tensor
    _radians: Tensor | None

    def __init__(
        self,
        in_dim: int,
        bands: Float[Tensor, "num_bands *axes"] | Sequence[float],
        *,
        layout: str = "akp",
        phases: Phases = ("sin", "cos"),
    ) -> None:
        bands = torch.as_tensor(bands, dtype=torch.float64, device="cpu").detach()
        require_counts(in_dim=in_dim)
        require_layout(layout, phases)
        require_bands(bands, in_dim)
        per_axis = bands if bands.ndim == 2 else bands[:, None].expand(-1, in_dim)
        super().__init__(in_dim, per_axis, layout, phases)
        self._register_columns()

    def _register_columns(self) -> None:
        """Lay the constants out, one value per column, in the nesting of the layout."""
        cycles = self.bands / RADIANS_PER_CYCLE
        # Without values (FakeTensorMode) every band is treated as any other, in float64.
        is_known = has_values(cycles)
        self.is_exact = is_known and _are_powers_of_two(cycles)
        is_shared = is_known and bool((cycles == cycles[:, :1]).all())
        self._is_by_band = self.layout == "kpa" and is_shared
        is_cosine = torch.tensor([phase == "cos" for phase in self.phases], device="cpu").double()
        # With the axes outermost and the same bands on each, one row of constants serves all axes:
        # the product broadcasts over one dimension less, which makes it three times as fast.
        shape = self._sizes(1 if is_shared and self.layout[0] == "a" else self.in_dim)
        cycles_columns = self.placed(cycles[:, : shape[self.layout.index("a")]], "ka").expand(shape)
        sign_columns = self.placed(1.0 - 2.0 * is_cosine, "p").expand(shape)
        # The offsets are one row of all columns: long rows are faster to add.
        quarter = is_cosine * (RADIANS_PER_CYCLE / 4)
        offset_columns = self.placed(quarter, "p").expand(self._columns)
        # A product with a power of two is exact in float32; any other band needs float64's digits.
        dtype = torch.float32 if self.is_exact else torch.float64
        self.register_constant("_cycles", cycles_columns.to(dtype).contiguous())
        self.register_constant("_offset", offset_columns.flatten().to(dtype).contiguous())
        self.register_constant("_sign", sign_columns.float().contiguous())
        self.register_constant("_partners", self.partner_matrix() if is_known else None)
        # One angle for a sine and its cosine: size 1 at the phases.
        radians = self.placed(self.bands, "ka").to(torch.float32).contiguous()
        is_radian = is_known and _are_powers_of_two(self.bands)
        self.register_constant("_radians", radians if is_radian else None)

    def _constant_on(self, name: str, device: torch.device) -> Tensor:
        # MPS has no float64; there the cycles of such bands are computed on the CPU.
        if device.type == "mps" and name != "_sign" and not self.is_exact:
            return self._constants[name]
        return super()._constant_on(name, device)

    def forward(
        self,
        x: Num[Tensor, "*batch in_dim"],
        *,
        weight: Float[Tensor, " num_bands"] | None = None,
        variance: Float[Tensor, "*batch in_dim"] | None = None,
        out_dtype: torch.dtype | None = None,
    ) -> Float[Tensor, "*batch out_dim"]:
        """Encode coordinates; see [sincos][nerf_posenc.core.sincos].

        Args:
            x: coordinates or integer positions.
            weight: factor of each band.
            variance: variance of each coordinate.
            out_dtype: type of the features; None is that of the coordinates. Float64 coordinates
                and float32 features have exact angles and the speed of float32 sines.

        Raises:
            ValueError: If a shape does not fit.
        """
        self._require_shapes(x, weight, variance)
        self.move_constants(x.device)
        dtype = out_dtype
        if dtype is None:
            dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        # Half precision would round the angles: sines are computed in float32 and rounded once.
        sine_dtype = torch.float64 if dtype == torch.float64 else torch.float32
        if x.dtype in (torch.float16, torch.bfloat16):
            x = x.float()
        flat = x if x.ndim == 2 else x.reshape(-1, self.in_dim)
        features = self.evaluated(flat, sine_dtype)
        if weight is not None or variance is not None:
            features = self._weighted(features, weight, variance)
        if features.dtype != dtype:
            features = features.to(dtype)
        return features if x.ndim == 2 else features.reshape(*x.shape[:-1], self.out_dim)

    def _require_shapes(self, x: Tensor, weight: Tensor | None, variance: Tensor | None) -> None:
        require_tensor(x, "x")
        if x.ndim == 0 or x.shape[-1] != self.in_dim:
            raise ValueError(
                f"x must have shape (*batch, {self.in_dim}), the last dimension being the "
                f"coordinates; got {tuple(x.shape)}"
            )
        if weight is not None and weight.shape != (self.num_bands,):
            raise ValueError(
                f"weight must have shape ({self.num_bands},), one factor per band; "
                f"got {tuple(weight.shape)}"
            )
        if variance is not None and variance.shape != x.shape:
            raise ValueError(
                f"variance must have the shape of x, {tuple(x.shape)}; got {tuple(variance.shape)}"
            )

    def _weighted(self, features: Tensor, weight: Tensor | None, variance: Tensor | None) -> Tensor:
        """Multiply features ``(n, out_dim)`` by the factors of their bands."""
        features = features.unflatten(1, self._columns)
        if weight is not None:
            features = features * self.placed(weight.to(features.dtype), "k")
        if variance is not None:
            variance = variance.reshape(len(features), self.in_dim).to(features.dtype)
            omega = self._omega(variance)
            # E[sin(omega x)] of a normal x is sin(omega mean) exp(-omega^2 variance / 2), mip-NeRF.
            exponent = self.placed(variance, "a") * omega * omega
            features = features * torch.exp(-0.5 * exponent)
        return features.flatten(1)

    def _omega(self, like: Tensor) -> Tensor:
        """Rad per unit in the layout, with the type and device of another tensor."""
        return self._cycles.to(like) * RADIANS_PER_CYCLE

    def blocks(
        self,
        x: Tensor,
        dtype: torch.dtype,
        out: Tensor | None = None,
        kept: list[Tensor] | None = None,
    ) -> list[Tensor]:
        """Compute the sines of coordinates ``(n, in_dim)``, as blocks of columns from the left."""
        if self._radians is None or x.dtype != dtype or x.device.type == "mps":
            return [self._of_cycles(x, dtype, out)]
        # MPS is left out above because its sine does not take all digits of pi.
        radians = self._radians.to(x.dtype)
        if self._is_by_band and is_recorded():
            # One expression for each block, which a compiler computes where it writes it.
            of_phase = dict(sin=torch.sin, cos=torch.cos)
            bands = radians[:, 0, 0].unbind()
            return [of_phase[phase](x * band) for band in bands for phase in self.phases]
        if self._is_by_band:
            # (num_bands, n, in_dim): for each band one scalar times contiguous rows. All chunks but
            # the last have as many rows, and use the same arrays.
            kept = [] if kept is None else kept
            is_first = not kept or kept[0].shape[1] != len(x)
            arrays: Arrays = (None, None) if is_first else (kept[0], kept[1])
            sines, cosines = sines_of_radians(
                torch.mul(x, radians[:, :, :1], out=arrays[1]), arrays
            )
            if is_first:
                waves = (sines, cosines) if self.phases[0] == "sin" else (cosines, sines)
                pairs = zip(*map(torch.unbind, waves), strict=True)
                kept[:] = [sines, cosines, *(wave for pair in pairs for wave in pair)]
            return kept[2:]
        phase_dim = 1 + self.layout.index("p")
        angles = (x.reshape(x.shape[0], *self._x_shape) * radians).squeeze(phase_dim)
        sines, cosines = sines_of_radians(angles)
        pair = (sines, cosines) if self.phases[0] == "sin" else (cosines, sines)
        return [torch.stack(pair, phase_dim).flatten(1)]

    def needs_no_chunks(self, x: Tensor, dtype: torch.dtype) -> bool:
        """Whether the cycles are exact and of the type of the sines, on a CPU."""
        is_own_type = x.dtype == dtype and dtype in (torch.float32, torch.float64)
        return self.is_exact and is_own_type and x.device.type == "cpu"

    def _of_cycles(self, x: Tensor, dtype: torch.dtype, out: Tensor | None) -> Tensor:
        device = self._cycles.device
        cycles_dtype = self._cycles.dtype if x.dtype == torch.float32 else torch.float64
        cycles, offset = self._cycles, self._offset
        if cycles_dtype != cycles.dtype:
            # Powers of two are the same in any type; a quarter of a cycle in radians is not.
            cycles = cycles.to(cycles_dtype)
            offset = (offset > 0).to(cycles_dtype) * (RADIANS_PER_CYCLE / 4)
        points = x.to(device, cycles_dtype).reshape(x.shape[0], *self._x_shape)
        if out is not None and self.needs_no_chunks(x, dtype):
            return exact_sines_in_place(points, cycles, offset, out.view(len(x), *self._columns))
        return sines_of_cycles(points, cycles, offset, dtype, out).to(x.device)

    def convention(self) -> str:
        """Describe bands, layout and phases, for an encoder's ``repr``."""
        is_shared = not self.bands.is_meta and bool((self.bands == self.bands[:, :1]).all())
        bands = self.bands[:, :1] if is_shared else self.bands
        return f"bands={format_values(bands)}, layout={self.layout!r}, phases={self.phases!r}"

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        return f"in_dim={self.in_dim}, out_dim={self.out_dim}, {self.convention()}"


class TrainableSinCos(SinCos):
    """[SinCos][nerf_posenc.core.SinCos] whose bands are a parameter, in the ``state_dict``.

    They are held in float32, or in float64 where the default floating-point type is that, and
    derivatives reach them and the coordinates alike, of any order.

    Args:
        in_dim: number of coordinates, 1 or more.
        bands: the bands to start from, as of ``SinCos``.
        layout: nesting of the columns, outermost first.
        phases: order of sine and cosine.
    """

    uncast = ("bands",)

    bands: Tensor

    def _register_columns(self) -> None:
        self.is_exact = False
        device = torch.get_default_device()
        dtype = torch.promote_types(torch.get_default_dtype(), torch.float32)
        self.bands = nn.Parameter(self.bands.to(device, dtype, copy=True))
        is_cosine = torch.tensor([phase == "cos" for phase in self.phases], device="cpu").double()
        offset = self.placed(is_cosine * (RADIANS_PER_CYCLE / 4), "p").expand(self._columns)
        self.register_constant("_offset", offset.flatten().contiguous())

    def _omega(self, like: Tensor) -> Tensor:
        return self.placed(self.bands, "ka").to(like)

    def evaluated(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Features ``(n, out_dim)``, differentiable with respect to ``x`` and the bands."""
        # MPS has no float64, in which the product with any band has all digits of float32.
        exact = torch.float32 if x.device.type == "mps" else torch.float64
        points = x.to(exact).reshape(x.shape[0], *self._x_shape)
        cycles_per_unit = (self._omega(points) / RADIANS_PER_CYCLE).expand(self._columns)
        return sines_of_cycles(points, cycles_per_unit, self._offset.to(points), dtype)


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
    device = torch.device("cpu") if x.device.type == "mps" else x.device
    return x.to(device, torch.float64) @ matrix.to(device, torch.float64).T


def waves_along(
    x: Float[Tensor, "n in_dim"], matrix: Float[Tensor, "num_directions in_dim"], phases: Phases
) -> Float[Tensor, "n out_dim"]:
    """Sines and cosines of the cycles along directions, on a CPU, differentiable in both.

    Args:
        x: coordinates in float32 or float64.
        matrix: cycles per unit of the coordinate, one direction per row.
        phases: order of sine and cosine.
    """
    is_differentiated = torch.is_grad_enabled() and (x.requires_grad or matrix.requires_grad)
    # Calling forward directly saves what an autograd function costs per call.
    waves = _WavesAlong.apply if is_differentiated else _WavesAlong.forward
    features: Tensor = waves(x, matrix, phases)
    return features


class _WavesAlong(torch.autograd.Function):
    """`waves_along`, with derivatives that are computed from the output alone."""

    @staticmethod
    def forward(x: Tensor, matrix: Tensor, phases: Phases) -> Tensor:
        width = len(matrix)
        columns = matrix.double().T.contiguous()
        features = x.new_empty(len(x), 2 * width)
        # Parts of rows that stay in the cache of each core.
        size = max(1, _PART * torch.get_num_threads() // width)
        for part, out in zip(x.split(size), features.split(size), strict=True):
            cycles = torch.mm(part.double(), columns)
            # What whole cycles leave, less than one, is as exact in float32 as any angle.
            angles = cycles.frac_().mul_(RADIANS_PER_CYCLE).to(x.dtype)
            # In the place of the angles: an array more would be new memory for every part.
            waves = torch.sin(angles), angles.cos_()
            torch.cat(waves if phases[0] == "sin" else waves[::-1], dim=1, out=out)
        return features

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Phases], output: Tensor) -> None:
        x, matrix, phases = inputs
        ctx.sign = 1 if phases[0] == "sin" else -1
        ctx.save_for_backward(x, matrix, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, matrix, features = ctx.saved_tensors
        first, second = features.chunk(2, dim=-1)
        along_first, along_second = grad.chunk(2, dim=-1)
        # d sin = 2 pi cos dc and d cos = -2 pi sin dc, of cycles c = matrix x.
        slope = along_first * second - along_second * first
        if torch.get_float32_matmul_precision() != "highest":
            slope = slope.double()
        slope = slope * (ctx.sign * RADIANS_PER_CYCLE)
        of_x, of_matrix = ctx.needs_input_grad[:2]
        return (
            exact_product(slope, matrix.to(slope)).to(x.dtype) if of_x else None,
            exact_product(slope.T, x.to(slope)).to(matrix.dtype) if of_matrix else None,
            None,
        )


def exact_product(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right`` in their own type, under autocast too, which would round both to bfloat16.

    Args:
        left: matrices that are no features, such as covariances and poses.
        right: likewise.
    """
    with without_autocast(left):
        product: Tensor = left @ right
    return product


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
