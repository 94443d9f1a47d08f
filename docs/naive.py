"""Simpler position encodings that lead to sinusoids, and the requirement that each one fails.

For teaching (why_sinusoids.md); networks use `nerf_posenc.SinusoidalEncoder`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc import SinusoidalEncoder

if TYPE_CHECKING:
    from jaxtyping import Float

Scheme = Callable[[int], Tensor]
"""From the length of a sequence to the embeddings of its positions, ``(length, dim)``."""


def index_codes(length: int) -> Float[Tensor, "length 1"]:
    """The position itself.

    Examples:
        >>> index_codes(3).flatten()
        tensor([0., 1., 2.])
    """
    return torch.arange(length, dtype=torch.float32)[:, None]


def normalized_index_codes(length: int) -> Float[Tensor, "length 1"]:
    """The position divided by the last one, so that it stays in [0, 1].

    Examples:
        >>> normalized_index_codes(3).flatten()
        tensor([0.0000, 0.5000, 1.0000])
    """
    return index_codes(length) / max(1, length - 1)


def binary_codes(length: int, *, num_bits: int = 16) -> Float[Tensor, "length num_bits"]:
    """The position's binary digits, the lowest first.

    Raises:
        ValueError: If there are too few digits for the length.

    Examples:
        >>> binary_codes(4, num_bits=2)
        tensor([[0., 0.],
                [1., 0.],
                [0., 1.],
                [1., 1.]])
    """
    if length > 1 << num_bits:
        raise ValueError(f"{num_bits} bits tell {1 << num_bits} positions apart, not {length}")
    positions = torch.arange(length)[:, None]
    return ((positions >> torch.arange(num_bits)) & 1).float()


def sinusoidal_codes(length: int, *, dim: int = 64) -> Float[Tensor, "length dim"]:
    """The digits made continuous: a sine and a cosine of each frequency.

    Examples:
        >>> sinusoidal_codes(5, dim=8).shape
        torch.Size([5, 8])
    """
    return SinusoidalEncoder(dim).table(length)


@dataclass(frozen=True)
class Requirements:
    """Seven requirements of a position encoding, and whether a scheme meets them.

    They are the union of what the usual introductions ask for; `SOURCES` says who asks for which.

    Attributes:
        distinct: no two positions share an embedding, among 100,000 where there are as many.
        bounded: all values lie in [-1, 1].
        equal_offsets: embeddings an offset apart have the same distance at every position, in
            sequences of every length.
        generalizes: a position has the same embedding in longer sequences.
        deterministic: a position has the same embedding each time.
        any_length: every length has embeddings, 100,000 as well.
        full_width: the embeddings have the width of the words that they are added to.
    """

    distinct: bool
    bounded: bool
    equal_offsets: bool
    generalizes: bool
    deterministic: bool
    any_length: bool
    full_width: bool


SOURCES = {
    "distinct": "Kazemnejad 2019; Vaswani et al. 2017",
    "bounded": "Kazemnejad 2019",
    "equal_offsets": "Kazemnejad 2019, across lengths; Vaswani et al. 2017, as a linear map",
    "generalizes": "Kazemnejad 2019; Vaswani et al. 2017",
    "deterministic": "Kazemnejad 2019",
    "any_length": "Vaswani et al. 2017, longer than in training",
    "full_width": "Vaswani et al. 2017, so that both can be added",
}
"""Where each requirement is asked for."""

_VERY_LONG = 100_000
# Least distance of two embeddings that are not the same.
_SAME = 1e-6


def check_requirements(
    scheme: Scheme,
    *,
    width: int = 64,
    lengths: Sequence[int] = (128, 256, 512),
    offsets: Sequence[int] = (1, 2, 5, 30),
    tolerance: float = 1e-4,
) -> Requirements:
    """Check a scheme against the requirements of a position encoding.

    Args:
        scheme: function from a length to the embeddings of its positions. A length that it cannot
            embed raises a ValueError.
        width: width of the words that the embeddings are added to.
        lengths: lengths to try, two or more, rising, each at least twice the one before.
        offsets: offsets to compare, below the smallest length.
        tolerance: largest difference that counts as equal, but for `distinct`.

    Returns:
        The requirements and whether each is met.

    Raises:
        ValueError: If the lengths or offsets do not fit.

    Examples:
        >>> check_requirements(sinusoidal_codes).equal_offsets
        True
    """
    rises = all(b >= 2 * a for a, b in itertools.pairwise(lengths))
    if len(lengths) < 2 or not rises or not 0 < max(offsets) < lengths[0]:
        raise ValueError(
            "give two lengths or more, each at least twice the one before, and offsets below the "
            f"first; got {tuple(lengths)} and {tuple(offsets)}"
        )
    tried = [codes for length in lengths if (codes := _codes(scheme, length)) is not None]
    # What has no embeddings even at the first length meets nothing.
    if not tried:
        return Requirements(*[False] * len(SOURCES))
    first, longest = tried[0], tried[-1]
    distances = {
        offset: torch.cat([(code[offset:] - code[:-offset]).norm(dim=1) for code in tried])
        for offset in offsets
    }
    very_long = _codes(scheme, _VERY_LONG)
    again = _codes(scheme, lengths[0])
    return Requirements(
        distinct=_are_distinct(longest if very_long is None else very_long),
        bounded=all(bool(code.abs().max() <= 1 + tolerance) for code in tried),
        equal_offsets=all(
            bool(d.max() - d.min() <= tolerance * d.max()) for d in distances.values()
        ),
        generalizes=all(
            bool((code[: len(first)] - first).abs().max() <= tolerance) for code in tried
        ),
        deterministic=again is not None and torch.equal(again, first),
        any_length=len(tried) == len(lengths) and very_long is not None,
        full_width=first.shape[1] == width,
    )


def _are_distinct(codes: Tensor) -> bool:
    """Whether no two rows are nearer than `_SAME`."""
    # Rows that are near have near projections: of rows in the order of one, neighbors are compared.
    weights = torch.randn(codes.shape[1], generator=torch.Generator().manual_seed(0)).double()
    ordered, order = (codes @ (weights / weights.norm())).sort()
    for shift in range(1, len(codes)):
        near = (ordered[shift:] - ordered[:-shift] < _SAME).nonzero()[:, 0]
        if not len(near):
            return True
        if bool(((codes[order[near]] - codes[order[near + shift]]).norm(dim=1) < _SAME).any()):
            return False
    return True


def _codes(scheme: Scheme, length: int) -> Tensor | None:
    """Embeddings of a length in float64; None if the scheme has none."""
    try:
        return scheme(length).detach().double()
    except (IndexError, ValueError):
        return None


def drawn_codes(length: int) -> Float[Tensor, "length 64"]:
    """Numbers drawn anew each time."""
    return 2 * torch.rand(length, 64) - 1


def one_sine(length: int) -> Float[Tensor, "length 1"]:
    """A single sine, so slow that it turns at position 1,571 only."""
    return torch.sin(1e-3 * index_codes(length))


def trained_table(length: int) -> Float[Tensor, "length 64"]:
    """A learned embedding for each of 512 positions."""
    generator = torch.Generator().manual_seed(0)
    table = 0.02 * torch.randn(512, 64, generator=generator)
    return table[torch.arange(length)]


SCHEMES: dict[str, Scheme] = {
    "index": index_codes,
    "index / length": normalized_index_codes,
    "binary digits": binary_codes,
    "drawn at random": drawn_codes,
    "one slow sine": one_sine,
    "trained table": trained_table,
    "sinusoids": sinusoidal_codes,
}
"""Ways to write a position down, the simplest first."""


def requirements_table() -> list[list[str]]:
    """Schemes by requirements: a row of headings, then one for each scheme, with yes and no."""
    rows = [["", *(field.name.replace("_", " ") for field in fields(Requirements))]]
    for name, scheme in SCHEMES.items():
        found = astuple(check_requirements(scheme))
        rows.append([name, *("yes" if met else "no" for met in found)])
    return rows


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table of Markdown, what fails in bold."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(
        f"| {' | '.join('**no**' if cell == 'no' else cell for cell in line)} |" for line in lines
    )


if __name__ == "__main__":
    print(markdown(requirements_table()))
