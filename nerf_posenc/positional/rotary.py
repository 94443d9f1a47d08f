"""Relative positions: rotary embeddings and linear biases."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from nerf_posenc.core.bands import geometric_bands
from nerf_posenc.core.sinusoids import SinCos

Pairing = Literal["interleaved", "half"]


class RotaryEncoder(nn.Module):
    r"""Turns pairs of a query's or key's features by angles that grow with the position.

    A pair is turned by $\omega_i t$ with the bands of the sinusoidal code,
    $\omega_i = \text{base}^{-2i/d}$, so that the product of a query and a key depends on their
    offset alone (Su et al. 2021, RoFormer, equation 34). With several axes the width is
    shared out among them.

    Args:
        dim: width of a head, a positive multiple of ``2 * num_axes``.
        num_axes: 1 for a sequence, 2 or 3 for a grid (axial).
        base: ratio of the longest wavelength (not reached) to the shortest.
        bands: other bands: rad per unit of position, ``(dim / (2 * num_axes),)``, as from
            [ntk_bands][nerf_posenc.ntk_bands], [yarn_bands][nerf_posenc.yarn_bands]
            or ``linear_bands`` (pixels).
        pairing: ``"interleaved"`` pairs columns 2i and 2i+1 (RoFormer, GPT-J,
            rotary-embedding-torch, torchtune, timm); ``"half"`` pairs i and i + dim/2
            (GPT-NeoX, Llama in transformers).
        scale: factor of the cosines and sines, YaRN's attention temperature.

    Raises:
        ValueError: where an argument does not fit.

    Examples:
        >>> rotary = RotaryEncoder(64)
        >>> queries = torch.rand(2, 8, 100, 64)
        >>> rotary.rotate(queries, torch.arange(100)).shape
        torch.Size([2, 8, 100, 64])
    """

    def __init__(
        self,
        dim: int,
        num_axes: int = 1,
        *,
        base: float = 10_000.0,
        bands: Float[Tensor, " num_bands"] | None = None,
        pairing: Pairing = "interleaved",
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        if num_axes < 1 or dim < 1 or dim % (2 * num_axes):
            raise ValueError(
                f"dim must be a positive multiple of 2 * num_axes = {2 * num_axes}; got {dim}"
            )
        if pairing not in ("interleaved", "half"):
            raise ValueError(f"pairing must be 'interleaved' or 'half'; got {pairing!r}")
        if bands is None:
            bands = geometric_bands(dim // num_axes, base=base)
        if bands.shape != (dim // (2 * num_axes),):
            raise ValueError(
                f"bands must have shape ({dim // (2 * num_axes)},); got {tuple(bands.shape)}"
            )
        self.dim = dim
        self.pairing = pairing
        self.scale = scale
        self.sincos = SinCos(num_axes, bands, layout="pak")

    @property
    def in_dim(self) -> int:
        """Number of position axes."""
        return self.sincos.in_dim

    @property
    def out_dim(self) -> int:
        """Width of a head."""
        return self.dim

    def forward(
        self, positions: Num[Tensor, "*shape"]
    ) -> tuple[Float[Tensor, "*batch dim"], Float[Tensor, "*batch dim"]]:
        """Cosines and sines of every column, for use with ``rotate`` or elsewhere.

        Args:
            positions: ``(*batch,)`` where there is one axis, else ``(*batch, num_axes)``;
                integers or reals. Integers are exact to 2**53, inside autocast too.

        Returns:
            Cosines and sines in float32 (float64 positions: float64), each ``(*batch, dim)``.

        Raises:
            ValueError: where the positions have the wrong number of axes.
        """
        if self.in_dim == 1:
            positions = positions[..., None]
        if positions.dtype in (torch.float16, torch.bfloat16):
            positions = positions.float()
        features: Tensor = self.sincos(positions) * self.scale
        sine, cosine = features.unflatten(-1, (2, self.dim // 2)).unbind(-2)
        return self._for_columns(cosine), self._for_columns(sine)

    def _for_columns(self, per_pair: Tensor) -> Tensor:
        """Repeat the value of each pair at both its columns."""
        if self.pairing == "interleaved":
            return per_pair.repeat_interleave(2, dim=-1)
        return torch.cat([per_pair, per_pair], dim=-1)

    def rotate(
        self, x: Float[Tensor, "*batch length dim"], positions: Num[Tensor, "*shape"]
    ) -> Float[Tensor, "*batch length dim"]:
        """Turn queries or keys.

        Args:
            x: features, the last two dimensions being the position and the width.
            positions: of each row, ``(length,)`` or ``(length, num_axes)``; for decoding from
                a cache, ``torch.arange(length) + offset``. Any shape that broadcasts with
                ``x`` without its last dimension will do.

        Returns:
            Turned features in ``x.dtype``; the turn itself is made in float32 or better.

        Raises:
            ValueError: where the width is not ``dim``.
        """
        if x.shape[-1] != self.dim:
            raise ValueError(
                f"x must have shape (*batch, length, {self.dim}); got {tuple(x.shape)}"
            )
        cosine, sine = self(positions)
        turned: Tensor = x * cosine + self._quarter_turn(x) * sine
        return turned.to(x.dtype)

    def _quarter_turn(self, x: Tensor) -> Tensor:
        """Each pair (a, b) as (-b, a)."""
        if self.pairing == "interleaved":
            first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
            return torch.stack([-second, first], dim=-1).flatten(-2)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([-second, first], dim=-1)

    def extra_repr(self) -> str:
        """Show the width and the convention."""
        return f"dim={self.dim}, pairing={self.pairing!r}, scale={self.scale}"


def ntk_bands(dim: int, *, factor: float, base: float = 10_000.0) -> Float[Tensor, " num_bands"]:
    r"""Bands for positions ``factor`` times as far as were trained on, by a larger base.

    The base is multiplied by $\text{factor}^{d/(d-2)}$, which leaves the first band as it is and
    divides the last by the factor ("NTK-aware" interpolation; Peng et al. 2023, YaRN,
    arXiv:2309.00071, section 3.1). Dividing every band by the factor is linear interpolation
    (Chen et al. 2023, arXiv:2306.15595): ``geometric_bands(dim) / factor``.

    Args:
        dim: width, an even number of 4 or more.
        factor: how much farther, 1 or more.
        base: the one that was trained with.

    Returns:
        Bands in float64, ``(dim / 2,)``.

    Raises:
        ValueError: where an argument is out of its range.
    """
    _require_scaling(dim, factor)
    return geometric_bands(dim, base=base * factor ** (dim / (dim - 2)))


def yarn_bands(
    dim: int,
    *,
    factor: float,
    trained_length: int,
    base: float = 10_000.0,
    fast_turns: float = 32.0,
    slow_turns: float = 1.0,
) -> Float[Tensor, " num_bands"]:
    """YaRN's bands: slow ones are interpolated, fast ones kept, with a ramp between.

    A band that makes more than ``fast_turns`` turns over the trained length is kept, one that
    makes fewer than ``slow_turns`` is divided by the factor (Peng et al. 2023, section 3.2).
    The queries and keys are scaled by [yarn_scale][nerf_posenc.yarn_scale] besides.

    Args:
        dim: width, an even number of 4 or more.
        factor: how much farther, 1 or more.
        trained_length: positions that were trained on.
        base: the one that was trained with.
        fast_turns: the paper's beta.
        slow_turns: the paper's alpha.

    Returns:
        Bands in float64, ``(dim / 2,)``.

    Raises:
        ValueError: where an argument is out of its range.
    """
    _require_scaling(dim, factor)
    if trained_length < 1 or not 0 < slow_turns < fast_turns:
        raise ValueError(
            "trained_length must be 1 or more and 0 < slow_turns < fast_turns; got "
            f"{trained_length}, {slow_turns} and {fast_turns}"
        )

    def pair_with(turns: float) -> float:
        """Index of the band, as a real number, that makes so many turns."""
        wavelength = trained_length / turns
        return dim * math.log(wavelength / (2 * math.pi)) / (2 * math.log(base))

    low = max(0, math.floor(pair_with(fast_turns)))
    high = min(dim - 1, math.ceil(pair_with(slow_turns)))
    pairs = torch.arange(dim // 2, dtype=torch.float64)
    interpolated = ((pairs - low) / max(high - low, 1e-3)).clamp(0, 1)
    bands = geometric_bands(dim, base=base)
    return bands * (1 - interpolated) + bands / factor * interpolated


def yarn_scale(factor: float) -> float:
    """YaRN's factor for queries and keys, ``0.1 ln(factor) + 1`` (Peng et al. 2023, section 3.4).

    Examples:
        >>> yarn_scale(1.0)
        1.0
    """
    return 0.1 * math.log(factor) + 1.0


def alibi_slopes(num_heads: int) -> Float[Tensor, " num_heads"]:
    r"""Slopes of ALiBi's heads: $2^{-8i/n}$ for $i = 1 \dots n$ (Press et al. 2022, section 3).

    Where n is no power of two, those of the next lower one are followed by every second
    slope of the next higher one, as the authors' code has it.

    Raises:
        ValueError: where there is no head.

    Examples:
        >>> alibi_slopes(2)
        tensor([0.0625, 0.0039])
    """
    if num_heads < 1:
        raise ValueError(f"num_heads must be 1 or more; got {num_heads}")
    lower = 1 << (num_heads.bit_length() - 1)
    slopes: Sequence[float] = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    higher = [2 ** (-4 * i / lower) for i in range(1, 2 * lower + 1)]
    return torch.tensor([*slopes, *higher[0::2][: num_heads - lower]])


def alibi_bias(
    num_heads: int, num_queries: int, num_keys: int | None = None
) -> Float[Tensor, "num_heads num_queries num_keys"]:
    """ALiBi's bias: minus the slope of the head times the distance of query and key.

    Queries are the last ``num_queries`` of the ``num_keys`` positions, as when decoding from
    a cache. The bias is symmetric; a causal mask is the caller's.

    Args:
        num_heads: number of heads, 1 or more.
        num_queries: number of queries.
        num_keys: number of keys, at least that of the queries; None is as many.

    Returns:
        Bias to add to the attention scores, float32.

    Raises:
        ValueError: where a number is out of its range.

    Examples:
        >>> alibi_bias(1, 2)[0]
        tensor([[-0.0000, -0.0039],
                [-0.0039, -0.0000]])
    """
    num_keys = num_queries if num_keys is None else num_keys
    if not 0 <= num_queries <= num_keys:
        raise ValueError(f"num_keys must be num_queries or more; got {num_keys} and {num_queries}")
    keys = torch.arange(num_keys)
    queries = keys[num_keys - num_queries :]
    distances = (queries[:, None] - keys).abs()
    return -alibi_slopes(num_heads)[:, None, None] * distances


def _require_scaling(dim: int, factor: float) -> None:
    if dim < 4 or dim % 2:
        raise ValueError(f"dim must be an even number of 4 or more; got {dim}")
    if not (math.isfinite(factor) and factor >= 1):
        raise ValueError(f"factor must be 1 or more; got {factor}")
