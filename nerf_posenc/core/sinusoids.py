"""The core: exact sines and cosines of coordinates on bands.

Every encoder of this library is *bands -> angles -> sin/cos*, and no sinusoid is
computed outside this module. An angle is kept in **turns** (1 turn = 2 pi rad) until
the whole turns have been taken away, because that subtraction is exact in floating
point while a product with pi is not:

* bands that are a power of two times pi give turns ``2**j * x``, exact in any
  floating-point type, so float32 stays float32 and loses nothing at any octave;
* all other bands have their turns computed in float64.

A band that equals float64 pi times a power of two is taken as that multiple of pi itself.
"""

import math
from typing import Any, Literal

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from nerf_posenc.core.checks import inside_transform
from nerf_posenc.core.columns import LAYOUTS, Phases
from nerf_posenc.training.devices import require_triton

Backend = Literal["torch", "triton"]

_TURN = 2 * math.pi

# On a CPU the turns that are made in float64 are made in pieces of this many elements, so
# that they stay in cache and are not a second and larger array of the output's size.
_CPU_PIECE = 1 << 17


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

    To encode more than once on the same bands, keep a [SinCos][nerf_posenc.SinCos],
    which prepares the bands a single time.

    Args:
        x: coordinates, floating point of any range, or integer positions. Half-precision
            values are taken as they are and computed on in float32.
        bands: rad per unit of the coordinate, ``(num_bands,)`` for all axes or
            ``(num_bands, in_dim)``; give float64, since they are taken at their exact value.
        layout: nesting of the columns, outermost first; one of ``LAYOUTS``.
        phases: which of the two comes first.
        weight: factor of each band.
        variance: variance of each coordinate, in squared units of the coordinate.

    Returns:
        Features of width ``2 * num_bands * in_dim`` in ``x.dtype`` (integers: the default
        floating-point type).

    Raises:
        ValueError: where a shape, the layout or the phases do not fit.

    Examples:
        >>> from nerf_posenc import octave_bands
        >>> sincos(torch.tensor([[0.5]]), octave_bands(2)).round(decimals=4)
        tensor([[ 1., -0., -0., -1.]])
    """
    table = SinCos(x.shape[-1], bands, layout=layout, phases=phases).to(x.device)
    features: Tensor = table(x, weight=weight, variance=variance)
    return features


class SinCos(nn.Module):
    """[sincos][nerf_posenc.sincos] with its bands prepared once and held on the device.

    The bands are constants in float64: they follow the module to a device, but neither
    ``.half()`` nor ``.to(dtype)`` reaches them, and they are not in the ``state_dict``.

    Args:
        in_dim: number of coordinates, 1 or more.
        bands: rad per unit, ``(num_bands,)`` or ``(num_bands, in_dim)``.
        layout: nesting of the columns, outermost first; one of ``LAYOUTS``.
        phases: ``("sin", "cos")`` or ``("cos", "sin")``.
        backend: ``"torch"``, or ``"triton"`` for one fused kernel on a GPU, which takes
            coordinates of up to float32.

    Raises:
        RuntimeError: where the backend cannot run; the message says what it needs.
        ValueError: where a shape, the layout, the phases or the backend do not fit.

    Examples:
        >>> from nerf_posenc import octave_bands
        >>> SinCos(3, octave_bands(10))(torch.rand(8, 3)).shape
        torch.Size([8, 60])
    """

    _cycles: Tensor
    _offset: Tensor
    _sign: Tensor
    band_cycles: Tensor
    """Turns per unit ``(num_bands, in_dim)``, which the fused kernels are given."""

    def __init__(
        self,
        in_dim: int,
        bands: Float[Tensor, "num_bands *axes"],
        *,
        layout: str = "akp",
        phases: Phases = ("sin", "cos"),
        backend: Backend = "torch",
    ) -> None:
        super().__init__()
        if backend not in ("torch", "triton"):
            raise ValueError(f"backend must be 'torch' or 'triton'; got {backend!r}")
        if backend == "triton":
            require_triton()
        if in_dim < 1:
            raise ValueError(f"in_dim must be 1 or more; got {in_dim}")
        if layout not in LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}; got {layout!r}")
        if sorted(phases) != ["cos", "sin"]:
            raise ValueError(f"phases must be ('sin', 'cos') or ('cos', 'sin'); got {phases!r}")
        bands = bands.detach().to("cpu", torch.float64)
        if bands.shape[1:] not in ((), (in_dim,)):
            raise ValueError(
                f"bands must have shape (num_bands,) or (num_bands, {in_dim}); "
                f"got {tuple(bands.shape)}"
            )
        if not bool(torch.isfinite(bands).all()):
            raise ValueError("bands must be finite; got an infinite or undefined one")
        self.in_dim = in_dim
        self.num_bands = len(bands)
        self.out_dim = 2 * self.num_bands * in_dim
        self.layout = layout
        self.phases = phases
        self.backend = backend
        sizes = dict(k=self.num_bands, p=2, a=in_dim)
        self._columns = tuple(sizes[letter] for letter in layout)
        self._x_shape = tuple(in_dim if letter == "a" else 1 for letter in layout)
        self.bands = bands if bands.ndim == 2 else bands[:, None].expand(-1, in_dim)
        self._build(torch.device("cpu"))

    def _build(self, device: torch.device) -> None:
        """Lay the constants out, one value a column, in the nesting of the layout."""
        cycles = self.bands / _TURN
        # frexp gives mantissas in [0.5, 1): 0.5 is a power of two, and 0 a constant column.
        mantissa = torch.frexp(cycles).mantissa.abs()
        exact = bool(((mantissa == 0.5) | (mantissa == 0)).all())
        is_cosine = torch.tensor([phase == "cos" for phase in self.phases]).double()
        # Where the axes are outermost and have the same bands they share the constants:
        # with one dimension less to go through, the product is three times as fast.
        shares = self.layout[0] == "a" and bool((cycles == cycles[:, :1]).all())
        sizes = dict(k=self.num_bands, p=2, a=1 if shares else self.in_dim)
        shape = tuple(sizes[letter] for letter in self.layout)
        cycles_columns = self._placed(cycles[:, : sizes["a"]], "ka").expand(shape)
        sign_columns = self._placed(1.0 - 2.0 * is_cosine, "p").expand(shape)
        # The quarter turns lie in one row of all columns: long rows are faster to add.
        offset_columns = self._placed(is_cosine * (_TURN / 4), "p").expand(self._columns)
        # Float64 does not exist on MPS; there the turns of other bands are made on the CPU.
        cycles_device = "cpu" if device.type == "mps" and not exact else device
        cycles_dtype = torch.float32 if exact else torch.float64
        constants = {
            "_cycles": cycles_columns.to(cycles_device, cycles_dtype),
            "_offset": offset_columns.reshape(-1).to(cycles_device, cycles_dtype),
            "_sign": sign_columns.to(device, torch.float32),
        }
        if self.backend == "triton":
            constants["band_cycles"] = cycles.to(device, cycles_dtype)
        for name, constant in constants.items():
            self.register_buffer(name, constant.contiguous(), persistent=False)

    def _apply(self, fn: Any, recurse: bool = True) -> "SinCos":
        super()._apply(fn, recurse)
        self._build(self._sign.device)
        return self

    def _placed(self, value: Tensor, letters: str) -> Tensor:
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
        dtype: torch.dtype | None = None,
        raw: Literal["front", "back"] | None = None,
    ) -> Float[Tensor, "*batch width"]:
        """See [sincos][nerf_posenc.sincos].

        ``dtype`` is that of the features where it is not to be the coordinates': float64
        coordinates and float32 features have exact angles and the speed of float32 sines.
        ``raw`` puts the coordinates themselves before or behind the features.
        """
        if x.ndim == 0 or x.shape[-1] != self.in_dim:
            raise ValueError(
                f"x must have shape (*batch, {self.in_dim}), the last dimension being the "
                f"coordinates; got {tuple(x.shape)}"
            )
        if dtype is None:
            dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        sine_dtype = torch.float64 if dtype == torch.float64 else torch.float32
        if x.dtype in (torch.float16, torch.bfloat16):
            x = x.float()
        batch = x.shape[:-1]
        if weight is not None and weight.shape != (self.num_bands,):
            raise ValueError(
                f"weight must have shape ({self.num_bands},), one factor a band; "
                f"got {tuple(weight.shape)}"
            )
        if variance is not None and variance.shape != x.shape:
            raise ValueError(
                f"variance must have the shape of x, {tuple(x.shape)}; got {tuple(variance.shape)}"
            )
        if self.backend == "triton":
            return self._fused(x, weight, variance, dtype, raw)
        given = x
        x = x.reshape(math.prod(batch), self.in_dim)
        if torch.compiler.is_compiling():
            features = self._evaluate(x, sine_dtype)
        elif (x.requires_grad and torch.is_grad_enabled()) or inside_transform():
            features = _SinCosFunction.apply(x, self, sine_dtype)
        else:
            # The same, without what an autograd function costs a call.
            features = _SinCosFunction.forward(x, self, sine_dtype)
        if weight is not None or variance is not None:
            features = features.unflatten(1, self._columns)
        if weight is not None:
            features = features * self._placed(weight.to(features.dtype), "k")
        if variance is not None:
            variance = variance.reshape(len(features), self.in_dim).to(features.dtype)
            omega = self._cycles.to(variance) * _TURN
            exponent = self._placed(variance, "a") * omega * omega
            features = features * torch.exp(-0.5 * exponent)
        if features.dtype != dtype:
            features = features.to(dtype)
        features = features.reshape(*batch, self.out_dim)
        if raw is None:
            return features
        parts = [given.to(dtype), features] if raw == "front" else [features, given.to(dtype)]
        return torch.cat(parts, dim=-1)

    def _fused(
        self,
        x: Tensor,
        weight: Tensor | None,
        variance: Tensor | None,
        dtype: torch.dtype,
        raw: Literal["front", "back"] | None,
    ) -> Tensor:
        """Evaluate in one kernel."""
        require_fusible(x)
        # Here, because Triton is not everywhere that torch is.
        from nerf_posenc.core.kernels import sincos as _triton

        features: Tensor = _triton.encode(
            x.reshape(math.prod(x.shape[:-1]), self.in_dim),
            self.band_cycles,
            weight,
            None if variance is None else variance.reshape(-1, self.in_dim),
            self.layout,
            self.phases[0],
            raw or "",
            dtype,
        )
        return features.reshape(*x.shape[:-1], features.shape[-1])

    def _evaluate(
        self,
        x: Tensor,
        dtype: torch.dtype,
        out: Tensor | None = None,
        arrays: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> Tensor:
        """Features ``(n, out_dim)`` of coordinates ``(n, in_dim)``.

        Without ``out`` and ``arrays`` these are plain differentiable operations; with them
        nothing is allocated. ``arrays`` are two of shape ``(n, *columns)`` in the type of
        the turns. The first may be on the memory of ``out``, and with it alone the product
        is made twice.
        """
        work, whole = arrays
        turns_dtype = self._turns_dtype(x)
        cycles, offset = self._cycles, self._offset
        if turns_dtype != cycles.dtype:
            # Powers of two are the same in any type, a quarter turn is not.
            cycles = cycles.to(turns_dtype)
            offset = (offset > 0).to(turns_dtype) * (_TURN / 4)
        if x.dtype != turns_dtype or x.device != cycles.device:
            x = x.to(cycles.device, turns_dtype)
        x = x.reshape(x.shape[0], *self._x_shape)
        # What is left of the turns, with its sign changed, which saves negating the bands.
        if work is not None and whole is None:
            whole = torch.round(torch.mul(x, cycles, out=work), out=work)
            less = torch.addcmul(whole, x, cycles, value=-1, out=work)
        else:
            turns = torch.mul(x, cycles, out=work)
            less = torch.sub(torch.round(turns, out=whole), turns, out=work)
        # With alpha the sum is one fused multiply-add, so the quarter turn that makes a
        # cosine of a sine costs no second rounding.
        less = less.reshape(x.shape[0], self.out_dim)
        angles = torch.add(offset, less, alpha=-_TURN, out=None if work is None else less)
        if angles.dtype != dtype or angles.device != self._sign.device:
            angles = angles.to(self._sign.device, dtype)
        return torch.sin(angles, out=out)

    def _turns_dtype(self, x: Tensor) -> torch.dtype:
        return self._cycles.dtype if x.dtype == torch.float32 else torch.float64

    def _slopes(self, features: Tensor) -> Tensor:
        """Derivative of each column, ``(n, *columns)``, with respect to its own coordinate."""
        features = features.unflatten(1, self._columns)
        omega = self._cycles.to(features) * _TURN
        partner = features.flip(1 + self.layout.index("p"))
        return partner * (omega * self._sign.to(features))

    def extra_repr(self) -> str:
        """Show the widths and the convention."""
        return (
            f"in_dim={self.in_dim}, out_dim={self.out_dim}, num_bands={self.num_bands}, "
            f"layout={self.layout!r}, phases={self.phases!r}"
        )


class _SinCosFunction(torch.autograd.Function):
    """`SinCos._evaluate` in place, saving nothing but its output for the derivatives.

    The derivative of a sine is the cosine beside it, so backward, forward-mode and second
    derivatives all come out of the features that the next layer keeps anyway.
    """

    @staticmethod
    def forward(x: Tensor, table: SinCos, dtype: torch.dtype) -> Tensor:
        if x.device.type != "cpu":
            return table._evaluate(x, dtype)
        features = x.new_empty(len(x), table.out_dim, dtype=dtype)
        if table._turns_dtype(x) == dtype:
            work = features.view(len(x), *table._columns)
            return table._evaluate(x, dtype, features, (work, None))
        rows = max(1, _CPU_PIECE // max(1, table.out_dim))
        work = x.new_empty(2, min(rows, len(x)), *table._columns, dtype=torch.float64)
        for x_piece, piece in zip(x.split(rows), features.split(rows), strict=True):
            turns, whole = work[:, : len(piece)]
            table._evaluate(x_piece, dtype, piece, (turns, whole))
        return features

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, SinCos, torch.dtype], output: Tensor) -> None:
        ctx.x_dtype, ctx.table = inputs[0].dtype, inputs[1]
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (features,) = ctx.saved_tensors
        other = [1 + i for i, letter in enumerate(ctx.table.layout) if letter != "a"]
        slopes = ctx.table._slopes(features)
        x_grad = (grad.view_as(slopes) * slopes).sum(other)
        return x_grad.to(ctx.x_dtype), None, None

    @staticmethod
    def jvp(ctx: Any, x_tangent: Tensor, *_: None) -> Tensor:
        (features,) = ctx.saved_tensors
        table: SinCos = ctx.table
        slopes: Tensor = table._slopes(features)
        return (slopes * table._placed(x_tangent.to(features), "a")).flatten(1)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int, None, None], x: Tensor, table: SinCos, dtype: torch.dtype
    ) -> tuple[Tensor, int]:
        x = x.movedim(in_dims[0], 0)
        features = _SinCosFunction.apply(x.reshape(-1, table.in_dim), table, dtype)
        return features.reshape(*x.shape[:-1], table.out_dim), 0


def require_fusible(x: Tensor) -> None:
    """Refuse coordinates that the fused kernels do not take.

    Raises:
        RuntimeError: where the kernels cannot run on the device.
        TypeError: where they do not hold float32 or half precision.
    """
    require_triton(x.device)
    if x.dtype == torch.float64 or not x.is_floating_point():
        raise TypeError(
            f"backend='triton' takes coordinates in float32 or half precision; got {x.dtype}; "
            "use backend='torch' for others"
        )


def project(
    x: Float[Tensor, "*batch in_dim"], matrix: Float[Tensor, "num_directions in_dim"]
) -> Float[Tensor, "*batch num_directions"]:
    """Coordinates along other directions, ``x @ matrix.T``, in float64.

    A float32 product would lose what a high band multiplies; and one in float64 heeds
    neither autocast nor the switches for TF32 and bfloat16 products.

    Args:
        x: coordinates.
        matrix: one direction a row.

    Returns:
        Float64 on the device of ``x`` (MPS has none: there, on the CPU).
    """
    device = torch.device("cpu") if x.device.type == "mps" else x.device
    return x.to(device, torch.float64) @ matrix.to(device, torch.float64).T
