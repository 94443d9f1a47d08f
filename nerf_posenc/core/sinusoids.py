"""Exact sines and cosines of coordinates on frequency bands.

Every encoder of this library is *bands -> angles -> sin/cos*, and no sinusoid is computed outside
`core`. An angle is kept in **cycles** (1 cycle = 2 pi rad) until the whole cycles have been
subtracted, because that subtraction is exact in floating point while a product with pi is not:

* bands that are a power of two times pi give cycles ``2**j * x``, exact in any floating-point
  type, so float32 stays float32 and loses nothing at any octave;
* bands that are a power of two (as in NeRF's own code) give angles ``2**j * x`` that are exact as
  they are, and the sine takes their whole cycles away itself, with all digits of pi;
* for all other bands the cycles are computed in float64.

A band that equals float64 pi times a power of two is taken as that multiple of pi itself.
`SinCos._evaluate` is where a band is multiplied by pi.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from nerf_posenc.core.bands import require_bands
from nerf_posenc.core.columns import Phases, require_layout
from nerf_posenc.core.encoder import (
    Encoder,
    described,
    has_values,
    inside_transform,
    is_recorded,
    require_counts,
    require_tensor,
)

if TYPE_CHECKING:
    from jaxtyping import Float, Num

IncludeInput = Literal["front", "back"] | None

RADIANS_PER_CYCLE = 2 * math.pi

# On a CPU, cycles that are computed in float64 are computed in chunks of this many elements, which
# stay in cache and are not a second, larger array of the output's size. Outputs up to the second
# number are computed at once, with fewer calls.
_CPU_CHUNK = 1 << 17
_CPU_FEW = 1 << 16
# Of more coordinates derivatives are summed without a matrix, which would have their square.
_MOST_AXES = 8


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
        >>> from nerf_posenc import octave_bands
        >>> sincos(torch.tensor([[0.5]]), octave_bands(2)).round(decimals=4)
        tensor([[ 1., -0., -0., -1.]])
    """
    table = SinCos(x.shape[-1], bands, layout=layout, phases=phases).to(x.device)
    features: Tensor = table(x, weight=weight, variance=variance)
    return features


class SinCos(Encoder):
    """[sincos][nerf_posenc.sincos] with its bands prepared once and held on the device.

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
        >>> from nerf_posenc import octave_bands
        >>> SinCos(3, octave_bands(10))(torch.rand(8, 3)).shape
        torch.Size([8, 60])
    """

    takes_variance = True

    _cycles: Tensor
    _offset: Tensor
    _sign: Tensor
    _radians: Tensor | None
    _partners: Tensor | None

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
        super().__init__(in_dim, 2 * len(bands) * in_dim)
        self.num_bands = len(bands)
        self.layout = layout
        self.phases = phases
        sizes = dict(k=self.num_bands, p=2, a=in_dim)
        # Features are computed as (n, *columns), the three letters of the layout, and flattened.
        self._columns = tuple(sizes[letter] for letter in layout)
        self._x_shape = tuple(in_dim if letter == "a" else 1 for letter in layout)
        self.bands = bands if bands.ndim == 2 else bands[:, None].expand(-1, in_dim)
        self._register_columns()

    def _register_columns(self) -> None:
        """Lay the constants out, one value per column, in the nesting of the layout."""
        # In cycles the whole ones can be taken away exactly, which radians do not allow.
        cycles = self.bands / RADIANS_PER_CYCLE
        # frexp gives mantissas in [0.5, 1): 0.5 is a power of two, and 0 a constant column.
        mantissa = torch.frexp(cycles).mantissa.abs()
        is_known = has_values(cycles)
        self.is_exact = is_known and bool(((mantissa == 0.5) | (mantissa == 0)).all())
        # A product with a power of two is exact in float32; any other band needs float64's digits.
        dtype = torch.float32 if self.is_exact else torch.float64
        powers = torch.frexp(self.bands).mantissa.abs()
        self.is_radian = is_known and bool(((powers == 0.5) | (powers == 0)).all())
        is_cosine = torch.tensor([phase == "cos" for phase in self.phases], device="cpu").double()
        # If the axes are outermost and have the same bands they share the constants: with one
        # dimension less to go through, the product is three times as fast.
        shares = self.layout[0] == "a" and is_known and bool((cycles == cycles[:, :1]).all())
        sizes = dict(k=self.num_bands, p=2, a=1 if shares else self.in_dim)
        shape = tuple(sizes[letter] for letter in self.layout)
        cycles_columns = self.placed(cycles[:, : sizes["a"]], "ka").expand(shape)
        sign_columns = self.placed(1.0 - 2.0 * is_cosine, "p").expand(shape)
        # The quarter cycles lie in one row of all columns: long rows are faster to add.
        quarter = is_cosine * (RADIANS_PER_CYCLE / 4)
        offset_columns = self.placed(quarter, "p").expand(self._columns)
        self.register_constant("_cycles", cycles_columns.to(dtype).contiguous())
        self.register_constant("_offset", offset_columns.reshape(-1).to(dtype).contiguous())
        self.register_constant("_sign", sign_columns.float().contiguous())
        self.register_constant("_partners", self._partner_matrix() if is_known else None)
        self._is_by_band = (
            self.layout == "kpa" and is_known and bool((self.bands == self.bands[:, :1]).all())
        )
        # One value for a sine and its cosine.
        angles = self.placed(self.bands, "ka").to(torch.float32).contiguous()
        self.register_constant("_radians", angles if self.is_radian else None)

    def _partner_matrix(self) -> Tensor | None:
        """For each column the derivative of its pair by each coordinate, at the first of the two.

        None where it would be larger than what it saves.
        """
        if self.in_dim > _MOST_AXES:
            return None
        sign = 1 if self.phases[0] == "sin" else -1
        by_axis = torch.zeros(*self._columns, self.in_dim, dtype=torch.float64, device="cpu")
        ordered = by_axis.permute(*(self.layout.index(letter) for letter in "kpa"), 3)
        for axis in range(self.in_dim):
            ordered[:, 0, axis, axis] = sign * self.bands[:, axis]
        return by_axis.flatten(0, 2)

    def _constant_on(self, name: str, device: torch.device) -> Tensor:
        # MPS has no float64; there the cycles of such bands are computed on the CPU.
        if device.type == "mps" and name != "_sign" and not self.is_exact:
            return self._constants[name]
        return super()._constant_on(name, device)

    def placed(self, value: Tensor, letters: str) -> Tensor:
        """View ``value``, whose last dimensions are ``letters``, in the layout's three."""
        order = sorted(range(len(letters)), key=lambda i: self.layout.index(letters[i]))
        lead = value.ndim - len(letters)
        value = value.permute(*range(lead), *(lead + i for i in order))
        for i, letter in enumerate(self.layout):
            if letter not in letters:
                value = value.unsqueeze(lead + i)
        return value

    def forward(
        self,
        x: Num[Tensor, "*batch in_dim"],
        *,
        weight: Float[Tensor, " num_bands"] | None = None,
        variance: Float[Tensor, "*batch in_dim"] | None = None,
        out_dtype: torch.dtype | None = None,
        include_input: IncludeInput = None,
    ) -> Float[Tensor, "*batch width"]:
        """Encode coordinates; see [sincos][nerf_posenc.sincos].

        Args:
            x: coordinates or integer positions.
            weight: factor of each band.
            variance: variance of each coordinate.
            out_dtype: type of the features; None is that of the coordinates. Float64 coordinates
                and float32 features have exact angles and the speed of float32 sines.
            include_input: put the coordinates themselves before or after the features.

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
        if is_recorded():
            is_direct = self._is_direct(flat, sine_dtype)
            features = self._direct(flat) if is_direct else self._evaluate(flat, sine_dtype)
        else:
            needs_grad = (flat.requires_grad and torch.is_grad_enabled()) or inside_transform()
            # Without what an autograd function costs per call, where it is not needed.
            sines = _Sines.apply if needs_grad else _Sines.forward
            is_joined = weight is variance is None and dtype == flat.dtype == sine_dtype
            joined = include_input if is_joined else None
            features = sines(flat, self, sine_dtype, joined)
            if joined is not None:
                include_input = None
        if weight is not None or variance is not None:
            features = self._weighted(features, weight, variance)
        if features.dtype != dtype:
            features = features.to(dtype)
        if x.ndim != 2:
            features = features.reshape(*x.shape[:-1], features.shape[1])
        if include_input is None:
            return features
        parts = [x.to(dtype), features]
        return torch.cat(parts if include_input == "front" else parts[::-1], dim=-1)

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
            omega = self._cycles.to(variance) * RADIANS_PER_CYCLE
            # E[sin(omega x)] of a normal x is sin(omega mean) exp(-omega^2 variance / 2), mip-NeRF.
            exponent = self.placed(variance, "a") * omega * omega
            features = features * torch.exp(-0.5 * exponent)
        return features.flatten(1)

    def _evaluate(
        self,
        x: Tensor,
        dtype: torch.dtype,
        out: Tensor | None = None,
        buffers: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> Tensor:
        """Features ``(n, out_dim)`` of coordinates ``(n, in_dim)``.

        Without ``out`` and ``buffers`` these are plain differentiable operations; with them
        nothing is allocated.

        Args:
            x: coordinates.
            dtype: type of the sines.
            out: array for the features.
            buffers: two arrays ``(n, *columns)`` in the type of the cycles. The first may share
                memory with ``out``; with it alone the product is computed twice.
        """
        work, whole = buffers
        cycles_dtype = self._cycles_dtype(x)
        bands, offset = self._cycles, self._offset
        if cycles_dtype != bands.dtype:
            # Powers of two are the same in any type, a quarter of a cycle in radians is not.
            bands = bands.to(cycles_dtype)
            offset = (offset > 0).to(cycles_dtype) * (RADIANS_PER_CYCLE / 4)
        if x.dtype != cycles_dtype or x.device != bands.device:
            x = x.to(bands.device, cycles_dtype)
        x = x.reshape(x.shape[0], *self._x_shape)
        # Whole cycles less cycles: the fraction with its sign changed, which saves negating the
        # bands.
        if work is not None and whole is None:
            whole = torch.round(torch.mul(x, bands, out=work), out=work)
            fraction = torch.addcmul(whole, x, bands, value=-1, out=work)
        else:
            cycles = torch.mul(x, bands, out=work)
            fraction = torch.sub(torch.round(cycles, out=whole), cycles, out=work)
        fraction = fraction.reshape(x.shape[0], self.out_dim)
        # The product with 2 pi. With alpha the sum is one fused multiply-add, so the quarter of a
        # cycle that makes a cosine of a sine costs no second rounding.
        angles = torch.add(
            offset, fraction, alpha=-RADIANS_PER_CYCLE, out=None if work is None else fraction
        )
        if angles.dtype != dtype or angles.device != self._sign.device:
            angles = angles.to(self._sign.device, dtype)
        return torch.sin(angles, out=out)

    def _is_direct(self, x: Tensor, dtype: torch.dtype) -> bool:
        """Whether the angles of coordinates are exact in their own type, that of the sines."""
        # The sine of MPS is not one of all digits.
        return self.is_radian and x.dtype == dtype and x.device.type != "mps"

    def _angles(self, x: Tensor) -> Tensor:
        assert self._radians is not None
        return x.reshape(x.shape[0], *self._x_shape) * self._radians.to(x.dtype)

    def _direct(self, x: Tensor) -> Tensor:
        """Features of coordinates whose angles are exact, by differentiable operations."""
        angles = self._angles(x).squeeze(1 + self.layout.index("p"))
        parts = [angles.sin() if phase == "sin" else angles.cos() for phase in self.phases]
        return torch.stack(parts, 1 + self.layout.index("p")).flatten(1)

    def _direct_chunks(self, x: Tensor, out: Tensor, include_input: IncludeInput) -> None:
        """Fill features of exact angles, through buffers that stay in the cache.

        Args:
            x: coordinates ``(n, in_dim)``.
            out: array for the features, with columns for the coordinates if they are included.
            include_input: whether the coordinates stand before or after the features.
        """
        # Chunks of one size, for which the buffers serve again.
        count = max(1, math.ceil(len(x) * self.out_dim / _CPU_CHUNK))
        rows = max(1, math.ceil(len(x) / count))
        if not self._is_by_band:
            columns = _without_input(out, self, include_input).unflatten(1, self._columns)
            place = 1 + self.layout.index("p")
            for chunk, part in zip(x.split(rows), columns.split(rows), strict=True):
                angles = self._angles(chunk)
                for i, phase in enumerate(self.phases):
                    values = angles.sin() if phase == "sin" else angles.cos()
                    part.narrow(place, i, 1).copy_(values)
            if include_input is not None:
                start = 0 if include_input == "front" else self.out_dim
                out.narrow(1, start, self.in_dim).copy_(x)
            return
        assert self._radians is not None
        bands = self._radians[:, :, :1].to(x.dtype)
        parts: list[Tensor] = []
        for chunk, part in zip(x.split(rows), out.split(rows), strict=True):
            if not parts or len(chunk) < rows:
                buffers = x.new_empty(2, self.num_bands, len(chunk), self.in_dim)
                sine, cosine = buffers
                pair = (sine, cosine) if self.phases[0] == "sin" else (cosine, sine)
                parts = [each[k] for k in range(self.num_bands) for each in pair]
            # Rows that one band multiplies are the fastest. Angles lie where cosines will.
            torch.mul(chunk, bands, out=cosine)
            torch.sin(cosine, out=sine)
            torch.cos(cosine, out=cosine)
            front, back = include_input == "front", include_input == "back"
            torch.cat([*[chunk] * front, *parts, *[chunk] * back], -1, out=part)

    def _cycles_dtype(self, x: Tensor) -> torch.dtype:
        return self._cycles.dtype if x.dtype == torch.float32 else torch.float64

    def _slopes(self, features: Tensor) -> Tensor:
        """Derivative of each column, ``(n, *columns)``, with respect to its own coordinate."""
        features = features.unflatten(1, self._columns)
        omega = self._cycles.to(features) * RADIANS_PER_CYCLE
        partner = features.flip(1 + self.layout.index("p"))
        return partner * (omega * self._sign.to(features))

    def _gathered(self, grad: Tensor, features: Tensor) -> Tensor:
        """Gradient with respect to coordinates ``(n, in_dim)`` of one of features."""
        # Where float32 products may be rounded to TF32 or bfloat16, sums are taken instead.
        is_whole = torch.get_float32_matmul_precision() == "highest"
        partners = self._partners if grad.device.type == "cpu" and is_whole else None
        if partners is None or torch.is_autocast_enabled("cpu"):
            slopes = self._slopes(features)
            others = [1 + i for i, letter in enumerate(self.layout) if letter != "a"]
            summed: Tensor = (grad.unflatten(1, self._columns) * slopes).sum(others)
            return summed
        # d sin = cos dx and d cos = -sin dx, and the partner of a column is so many to its right
        # or left. What stands between two other columns is multiplied by 0.
        shift = math.prod(self._columns[self.layout.index("p") + 1 :])
        ahead = grad[:, :-shift] * features[:, shift:]
        pairs = torch.addcmul(ahead, grad[:, shift:], features[:, :-shift], value=-1)
        gathered: Tensor = pairs @ partners[: pairs.shape[1]].to(pairs.dtype)
        return gathered

    def convention(self) -> str:
        """Describe bands, layout and phases, for an encoder's ``repr``."""
        bands = self.bands[:, :1] if bool((self.bands == self.bands[:, :1]).all()) else self.bands
        return f"bands={described(bands)}, layout={self.layout!r}, phases={self.phases!r}"

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        return f"in_dim={self.in_dim}, out_dim={self.out_dim}, {self.convention()}"


class _Sines(torch.autograd.Function):
    """`SinCos._evaluate` in place, saving nothing but its output for the derivatives.

    The derivative of a sine is the cosine beside it, so backward, forward-mode and second
    derivatives all come out of the features that the next layer keeps anyway.
    """

    @staticmethod
    def forward(
        x: Tensor, table: SinCos, dtype: torch.dtype, include_input: IncludeInput
    ) -> Tensor:
        if x.device.type == "cpu" and table._is_direct(x, dtype):
            width = table.out_dim + (0 if include_input is None else table.in_dim)
            features = x.new_empty(len(x), width)
            table._direct_chunks(x, features, include_input)
            return features
        features = _Sines._of_cycles(x, table, dtype)
        if include_input is None:
            return features
        return torch.cat([x, features] if include_input == "front" else [features, x], dim=-1)

    @staticmethod
    def _of_cycles(x: Tensor, table: SinCos, dtype: torch.dtype) -> Tensor:
        if table._is_direct(x, dtype):
            return table._direct(x)
        # A GPU has its own allocator, and few features fit the cache of a CPU as they are.
        if x.device.type != "cpu" or len(x) * table.out_dim <= _CPU_FEW:
            return table._evaluate(x, dtype)
        features = x.new_empty(len(x), table.out_dim, dtype=dtype)
        if table._cycles_dtype(x) == dtype:
            # The features' own memory holds the cycles until they become sines.
            work = features.view(len(x), *table._columns)
            return table._evaluate(x, dtype, features, (work, None))
        # Float64 cycles of float32 features: pass by pass through a buffer that stays in the cache.
        rows = max(1, _CPU_CHUNK // max(1, table.out_dim))
        work = x.new_empty(2, min(rows, len(x)), *table._columns, dtype=torch.float64)
        for x_chunk, chunk in zip(x.split(rows), features.split(rows), strict=True):
            cycles, whole = work[:, : len(chunk)]
            table._evaluate(x_chunk, dtype, chunk, (cycles, whole))
        return features

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, SinCos, torch.dtype, IncludeInput], output: Tensor
    ) -> None:
        ctx.x_dtype, ctx.table, ctx.include_input = inputs[0].dtype, inputs[1], inputs[3]
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        table: SinCos = ctx.table
        features, own = (
            _without_input(each, table, ctx.include_input) for each in (*ctx.saved_tensors, grad)
        )
        x_grad = table._gathered(own, features).to(ctx.x_dtype)
        if ctx.include_input is not None:
            start = 0 if ctx.include_input == "front" else table.out_dim
            x_grad = x_grad + grad.narrow(1, start, table.in_dim)
        return x_grad, None, None, None

    @staticmethod
    def jvp(ctx: Any, x_tangent: Tensor, *_: None) -> Tensor:
        table: SinCos = ctx.table
        features = _without_input(ctx.saved_tensors[0], table, ctx.include_input)
        slopes = table._slopes(features)
        tangent = (slopes * table.placed(x_tangent.to(features), "a")).flatten(1)
        if ctx.include_input is None:
            return tangent
        parts = [x_tangent.to(features), tangent]
        return torch.cat(parts if ctx.include_input == "front" else parts[::-1], dim=-1)

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int, None, None, None],
        x: Tensor,
        table: SinCos,
        dtype: torch.dtype,
        include_input: IncludeInput,
    ) -> tuple[Tensor, int]:
        x = x.movedim(in_dims[0], 0)
        features = _Sines.apply(x.reshape(-1, table.in_dim), table, dtype, include_input)
        return features.reshape(*x.shape[:-1], features.shape[1]), 0


def _without_input(features: Tensor, table: SinCos, include_input: IncludeInput) -> Tensor:
    """The columns of sines and cosines alone."""
    if include_input is None:
        return features
    return features.narrow(1, table.in_dim if include_input == "front" else 0, table.out_dim)


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
