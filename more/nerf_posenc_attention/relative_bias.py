"""Learned attention biases that depend on the offset of the key from the query."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from nerf_posenc.core.checks import require_counts, require_positive, whole, without_autocast

if TYPE_CHECKING:
    from jaxtyping import Float, Int


def relative_positions(
    num_queries: int, num_keys: int | None = None, *, device: torch.device | None = None
) -> Int[Tensor, "num_queries num_keys"]:
    """Compute the position of each key minus that of each query.

    Queries are the last ``num_queries`` of the ``num_keys`` positions, as when decoding from a
    cache.

    Args:
        num_queries: number of queries.
        num_keys: number of keys, at least that of the queries; None is as many.
        device: device of the result.

    Raises:
        TypeError: If a number is no integer.
        ValueError: If one is out of its range.

    Examples:
        >>> relative_positions(1, 3)
        tensor([[-2, -1,  0]])
    """
    num_queries = whole(num_queries, "num_queries")
    num_keys = num_queries if num_keys is None else whole(num_keys, "num_keys")
    if not 0 <= num_queries <= num_keys:
        raise ValueError(f"num_keys must be num_queries or more; got {num_keys} and {num_queries}")
    # keys [0 1 2 3] of 2 queries at 2 and 3  ->  [[-2 -1 0 1], [-3 -2 -1 0]]
    keys = torch.arange(num_keys, device=device)
    return keys - keys[num_keys - num_queries :, None]


def draw_linears(network: nn.Sequential, generator: torch.Generator | None) -> None:
    """Draw all layers as ``nn.Linear`` does, which takes no generator."""
    for layer in network:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
            if layer.bias is not None:
                bound = 1 / math.sqrt(layer.in_features)
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


class _LookedUpBias(nn.Module):
    """A learned number for each bucket of offsets and each head."""

    bias: nn.Embedding

    def _make_biases(self, num_buckets: int, num_heads: int) -> None:
        self.bias = nn.Embedding.from_pretrained(torch.empty(num_buckets, num_heads), freeze=False)
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the biases as ``nn.Embedding`` does, from a standard normal distribution."""
        nn.init.normal_(self.bias.weight, generator=generator)

    def buckets(self, offsets: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
        """Bucket of each offset.

        Args:
            offsets: position of the key less that of the query.
        """
        raise NotImplementedError

    def forward(
        self, num_queries: int, num_keys: int | None = None
    ) -> Float[Tensor, "num_heads num_queries num_keys"]:
        """Bias to add to the attention scores.

        Args:
            num_queries: number of queries.
            num_keys: number of keys, of which the queries are the last; None is as many.

        Raises:
            ValueError: If there are fewer keys than queries.
        """
        offsets = relative_positions(num_queries, num_keys, device=self.bias.weight.device)
        biases: Tensor = self.bias(self.buckets(offsets))
        return biases.movedim(-1, 0)


class T5RelativeBias(_LookedUpBias):
    """T5's bias: one number for each bucket of offsets and each head.

    Small offsets have a bucket each, larger ones share buckets of logarithmic width, and those
    of ``max_distance`` and beyond the last one (Raffel et al. 2020, section 2.1).

    Args:
        num_heads: number of heads, 1 or more.
        num_buckets: number of buckets, an even number of 4 or more.
        max_distance: offset from which all share a bucket, above the number of small offsets that
            have a bucket each: a quarter of ``num_buckets``, or half of them in one direction.
        bidirectional: use half of the buckets for keys after the query (encoders); else those
            keys share bucket 0 (decoders, which mask them).

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> T5RelativeBias(8)(10).shape
        torch.Size([8, 10, 10])
    """

    def __init__(
        self,
        num_heads: int,
        *,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
    ) -> None:
        require_counts(num_heads=num_heads)
        exact = num_buckets // (4 if bidirectional else 2)
        if num_buckets < 4 or num_buckets % 2 or max_distance <= exact:
            raise ValueError(
                f"num_buckets must be an even number of 4 or more and max_distance above {exact}; "
                f"got {num_buckets} and {max_distance}"
            )
        super().__init__()
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self._make_biases(num_buckets, num_heads)

    def buckets(self, offsets: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
        """Bucket of each offset.

        Args:
            offsets: position of the key less that of the query.

        Raises:
            TypeError: If the offsets are not integers.
        """
        _require_integers(offsets)
        num_buckets = self.num_buckets
        if self.bidirectional:
            num_buckets //= 2
            # The first half of the buckets is for keys up to the query, the second for later ones.
            first = (offsets > 0) * num_buckets
            distance = offsets.abs()
        else:
            first = torch.zeros_like(offsets)
            distance = (-offsets).clamp(min=0)
        # With 16 buckets and max_distance 128:
        # distance: 0 1 ... 7 | 8 ... 11 | 12 ... 15 | ... | 91 and more
        # bucket:   0 1 ... 7 | 8        | 9         | ... | 15
        exact = num_buckets // 2
        share = (distance.clamp(min=1) / exact).log() / math.log(self.max_distance / exact)
        wide = exact + (share * (num_buckets - exact)).long()
        return first + torch.where(distance < exact, distance, wide.clamp(max=num_buckets - 1))

    def extra_repr(self) -> str:
        """Show all that changes the buckets."""
        return (
            f"num_buckets={self.num_buckets}, max_distance={self.max_distance}, "
            f"bidirectional={self.bidirectional}"
        )


class ClippedRelativeBias(_LookedUpBias):
    """One number for each offset and head, the same for all offsets beyond two ends.

    The relative positions of Shaw et al. 2018 (arXiv:1803.02155), as a bias. Those of Phi-4's
    audio encoder end at ``(-max, max - 1)``.

    Args:
        num_heads: number of heads, or of numbers, 1 or more.
        ends: the least offset and the largest, of key less query.

    Raises:
        ValueError: If there is no head, or the ends do not enclose an offset.

    Examples:
        >>> ClippedRelativeBias(8, ends=(-4, 3))(10).shape
        torch.Size([8, 10, 10])
    """

    def __init__(self, num_heads: int, *, ends: tuple[int, int]) -> None:
        require_counts(num_heads=num_heads)
        if ends[0] > ends[1]:
            raise ValueError(f"ends must be the smallest and the largest offset; got {ends}")
        super().__init__()
        self.ends = ends
        self._make_biases(ends[1] - ends[0] + 1, num_heads)

    def buckets(self, offsets: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
        """Index of each offset, counted from the least.

        Args:
            offsets: position of the key less that of the query.

        Raises:
            TypeError: If the offsets are not integers.
        """
        _require_integers(offsets)
        return offsets.clamp(*self.ends) - self.ends[0]

    def extra_repr(self) -> str:
        """Show the ends."""
        return f"ends={self.ends}"


def _require_integers(offsets: Tensor) -> None:
    """Refuse real offsets, of which no table has a bucket."""
    if offsets.is_floating_point():
        raise TypeError(
            f"offsets must be integers; got {offsets.dtype}. Truncate real offsets, as UDOP has, "
            f"with .long() first"
        )


def deberta_buckets(
    offsets: Int[Tensor, "*batch"], *, num_buckets: int = 256, max_distance: int = 512
) -> Int[Tensor, "*batch"]:
    r"""Buckets of DeBERTa v2 and v3: offsets up to half of their number, then logarithms.

    With $m$ half the number of buckets, an offset $x$ beyond it has the bucket
    $m + \lceil (m - 1) \log(|x| / m) / \log((M - 1) / m) \rceil$ with the sign of $x$
    (``make_log_bucket_position`` in transformers).

    Args:
        offsets: position of the query less that of the key, as DeBERTa has it.
        num_buckets: number of buckets on both sides, ``position_buckets``.
        max_distance: offset M, of which M - 1 has the bucket 2 m - 1; ``max_relative_positions``,
            or ``max_position_embeddings`` where that is below 1.

    Raises:
        TypeError: If the offsets are not integers.
        ValueError: If there are fewer than 4 buckets or ``max_distance - 1`` is not above half of
            them.

    Examples:
        >>> deberta_buckets(torch.tensor([-40, -3, 20]), num_buckets=16, max_distance=32)
        tensor([-17,  -3,  13])
    """
    _require_integers(offsets)
    half = num_buckets // 2
    if half < 2 or max_distance - 1 <= half:
        raise ValueError(
            "num_buckets must be 4 or more, and max_distance - 1 above half of it; got "
            f"{num_buckets} and {max_distance}"
        )
    # Offsets up to `half` are their own buckets; larger ones are logarithmic, with the same sign.
    distance = offsets.abs().clamp(min=half)
    share = torch.log(distance / half) / math.log((max_distance - 1) / half)
    wide = torch.ceil(share * (half - 1)).long() + half
    return torch.where(offsets.abs() <= half, offsets, wide * offsets.sign())


class KerpleBias(nn.Module):
    r"""KERPLE's bias: a kernel of the distance with two trained numbers for each head.

    $-r_1 \log(1 + r_2 |m - n|)$ (``"log"``) or $-r_1 |m - n|^{r_2}$ (``"power"``, with
    $r_2 \le 2$), with $r_1, r_2 > 0$ (Chi et al. 2022, arXiv:2205.09921).
    ``"power"`` with exponent 1 is ALiBi.

    Args:
        num_heads: number of heads, 1 or more.
        kind: ``"log"`` or ``"power"``.
        generator: random number generator; None is torch's own.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> KerpleBias(8)(10).shape
        torch.Size([8, 10, 10])
    """

    _MIN = 1e-2

    def __init__(
        self,
        num_heads: int,
        *,
        kind: Literal["log", "power"] = "log",
        generator: torch.Generator | None = None,
    ) -> None:
        require_counts(num_heads=num_heads)
        if kind not in ("log", "power"):
            raise ValueError(f"kind must be 'log' or 'power'; got {kind!r}")
        super().__init__()
        self.kind = kind
        self.scale = nn.Parameter(torch.empty(num_heads))
        self.shape = nn.Parameter(torch.empty(num_heads))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the parameters as the authors do: in [0, 2], of "log" the shape in [0, 1]."""
        nn.init.uniform_(self.scale, 0, 2, generator=generator)
        nn.init.uniform_(self.shape, 0, 1 if self.kind == "log" else 2, generator=generator)

    def forward(
        self, num_queries: int, num_keys: int | None = None
    ) -> Float[Tensor, "num_heads num_queries num_keys"]:
        """Bias to add to the attention scores.

        Args:
            num_queries: number of queries.
            num_keys: number of keys, of which the queries are the last; None is as many.

        Raises:
            ValueError: If there are fewer keys than queries.
        """
        offsets = relative_positions(num_queries, num_keys, device=self.scale.device)
        distance = offsets.abs().to(self.scale.dtype)
        scale = self.scale.clamp(min=self._MIN)[:, None, None]
        if self.kind == "log":
            shape = self.shape.clamp(min=self._MIN)[:, None, None]
            return -scale * torch.log1p(shape * distance)
        return -scale * distance ** self.shape.clamp(self._MIN, 2)[:, None, None]

    def extra_repr(self) -> str:
        """Show the kernel."""
        return f"num_heads={len(self.scale)}, kind={self.kind!r}"


class FireBias(nn.Module):
    r"""FIRE's bias: a small network of the distance over the query's position.

    $f(\psi(i - j) / \psi(\max(L, i)))$ with $\psi(x) = \log(c x + 1)$, trained $c$ and $L$,
    for a query at $i$ and a key at $j \le i$, so that any length has inputs in [0, 1] (Li et al.
    2024, arXiv:2310.04418). Keys after the query have their absolute distance.

    Args:
        num_heads: number of heads, 1 or more.
        width: hidden units, 1 or more.
        c: initial value.
        threshold: initial L, positive.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> FireBias(8)(10).shape
        torch.Size([8, 10, 10])
    """

    _EPS = 1e-6

    def __init__(
        self, num_heads: int, *, width: int = 32, c: float = 0.1, threshold: float = 512.0
    ) -> None:
        require_counts(num_heads=num_heads, width=width)
        require_positive(c=c, threshold=threshold)
        super().__init__()
        self.network = nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, num_heads))
        self.initial_c = c
        self.c = nn.Parameter(torch.tensor(c))
        self.initial_threshold = threshold
        # Adam's steps are equally large for all parameters, too small for L = 512. So a factor of
        # the initial L is trained.
        self.threshold_factor = nn.Parameter(torch.ones(()))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the network as ``nn.Linear`` does, and set c and L to their first values."""
        draw_linears(self.network, generator)
        nn.init.constant_(self.c, self.initial_c)
        nn.init.ones_(self.threshold_factor)

    def forward(
        self, num_queries: int, num_keys: int | None = None
    ) -> Float[Tensor, "num_heads num_queries num_keys"]:
        """Bias to add to the attention scores.

        Args:
            num_queries: number of queries.
            num_keys: number of keys, of which the queries are the last; None is as many.

        Raises:
            ValueError: If there are fewer keys than queries.
        """
        offsets = relative_positions(num_queries, num_keys, device=self.c.device)
        total = offsets.shape[1]
        # Queries are the last positions, as when decoding from a cache. (num_queries, 1)
        query = torch.arange(total, device=self.c.device)[total - num_queries :, None]
        # Half precision would count 256, 256, 258.
        c = self.c.to(torch.promote_types(self.c.dtype, torch.float32))
        threshold = (self.threshold_factor.to(c) * self.initial_threshold).abs()
        reach = torch.log1p((c * torch.maximum(query, threshold)).abs()) + self._EPS
        # (num_queries, num_keys): psi(distance) / psi(max(L, i)), 0 to 1 for keys up to the query.
        share = torch.log1p((c * offsets.abs()).abs()) / reach
        # (num_queries, num_keys, 1) -> (num_queries, num_keys, num_heads)
        with without_autocast(c):
            biases: Tensor = self.network(share[..., None].to(self.c.dtype))
        return biases.movedim(-1, 0)

    def extra_repr(self) -> str:
        """Show the constant that is no weight."""
        return f"threshold={self.initial_threshold:g}"
