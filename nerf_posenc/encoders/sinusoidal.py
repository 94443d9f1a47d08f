"""Sinusoidal embeddings of positions in a sequence, and of diffusion timesteps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nerf_posenc.core.bands import bands_of_width, geometric_bands
from nerf_posenc.core.checks import (
    default_dtype,
    require_counts,
    require_embeddings,
    require_positions,
)
from nerf_posenc.core.columns import Phases, column_labels
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.core.sinusoids import SinCos
from nerf_posenc.core.speed import exact_product
from nerf_posenc.presets.sequence import SEQUENCE

if TYPE_CHECKING:
    from jaxtyping import Float, Num


class SinusoidalEncoder(Encoder):
    r"""The Transformer's sinusoidal position embedding.

    $$PE(t, 2i) = \sin(t / \text{base}^{2i/d}), \qquad
      PE(t, 2i + 1) = \cos(t / \text{base}^{2i/d})$$

    (Vaswani et al. 2017, section 3.5): sines on even columns, cosines on odd ones, with
    wavelengths in a geometric series from $2\pi$ towards $\text{base} \cdot 2\pi$. It is
    [FourierEncoder][nerf_posenc.FourierEncoder] with these bands on the one coordinate t.

    Args:
        dim: width of the embedding, 1 or more. With an odd width the last column is a sine
            without its cosine.
        base: ratio of the longest wavelength (not reached) to the shortest.
        frequencies: other bands, rad per position, float64. Columns beyond ``dim`` are left out;
            of one too few for an odd width the last column is 0.
        split: all of the first phase, then all of the second, instead of pairs.
        phases: order of sine and cosine.
        out_dtype: type of the embeddings; None is the type that the module was last cast to, or
            the type of the positions.

    Raises:
        ValueError: If ``dim`` is below 1, ``base`` is not finite and positive, or there are too few
            bands.

    Examples:
        >>> SinusoidalEncoder(4, base=100.0).table(2)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0998, 0.9950]])
    """

    children_in_repr = ("sincos",)

    def __init__(
        self,
        dim: int,
        *,
        base: float = 10_000.0,
        frequencies: Float[Tensor, " num_bands"] | None = None,
        split: bool = False,
        phases: Phases = ("sin", "cos"),
        out_dtype: torch.dtype | None = None,
    ) -> None:
        require_counts(dim=dim)
        super().__init__(1, dim)
        self.out_dtype = out_dtype
        if frequencies is None:
            frequencies = bands_of_width(dim, base=base)
        if 2 * len(frequencies) < dim - 1:
            raise ValueError(
                f"frequencies must be {dim // 2} or more, half of the {dim} columns; got "
                f"{len(frequencies)}"
            )
        self.sincos = SinCos(1, frequencies, layout="pka" if split else "akp", phases=phases)

    @classmethod
    def preset(cls, name: str, dim: int, **overrides: Any) -> "SinusoidalEncoder":
        """Make the encoder of another library: one of ``nerf_posenc.presets.SEQUENCE``.

        Args:
            name: name or alias of the preset.
            dim: width of the embedding.
            overrides: arguments that differ from the preset's.

        Raises:
            ValueError: If the name is unknown; the nearest ones are given.
        """
        arguments = SEQUENCE[SEQUENCE.canonical(name)].arguments_with(**overrides)
        # A preset gives arguments that depend on the width as functions of dim.
        return cls(dim, **{k: v(dim) if callable(v) else v for k, v in arguments.items()})

    @classmethod
    def timestep(
        cls,
        dim: int,
        *,
        base: float = 10_000.0,
        flip_sin_to_cos: bool = False,
        downscale_freq_shift: int | float = 1,
    ) -> "SinusoidalEncoder":
        """Embedding of a diffusion model's timestep: diffusers' ``get_timestep_embedding``.

        All sines, then all cosines. An odd width ends in a column of zeros.

        Args:
            dim: width, 4 or more.
            base: the longest wavelength over the shortest.
            flip_sin_to_cos: put the cosines first.
            downscale_freq_shift: with 1 the last wavelength is ``base * 2 pi`` itself; with 0, as
                in Stable Diffusion, the bands are those of the Transformer.

        Raises:
            ValueError: If ``dim`` is below 4, or ``downscale_freq_shift`` not below half of it.
        """
        if dim < 4:
            raise ValueError(f"dim must be 4 or more; got {dim}")
        bands = geometric_bands(dim // 2, base=base, shift=downscale_freq_shift)
        phases: Phases = ("cos", "sin") if flip_sin_to_cos else ("sin", "cos")
        return cls(dim, frequencies=bands, split=True, phases=phases)

    def forward(self, positions: Num[Tensor, "*batch"]) -> Float[Tensor, "*batch dim"]:
        """Encode positions.

        Args:
            positions: 0-based, integers or reals, of any sign and batch shape. Integers
                are taken as they are up to 2**53, and angles are exact to float32 up to 2**31.
                Half precision has rounded what it holds: 256 and 257 are the same in bfloat16.

        Returns:
            Embeddings in ``out_dtype``.

        Raises:
            TypeError: If the positions are no tensor.
            ValueError: If they are reals that look like embeddings: ``(*batch, length, dim)``.
        """
        require_positions(positions, self.out_dim, "add_to(embeddings)")
        return self.embedded(positions, self.features_dtype(positions))

    def embedded(
        self, positions: Num[Tensor, "*batch"], dtype: torch.dtype
    ) -> Float[Tensor, "*batch dim"]:
        """Encode positions in a type, whatever the encoder's own is."""
        features: Tensor = self.sincos(positions[..., None], out_dtype=dtype)
        missing = self.out_dim - self.sincos.out_dim
        if missing > 0:
            return nn.functional.pad(features, (0, missing))
        return features[..., : self.out_dim]

    def table(self, length: int, *, offset: int | float = 0) -> Float[Tensor, "length dim"]:
        """Embeddings of ``length`` positions from ``offset`` on.

        Args:
            length: number of positions, 0 or more.
            offset: the first position.

        Returns:
            One row per position, as of integer positions.

        Raises:
            TypeError: If ``length`` is a shape.
            ValueError: If it is negative.
        """
        if isinstance(length, tuple | list):
            raise TypeError(
                f"length must be an integer; got {length!r}. For grids, use "
                f"GridSinusoidalEncoder.table"
            )
        if length < 0:
            raise ValueError(f"length must be 0 or more; got {length}")
        dtype = default_dtype() if isinstance(offset, float) else None
        embeddings: Tensor = self(torch.arange(length, device=self.device, dtype=dtype) + offset)
        return embeddings

    def add_to(
        self,
        embeddings: Float[Tensor, "*batch rows dim"],
        *,
        offset: int | float = 0,
        sequence_dim: int = -2,
    ) -> Float[Tensor, "*batch rows dim"]:
        """Add the embedding of each position to that of its token.

        Args:
            embeddings: token embeddings, ``(*batch, length, dim)``, or with ``sequence_dim=0``
                ``(length, batch, dim)``, the order of ``nn.Transformer``, which no shape tells
                from the other.
            offset: position of the first token, as when decoding continues from a cache.
            sequence_dim: dimension of the sequence.

        Returns:
            The sum, in the embeddings' type; the positions are embedded in float32 or better.

        Raises:
            ValueError: If the width is not ``dim``, or there is no such dimension.
        """
        require_embeddings(embeddings, self.out_dim)
        dim = sequence_dim - embeddings.ndim if sequence_dim >= 0 else sequence_dim
        if not -embeddings.ndim <= dim <= -2:
            raise ValueError(
                f"sequence_dim must be a dimension of {tuple(embeddings.shape)} but the last; got "
                f"{sequence_dim}"
            )
        positions = self.table(embeddings.shape[dim], offset=offset).to(embeddings)
        return embeddings + positions.reshape(len(positions), *(1,) * (-2 - dim), self.out_dim)

    def shift_matrix(self, offset: int | float) -> Float[Tensor, "dim dim"]:
        r"""The matrix T that shifts every embedding by the same offset.

        $PE(t + \text{offset}) = T\, PE(t)$ for all t: a rotation of each pair, which is why a
        network can attend by offset (Vaswani et al. 2017, section 3.5).

        Args:
            offset: number of positions, integer or real, of any sign.

        Returns:
            The matrix in float64.

        Raises:
            ValueError: If a sine has no cosine, as the last one of an odd width.
        """
        if self.out_dim != self.sincos.out_dim:
            raise ValueError(
                f"a width of {self.out_dim} leaves a sine without its cosine, so no matrix "
                "shifts it; use an even width"
            )
        labels = column_labels(1, self.sincos.num_bands, self.sincos.layout, self.sincos.phases)
        place = {label: i for i, label in enumerate(labels)}
        shifted: Tensor = self.sincos(torch.tensor([offset], dtype=torch.float64)).cpu()
        matrix = torch.zeros(self.out_dim, self.out_dim, dtype=torch.float64)
        for (band, phase, axis), row in place.items():
            sine, cosine = (shifted[place[band, name, axis]] for name in ("sin", "cos"))
            partner = place[band, "cos" if phase == "sin" else "sin", axis]
            # sin(a + b) = cos b sin a + sin b cos a, and cos(a + b) = cos b cos a - sin b sin a.
            matrix[row, row] = cosine
            matrix[row, partner] = sine if phase == "sin" else -sine
        return matrix

    def similarity(
        self, positions: Num[Tensor, "*batch rows"], others: Num[Tensor, "*batch columns"]
    ) -> Float[Tensor, "*batch rows columns"]:
        r"""Inner products of the embeddings of positions, $\sum_i \cos(\omega_i (s - t))$.

        They depend on the offset alone, and are largest at offset 0.

        Args:
            positions: positions of the rows.
            others: positions of the columns.

        Returns:
            One product for each pair.
        """
        embeddings: Tensor = self(positions)
        other_embeddings: Tensor = self(others)
        return exact_product(embeddings, other_embeddings.mT)

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        kind = f", out_dtype={self.out_dtype}" if self.out_dtype else ""
        return f"dim={self.out_dim}, {self.sincos.convention()}{kind}"
