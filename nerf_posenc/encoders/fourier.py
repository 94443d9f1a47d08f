"""Fourier encoders of continuous coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.core.bands import coarse_to_fine_weight, octave_bands
from nerf_posenc.core.checks import (
    format_values,
    require_coordinates,
    require_counts,
    require_not_negative,
    require_tensor,
    whole,
)
from nerf_posenc.core.columns import IncludeInput, Phase, Phases, column_labels, raw_side
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.core.filters import Filter, filtered
from nerf_posenc.core.sinusoids import SinCos, TrainableSinCos
from nerf_posenc.core.speed import exact_product
from nerf_posenc.presets.fourier import FOURIER

if TYPE_CHECKING:
    from jaxtyping import Float

Column = tuple[int, str, int]
"""Band (-1 for the raw input), phase ("sin", "cos" or "x") and axis of a column."""


class FourierEncoder(Encoder):
    r"""NeRF's positional encoding of continuous coordinates, with L frequency bands.

    $$\gamma(x) = \big(\sin(2^0 \pi x), \cos(2^0 \pi x), \dots,
      \sin(2^{L-1} \pi x), \cos(2^{L-1} \pi x)\big)$$

    for each coordinate in turn (Mildenhall et al. 2020, equation 4). Coordinates are meant
    to lie in [-1, 1], where the lowest band goes through one period; outside the features
    repeat with period 2 but stay exact. A band whose cycles $2^{k-1} x$ overflow float32, at
    3.4e38, is NaN.

    Args:
        in_dim: number of coordinates, 1 or more.
        num_bands: number of frequency bands L, 0 or more, or one number per axis; None is 10.
            0 bands without the raw input would leave no column and are refused.
        frequencies: angular frequencies of the bands, instead of ``num_bands`` doubling ones:
            rad per unit of the coordinate, float64, ``(num_bands,)`` or
            ``(num_bands, num_axes)``. ``min_octave`` and ``base`` are then not used. The property
            ``frequency_bands`` has them; ``frequencies`` repeats them for each column.
        min_octave: octave of the first band.
        max_octave: octave of the last band, with the others at equal ratios between them; None
            is one octave from each band to the next.
        base: rad per unit at octave 0. NeRF's paper has pi; its code, and most that
            descend from it, have 1.
        layout: nesting of the columns, outermost first: k band, p phase, a axis.
        phases: order of sine and cosine; ``("sin",)`` or ``("cos",)`` has those alone.
        include_input: put the raw coordinates before (``"front"``) or after (``"back"``)
            the features, or each behind those of its own axis (``"each"``, with the axes
            outermost). True is ``"front"``, False is None.
        basis: encode the coordinates along these directions, ``(num_axes, in_dim)``, in
            place of the axes (mip-NeRF 360's lifted basis:
            [icosahedron_basis][nerf_posenc.encoders.icosahedron_basis]). It is a constant.
        trainable: train the bands from these values on, as PINNs and tabular models do (Gorishniy
            et al. 2022, arXiv:2203.05556). They are ``sincos.frequencies`` in the
            ``state_dict``, in float32, and no cast reaches them.
        out_dtype: type of the features; None is the type that the module was last cast to, or that
            of the coordinates. The coordinates stay in float32.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> encoder = FourierEncoder(in_dim=2, num_bands=10)
        >>> encoder.out_dim
        40
        >>> encoder(torch.rand(5, 7, 2)).shape
        torch.Size([5, 7, 40])
        >>> FourierEncoder.preset("pytorch3d", in_dim=3, num_bands=6).out_dim
        39
    """

    children_in_repr = ("sincos",)
    takes_variance = True
    takes_progress = True
    basis: Tensor | None
    _kept: Tensor | None

    def __init__(
        self,
        in_dim: int,
        num_bands: int | Sequence[int] | None = None,
        *,
        frequencies: Float[Tensor, "num_bands *axes"] | Sequence[float] | None = None,
        min_octave: int | float = 0,
        max_octave: int | float | None = None,
        base: float = math.pi,
        layout: str = "akp",
        phases: Phases | tuple[Phase] = ("sin", "cos"),
        include_input: IncludeInput | Literal["each"] | bool = None,
        basis: Float[Tensor, "num_axes in_dim"] | None = None,
        trainable: bool = False,
        out_dtype: torch.dtype | None = None,
    ) -> None:
        if include_input != "each":
            include_input = raw_side(include_input)
        _require_arguments(in_dim, include_input, basis, layout, phases)
        num_axes = in_dim if basis is None else len(basis)
        counts = _counts(10 if num_bands is None else num_bands, num_axes)
        octaves = None
        if frequencies is None:
            octaves = _octaves_in_repr(max(counts), min_octave, max_octave, base)
            bands = octave_bands(
                max(counts), min_octave=min_octave, max_octave=max_octave, base=base
            )
        elif num_bands is not None:
            raise ValueError(
                f"give num_bands or frequencies, not both; got {num_bands} and {len(frequencies)} "
                "frequencies"
            )
        else:
            bands = torch.as_tensor(frequencies, dtype=torch.float64, device="cpu").detach()
            counts = [len(bands)]
        if max(counts) == 0 and include_input is None:
            raise ValueError(
                "0 bands leave no column; give num_bands >= 1, or include_input='front' "
                "for the raw coordinates alone"
            )
        # Bands that an axis does not have, and a phase that is not wanted, are computed with the
        # others and left out.
        both: Any = phases if len(phases) == 2 else ("sin", "cos")
        per_axis = counts * num_axes if len(counts) == 1 else counts
        waves = column_labels(num_axes, len(bands), layout, both)
        raw = [] if include_input is None else [(-1, "x", axis) for axis in range(in_dim)]
        side: Any = "front" if include_input == "front" else "back"
        computed = raw + waves if side == "front" else waves + raw
        columns = [
            (band, phase, axis)
            for band, phase, axis in computed
            if phase == "x" or (band < per_axis[axis] and phase in phases)
        ]
        if include_input == "each":
            # A stable sort moves each raw coordinate behind the other columns of its axis.
            columns.sort(key=lambda column: column[2])
        place = {column: i for i, column in enumerate(computed)}
        kept = None if columns == computed else [place[column] for column in columns]
        super().__init__(in_dim, len(columns))
        self._octaves = octaves
        lowest = float(bands.abs().min()) if bands.numel() else 0.0
        # Of high bands alone, coordinates in [-1, 1] have many periods.
        self._period = max(2.0, 2 * math.pi / lowest) if lowest else math.inf
        self.include_input = include_input
        self.out_dtype = out_dtype
        kind = TrainableSinCos if trainable else SinCos
        self.sincos = kind(num_axes, bands, layout=layout, phases=both, raw_side=side)
        self.bands_per_axis = tuple(per_axis)
        self._labels = columns
        self.phases = tuple(phases)
        self.register_constant("basis", None if basis is None else basis.detach().double().cpu())
        self.register_constant("_kept", None if kept is None else torch.tensor(kept, device="cpu"))

    @classmethod
    def preset(
        cls, name: str, in_dim: int, num_bands: int | Sequence[int] | None = None, **overrides: Any
    ) -> "FourierEncoder":
        """Make the encoder of another library, column for column and in its own units.

        Args:
            name: one of ``nerf_posenc.presets.FOURIER``, which says what each stands for.
            in_dim: number of coordinates.
            num_bands: number of bands; None is what the preset has, or 10.
            overrides: arguments that differ from the preset's, such as ``include_input``.

        Raises:
            ValueError: If the name is unknown, or the preset needs ``frequencies``.
        """
        arguments = FOURIER[FOURIER.canonical(name)].arguments_with(**overrides)
        own = arguments.pop("num_bands", None)
        if num_bands is None and "frequencies" not in overrides:
            num_bands = own
        return cls(in_dim, num_bands, **arguments)

    @property
    def num_bands(self) -> int:
        """Number of bands per axis, the largest if they differ."""
        return self.sincos.num_bands

    @property
    def frequency_bands(self) -> Float[Tensor, "num_bands axes"]:
        """Bands in rad per unit of the coordinate."""
        return self.sincos.frequencies

    @property
    def columns(self) -> list[Column]:
        """Band, phase and axis of each column."""
        return self._labels

    @property
    def frequencies(self) -> Float[Tensor, "out_dim in_dim"]:
        """Angular frequency of each column, rad per unit; 0 for the raw input."""
        labels = [(band, axis) for band, _, axis in self.columns]
        band, axis = torch.tensor(labels, device="cpu").T
        # The raw input has band -1: the last row.
        omega = F.pad(self.frequency_bands, (0, 0, 0, 1))[band, axis]
        directions = torch.eye(self.in_dim).double() if self.basis is None else self.basis
        return omega[:, None] * directions.cpu()[axis]

    def forward(
        self,
        x: Float[Tensor, "*batch in_dim"],
        *,
        variance: Float[Tensor, "*batch in_dim"] | None = None,
        covariance: Float[Tensor, "*batch in_dim in_dim"] | None = None,
        weight: Float[Tensor, " num_bands"] | None = None,
        progress: float | Float[Tensor, ""] | None = None,
        filter: Filter | None = None,
    ) -> Float[Tensor, "*batch out_dim"]:
        r"""Encode coordinates, or areas around them.

        Args:
            x: coordinates in [-1, 1], any batch shape, also empty. Keep them in float32:
                a half-precision coordinate has already lost the high bands.
            variance: variance of each coordinate. The features become their expectations over the
                Gaussian, $\exp(-\omega^2 \sigma^2 / 2)$ times the features of its mean
                (Barron et al. 2021, mip-NeRF, equations 13 and 14).
            covariance: the same for a Gaussian of any orientation; what counts is its
                variance along each axis or direction of the basis (Barron et al. 2022,
                mip-NeRF 360, appendix).
            weight: factor of each band; the raw input keeps factor 1.
            progress: progress of the fit, from 0 to 1; opens the bands from coarse to fine:
                [coarse_to_fine_weight][nerf_posenc.core.coarse_to_fine_weight].
            filter: filter whose mean around each point the features become:
                [Box][nerf_posenc.encoders.Box] for a pixel's area,
                [Lanczos][nerf_posenc.encoders.Lanczos] to resample, or any function from angular
                frequencies ``(num, in_dim)`` to factors ``(num,)`` or ``(*batch, num)``.

        Returns:
            Features in the type that docs/conventions.md gives. A coordinate that is not finite
            gives NaN in its columns.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If a shape does not fit or two arguments exclude each other.
        """
        require_coordinates(x, self.in_dim)
        self.move_constants(x.device)
        if weight is not None and progress is not None:
            raise ValueError("give weight or progress, not both")
        if progress is not None:
            weight = coarse_to_fine_weight(self.num_bands, progress).to(x.device)
        if not self._is_looked_at:
            self.look_at(x, self._period)
        dtype = self.features_dtype(x)
        if x.dtype in (torch.float16, torch.bfloat16):
            # The gradients of the raw columns and of the others are added before they are rounded.
            x = x.float()
        features: Tensor = self.sincos(
            x,
            weight=weight,
            variance=self._variance_along_axes(x, variance, covariance),
            basis=self.basis,
            raw=None if self.include_input is None else x,
            out_dtype=dtype,
        )
        if self._kept is not None:
            features = features[..., self._kept]
        return features if filter is None else filtered(features, filter, self.frequencies)

    def _variance_along_axes(
        self, x: Tensor, variance: Tensor | None, covariance: Tensor | None
    ) -> Tensor | None:
        if variance is None and covariance is None:
            return None
        if variance is not None and covariance is not None:
            raise ValueError("give variance or covariance, not both")
        shape = x.shape if variance is not None else (*x.shape, self.in_dim)
        given = variance if variance is not None else covariance
        name = "variance" if variance is not None else "covariance"
        require_tensor(given, name)
        assert given is not None
        if given.shape != shape:
            raise ValueError(f"{name} must have shape {tuple(shape)}; got {tuple(given.shape)}")
        own = given if variance is not None else given.diagonal(dim1=-2, dim2=-1)
        require_not_negative(own, name)
        if self.basis is None:
            along = given if variance is not None else given.diagonal(dim1=-2, dim2=-1)
        else:
            basis = self.basis.to(given)
            # The quadratic form of each direction, b' C b.
            along = (
                exact_product(given, basis.T.square())
                if variance is not None
                else (exact_product(given, basis.T) * basis.T).sum(-2)
            )
        return along

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        convention = self.sincos.convention()
        is_trained = isinstance(self.sincos, TrainableSinCos)
        if self._octaves is not None and not is_trained:
            convention = f"{self._octaves}, layout={convention.partition('layout=')[2]}"
        if len(self.phases) == 1:
            convention = convention.replace(str(self.sincos.phases), str(self.phases))
        parts = [f"in_dim={self.in_dim}, out_dim={self.out_dim}", convention]
        if self.include_input is not None:
            parts.append(f"include_input={self.include_input!r}")
        if len(set(self.bands_per_axis)) > 1:
            parts.append(f"num_bands={self.bands_per_axis}")
        if self.basis is not None:
            parts.append(f"basis={format_values(self.basis)}")
        if is_trained:
            parts.append("trainable=True")
        if self.out_dtype is not None:
            parts.append(f"out_dtype={self.out_dtype}")
        return ", ".join(parts)


def _counts(num_bands: int | Sequence[int], num_axes: int) -> list[int]:
    """Number of bands of all axes, or of each."""
    given = num_bands if isinstance(num_bands, Sequence) else [num_bands]
    counts = [whole(count, "num_bands") for count in given]
    if len(counts) not in (1, num_axes):
        raise ValueError(f"num_bands must be one number or {num_axes}; got {counts}")
    return counts


def _octaves_in_repr(
    num_bands: int, min_octave: int | float, max_octave: int | float | None, base: float
) -> str:
    """The arguments that make the bands, which say more than the bands."""
    given = dict(min_octave=min_octave, max_octave=max_octave, base=base)
    usual = dict(min_octave=0, max_octave=None, base=math.pi)
    own = [f"{name}={value!r}" for name, value in given.items() if value != usual[name]]
    return ", ".join([f"num_bands={num_bands}", *own])


def _require_arguments(
    in_dim: int, include_input: str | None, basis: Tensor | None, layout: str, phases: Sequence[str]
) -> None:
    require_counts(in_dim=in_dim)
    if phases not in (("sin",), ("cos",)) and sorted(phases) != ["cos", "sin"]:
        raise ValueError(
            "phases must be ('sin', 'cos') or ('cos', 'sin'), or ('sin',) or ('cos',) alone; got "
            f"{phases!r}"
        )
    if include_input == "each" and (layout[:1] != "a" or basis is not None):
        raise ValueError(
            "include_input='each' needs the axes outermost, layout='akp' or 'apk', and no basis; "
            f"got {layout!r}" + ("" if basis is None else " and a basis")
        )
    if basis is not None and basis.shape[1:] != (in_dim,):
        raise ValueError(f"basis must have shape (num_axes, {in_dim}); got {tuple(basis.shape)}")
