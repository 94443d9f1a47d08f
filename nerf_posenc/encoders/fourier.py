"""Fourier encoders of continuous coordinates."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc.core.bands import coarse_to_fine_weight, octave_bands
from nerf_posenc.core.checks import require_coordinates
from nerf_posenc.core.columns import Phases, column_labels
from nerf_posenc.core.sinusoids import Backend, SinCos, project
from nerf_posenc.encoders.presets import PRESETS

IncludeInput = Literal["front", "back"] | None

Column = tuple[int, str, int]
"""Band (-1 for the raw input), phase ("sin", "cos" or "x") and axis of a column."""


class FourierEncoder(nn.Module):
    r"""NeRF's encoding of continuous coordinates: a sine and a cosine on every octave.

    $$\gamma(x) = \big(\sin(2^0 \pi x), \cos(2^0 \pi x), \dots,
      \sin(2^{L-1} \pi x), \cos(2^{L-1} \pi x)\big)$$

    for each coordinate in turn (Mildenhall et al. 2020, equation 4). Coordinates are meant
    to lie in [-1, 1], where the lowest band goes through one period; outside the features
    repeat with period 2 but stay exact.

    Args:
        in_dim: number of coordinates, 1 or more.
        num_bands: number of octaves L, 0 or more, or one number for each axis. With 0 and
            no raw input there would be no column, which is refused.
        bands: other bands in place of the octaves: rad per unit of the coordinate,
            float64, ``(num_bands,)`` or ``(num_bands, num_axes)``. ``num_bands``,
            ``min_octave`` and ``base`` are then not used.
        min_octave: octave of the first band.
        base: rad per unit at octave 0. NeRF's paper has pi; its code, and most that
            descend from it, have 1.
        layout: nesting of the columns, outermost first: k band, p phase, a axis.
        phases: which of sine and cosine comes first.
        include_input: put the raw coordinates before (``"front"``) or after (``"back"``)
            the features.
        basis: encode the coordinates along these directions, ``(num_axes, in_dim)``, in
            place of the axes (mip-NeRF 360's lifted basis:
            [icosahedron_basis][nerf_posenc.icosahedron_basis]). It is a constant.
        variance_scale: factor of every variance, other than 1 only to repeat a library's
            mistake.
        backend: ``"torch"``, or ``"triton"`` for one fused kernel on a GPU, which takes
            coordinates of up to float32 and no ``basis``.

    Raises:
        RuntimeError: where the backend cannot run; the message says what it needs.
        ValueError: where an argument is out of its range.

    Examples:
        >>> encoder = FourierEncoder(in_dim=2, num_bands=10)
        >>> encoder.out_dim
        40
        >>> encoder(torch.rand(5, 7, 2)).shape
        torch.Size([5, 7, 40])
        >>> FourierEncoder.preset("pytorch3d", in_dim=3, num_bands=6).out_dim
        39
    """

    basis: Tensor | None
    _kept: Tensor | None

    def __init__(
        self,
        in_dim: int,
        num_bands: int | Sequence[int] = 10,
        *,
        bands: Float[Tensor, "num_bands *axes"] | None = None,
        min_octave: int = 0,
        base: float = math.pi,
        layout: str = "akp",
        phases: Phases = ("sin", "cos"),
        include_input: IncludeInput = None,
        basis: Float[Tensor, "num_axes in_dim"] | None = None,
        variance_scale: float = 1.0,
        backend: Backend = "torch",
    ) -> None:
        super().__init__()
        if backend == "triton" and basis is not None:
            raise ValueError(
                "backend='triton' has no basis, whose products are made in float64; use "
                "backend='torch'"
            )
        if include_input not in ("front", "back", None):
            raise ValueError(
                f"include_input must be 'front', 'back' or None; got {include_input!r}"
            )
        if basis is not None and basis.shape[1:] != (in_dim,):
            raise ValueError(
                f"basis must have shape (num_axes, {in_dim}); got {tuple(basis.shape)}"
            )
        num_axes = in_dim if basis is None else len(basis)
        counts = [num_bands] if isinstance(num_bands, int) else list(num_bands)
        if len(counts) not in (1, num_axes):
            raise ValueError(f"num_bands must be one number or {num_axes}; got {counts}")
        if bands is None:
            bands = octave_bands(max(counts), min_octave=min_octave, base=base)
        else:
            counts = [len(bands)]
        if max(counts) == 0 and include_input is None:
            raise ValueError(
                "0 bands leave no column; give num_bands >= 1, or include_input='front' "
                "for the raw coordinates alone"
            )
        self.include_input = include_input
        self.variance_scale = variance_scale
        self.sincos = SinCos(num_axes, bands, layout=layout, phases=phases, backend=backend)
        self._in_dim = in_dim
        self._constant_basis = None if basis is None else basis.detach().double().cpu()
        self.register_buffer("basis", self._constant_basis, persistent=False)
        # Bands that an axis does not have are made with the others' and left out.
        labels = column_labels(num_axes, len(bands), layout, phases)
        per_axis = counts * num_axes if len(counts) == 1 else counts
        kept = [i for i, (band, _, axis) in enumerate(labels) if band < per_axis[axis]]
        self._labels = [labels[i] for i in kept]
        is_ragged = len(kept) < len(labels)
        self.register_buffer("_kept", torch.tensor(kept) if is_ragged else None, persistent=False)
        # All the core's columns are kept, and the raw input is what the core is given.
        self.is_plain = basis is None and not is_ragged

    @classmethod
    def preset(
        cls, name: str, in_dim: int, num_bands: int | Sequence[int] = 10, **overrides: Any
    ) -> "FourierEncoder":
        """Make the encoder of another library, column for column and in its own units.

        Args:
            name: one of ``PRESETS``, which says what each stands for.
            in_dim: number of coordinates.
            num_bands: number of bands.
            overrides: arguments that differ from the preset's, such as ``include_input``.

        Raises:
            ValueError: where the name is unknown, or the preset needs ``bands``.
        """
        if name not in PRESETS:
            raise ValueError(f"no preset {name!r}; there are {', '.join(sorted(PRESETS))}")
        arguments = {**PRESETS[name], **overrides}
        if "bands" in arguments and arguments["bands"] is None:
            raise ValueError(f"preset {name!r} has no bands of its own; give bands=")
        return cls(in_dim, num_bands, **arguments)

    @property
    def in_dim(self) -> int:
        """Number of coordinates."""
        return self._in_dim

    @property
    def num_bands(self) -> int:
        """Number of bands an axis, the largest where they differ."""
        return self.sincos.num_bands

    @property
    def out_dim(self) -> int:
        """Number of columns."""
        return len(self._labels) + (self.in_dim if self.include_input else 0)

    @property
    def columns(self) -> list[Column]:
        """What each column holds: its band, phase and axis."""
        raw = [(-1, "x", axis) for axis in range(self.in_dim)] if self.include_input else []
        return self._labels + raw if self.include_input == "back" else raw + self._labels

    def forward(
        self,
        x: Float[Tensor, "*batch in_dim"],
        *,
        variance: Float[Tensor, "*batch in_dim"] | None = None,
        covariance: Float[Tensor, "*batch in_dim in_dim"] | None = None,
        weight: Float[Tensor, " num_bands"] | None = None,
        progress: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*batch out_dim"]:
        r"""Encode coordinates, or Gaussians around them.

        Args:
            x: coordinates in [-1, 1], any batch shape, also empty. Keep them in float32:
                a half-precision coordinate has already lost the high bands.
            variance: of each coordinate. The features become their expectations over the
                Gaussian, $\exp(-\omega^2 \sigma^2 / 2)$ times the features of its mean
                (Barron et al. 2021, mip-NeRF, equations 13 and 14).
            covariance: the same for a Gaussian of any orientation; what counts is its
                variance along each axis or direction of the basis (Barron et al. 2022,
                mip-NeRF 360, appendix).
            weight: factor of each band; the raw input keeps factor 1.
            progress: from 0 to 1, lets the bands in from coarse to fine:
                [coarse_to_fine_weight][nerf_posenc.coarse_to_fine_weight].

        Returns:
            Features in ``x.dtype``. A coordinate that is not finite gives NaN in its columns.

        Raises:
            TypeError: where ``x`` does not hold floating-point numbers.
            ValueError: where a shape does not fit or two arguments exclude each other.
        """
        require_coordinates(x, self.in_dim)
        if weight is not None and progress is not None:
            raise ValueError("give weight or progress, not both")
        if progress is not None:
            weight = coarse_to_fine_weight(self.num_bands, progress).to(x.device)
        variance = self._variance_along_axes(x, variance, covariance)
        features: Tensor
        if self.is_plain:
            features = self.sincos(
                x, weight=weight, variance=variance, dtype=x.dtype, raw=self.include_input
            )
            return features
        along = x if self.basis is None else project(x, self.basis).to(x.device)
        features = self.sincos(along, weight=weight, variance=variance, dtype=x.dtype)
        if self._kept is not None:
            features = features[..., self._kept]
        if self.include_input is None:
            return features
        parts = [x, features] if self.include_input == "front" else [features, x]
        return torch.cat(parts, dim=-1)

    def _variance_along_axes(
        self, x: Tensor, variance: Tensor | None, covariance: Tensor | None
    ) -> Tensor | None:
        if variance is None and covariance is None:
            return None
        if variance is not None and covariance is not None:
            raise ValueError("give variance or covariance, not both")
        shape = x.shape if variance is not None else (*x.shape, self.in_dim)
        given = variance if variance is not None else covariance
        assert given is not None
        if given.shape != shape:
            name = "variance" if variance is not None else "covariance"
            raise ValueError(f"{name} must have shape {tuple(shape)}; got {tuple(given.shape)}")
        if self.basis is None:
            along = given if variance is not None else given.diagonal(dim1=-2, dim2=-1)
        else:
            basis = self.basis.to(given)
            # The quadratic form of each direction, b' C b.
            along = (
                given @ basis.T.square()
                if variance is not None
                else ((given @ basis.T) * basis.T).sum(-2)
            )
        return along if self.variance_scale == 1 else along * self.variance_scale

    def _apply(self, fn: Any, recurse: bool = True) -> "FourierEncoder":
        super()._apply(fn, recurse)
        # A cast must not reach the directions either.
        if self.basis is not None and self._constant_basis is not None:
            device = self.basis.device
            dtype = torch.float32 if device.type == "mps" else torch.float64
            self.basis = self._constant_basis.to(device, dtype)
        return self

    def extra_repr(self) -> str:
        """Show what the sub-module does not."""
        return f"in_dim={self.in_dim}, out_dim={self.out_dim}, include_input={self.include_input!r}"


def icosahedron_basis(subdivisions: int = 2) -> Float[Tensor, "num_axes 3"]:
    """Directions of a subdivided icosahedron, one of each opposite pair.

    With 2 subdivisions of each edge these are the 21 directions that mip-NeRF 360 lifts a
    Gaussian on (Barron et al. 2022, appendix). Their order and signs are ours.

    Args:
        subdivisions: parts that each edge is cut into, 1 or more: 1 gives 6 directions.

    Returns:
        Unit vectors in float64.

    Raises:
        ValueError: where ``subdivisions`` is below 1.

    Examples:
        >>> icosahedron_basis().shape
        torch.Size([21, 3])
    """
    if subdivisions < 1:
        raise ValueError(f"subdivisions must be 1 or more; got {subdivisions}")
    golden = (1 + math.sqrt(5)) / 2
    signs = (-1.0, 1.0)
    corners = [(0.0, a, b * golden) for a in signs for b in signs]
    vertices = torch.tensor(
        [corner[i:] + corner[:i] for corner in corners for i in range(3)], dtype=torch.float64
    )
    distances = torch.cdist(vertices, vertices)
    # The edges of this icosahedron have length 2; a face is three corners that far apart.
    near = (distances - 2).abs() < 1e-6
    faces = [
        (i, j, k)
        for i in range(12)
        for j in range(i)
        for k in range(j)
        if near[i, j] and near[j, k] and near[i, k]
    ]
    found: list[Tensor] = []
    for face in faces:
        for i in range(subdivisions + 1):
            for j in range(subdivisions + 1 - i):
                parts = (i, j, subdivisions - i - j)
                point = sum(
                    part * vertices[corner] for part, corner in zip(parts, face, strict=True)
                )
                assert isinstance(point, Tensor)
                point = point / point.norm()
                if not any((point @ other).abs() > 1 - 1e-9 for other in found):
                    found.append(point)
    return torch.stack(found)
