"""Rotary embeddings of language models, as released: text, and text between images."""

from collections.abc import Sequence
from functools import partial

from nerf_posenc.core.bands import geometric_bands
from nerf_posenc_attention.presets import positions
from nerf_posenc_attention.presets.row import rotary_row as _row
from nerf_posenc_attention.rope_scaling import llama3_bands, yarn_bands, yarn_scale

_TRANSFORMERS = "transformers, models/"


def mrope_axes(sections: Sequence[int], *, interleaved: bool = False) -> tuple[int, ...]:
    """Axis of each pair of Qwen-VL's multimodal rotary embedding (M-RoPE), for ``pair_axes``.

    One series of bands goes through all pairs; each pair takes the position along time, height
    or width. A text token has the same position along all three. The sections are as many as half
    of the head: in a wider one, as in Ideogram 4, the first axis has the rest.

    Args:
        sections: number of pairs of each axis: ``(16, 24, 24)`` in Qwen2-VL, ``(24, 20, 20)`` in
            Qwen3-VL.
        interleaved: take the axes in turn as long as each has pairs left, and the first axis for
            the rest (Qwen3-VL), instead of one after the other (Qwen2-VL).

    Returns:
        One axis for each pair.

    Raises:
        ValueError: If a section is negative, or with ``interleaved`` a later axis has more pairs
            than the first.

    Examples:
        >>> mrope_axes((2, 1, 1))
        (0, 0, 1, 2)
        >>> mrope_axes((2, 1, 1), interleaved=True)
        (0, 1, 2, 0)
    """
    if min(sections) < 0 or (interleaved and max(sections) > sections[0]):
        raise ValueError(
            "sections must be 0 or more pairs for each axis, with interleaved none more than the "
            f"first; got {tuple(sections)}"
        )
    if not interleaved:
        return tuple(axis for axis, pairs in enumerate(sections) for _ in range(pairs))
    axes = [0] * sum(sections)
    for axis, pairs in enumerate(sections):
        if axis:
            axes[axis : pairs * len(sections) : len(sections)] = [axis] * pairs
    return tuple(axes)


def _mrope(first: tuple[int, ...], dim: int, *, interleaved: bool) -> tuple[int, ...]:
    """Scale the sections of 64 pairs to ``dim // 2`` pairs; the first axis takes the rest."""
    sections = [pairs * dim // 128 for pairs in first]
    sections[0] = dim // 2 - sum(sections[1:])
    return mrope_axes(sections, interleaved=interleaved)


def _ernie_axes(dim: int) -> tuple[int, ...]:
    """Axes of the pairs: ``(1 2 1 2 ... 0 0)``, rows and columns in turn, then the frames."""
    frames = 5 * dim // 32
    return (1, 2) * ((dim // 2 - frames) // 2) + (0,) * frames


def _first_half_mrope(dim: int) -> tuple[int, ...]:
    """GLM's sections of the first half of the columns."""
    return _mrope((16, 24, 24), dim // 2, interleaved=False)


def _quarter_mrope(dim: int) -> tuple[int, ...]:
    """Qwen3.5's sections of the first quarter of the columns, as equal as they can be."""
    # Of 32 pairs the axes have 11, 11 and 10.
    pairs = dim // 8
    sections = [(pairs + 2 - axis) // 3 for axis in range(3)]
    return mrope_axes(sections, interleaved=True)


def _first_half(dim: int) -> tuple[int]:
    return (dim // 2,)


def _first_quarter(dim: int) -> tuple[int]:
    return (dim // 4,)


LANGUAGE = {
    "roformer": _row(
        64, f"{_TRANSFORMERS}roformer", positions.sequence, aliases=("kandinsky6-text",)
    ),
    "rotary-embedding-torch": _row(
        64, "rotary_embedding_torch.py, RotaryEmbedding(dim)", positions.sequence
    ),
    "torchtune": _row(128, "torchtune, modules/position_embeddings.py", positions.sequence),
    "gptj": _row(
        256,
        f"{_TRANSFORMERS}gptj; CodeGen-16B",
        positions.sequence,
        aliases=("codegen-16b",),
        axis_dims=_first_quarter,
    ),
    "gpt-neox": _row(
        96,
        f"{_TRANSFORMERS}gpt_neox",
        positions.sequence,
        aliases=("stablelm",),
        dims={"stablelm": 80},
        axis_dims=_first_quarter,
        pairing="half",
    ),
    "llama": _row(
        128,
        f"{_TRANSFORMERS}llama; ESM-2, ESM-3 and ModernBERT's local layers with 64 columns, "
        "Phi-3 mini with 96, Gemma 2 with 256",
        positions.sequence,
        aliases=("moshi", "esm2", "esm3", "modernbert-local", "gemma2", "phi3", "olmo", "llama-2"),
        dims={"esm2": 64, "esm3": 64, "modernbert-local": 64, "gemma2": 256, "phi3": 96},
        pairing="half",
    ),
    "mistral": _row(
        128,
        f"{_TRANSFORMERS}mistral, qwen2 and qwen3; rope_theta of Mistral 7B v0.3, Qwen2.5 7B "
        "and Qwen3 8B",
        positions.sequence,
        aliases=("qwen2", "qwen2.5", "qwen3", "mixtral"),
        note="``base`` is the ``rope_theta`` of a model's ``config.json``: other sizes and "
        "later releases have other ones.",
        base=1e6,
        pairing="half",
    ),
    "cohere": _row(
        128,
        f"{_TRANSFORMERS}cohere, Command R",
        positions.sequence,
        aliases=("command-r",),
        base=8e6,
    ),
    "glm4": _row(
        128, f"{_TRANSFORMERS}glm4, GLM-4 9B 0414", positions.sequence, axis_dims=_first_half
    ),
    "glm4.5": _row(
        128,
        f"{_TRANSFORMERS}glm4_moe, GLM-4.5",
        positions.sequence,
        axis_dims=_first_half,
        base=1e6,
        pairing="half",
    ),
    "ernie4.5": _row(128, f"{_TRANSFORMERS}ernie4_5", positions.sequence, base=500_000.0),
    "modernbert": _row(
        64,
        f"{_TRANSFORMERS}modernbert, global layers; local ones are llama with 64 columns",
        positions.sequence,
        base=160_000.0,
        pairing="half",
    ),
    "gpt-oss": _row(
        64,
        f"{_TRANSFORMERS}gpt_oss, YaRN with factor 32, not truncated",
        positions.sequence,
        frequencies=lambda dim: yarn_bands(
            dim, factor=32.0, trained_length=4096, base=150_000.0, truncate=False
        ),
        scale=yarn_scale(32.0),
        pairing="half",
    ),
    "deepseek-v2": _row(
        64,
        f"{_TRANSFORMERS}deepseek_v2, YaRN with factor 40; DeepSeek V3",
        positions.sequence,
        note="DeepSeek V3 puts the even columns of queries and keys before the odd ones, which "
        "no product of them shows. Kimi K2 does too, with "
        "``frequencies=yarn_bands(64, factor=32.0, trained_length=4096, base=5e4, "
        "fast_cycles=1.0)``.",
        frequencies=lambda dim: yarn_bands(dim, factor=40.0, trained_length=4096),
    ),
    "deepseek-v4": _row(
        512,
        f"{_TRANSFORMERS}deepseek_v4, the last 64 columns, layers without compression",
        positions.sequence,
        axis_dims=(64,),
        trailing=True,
    ),
    "llama3": _row(
        128,
        f"{_TRANSFORMERS}llama, rope_type 'llama3' with factor 8 (Llama 3.1)",
        positions.sequence,
        note="Llama 3.2 has ``frequencies=llama3_bands(dim, factor=32)``.",
        aliases=("llama-3.1", "llama-3.3"),
        frequencies=llama3_bands,
        pairing="half",
    ),
    "llama4-scout": _row(
        128,
        f"{_TRANSFORMERS}llama4, layers with rotation",
        positions.sequence,
        frequencies=lambda dim: llama3_bands(dim, factor=16.0, fast_cycles=1.0),
    ),
    "qwen2-vl-text": _row(
        128,
        f"{_TRANSFORMERS}qwen2_vl, sections 16, 24, 24",
        positions.frames,
        3,
        aliases=("qwen2.5-vl-text",),
        pair_axes=partial(_mrope, (16, 24, 24), interleaved=False),
        base=1e6,
        pairing="half",
    ),
    "qwen3-vl-text": _row(
        128,
        f"{_TRANSFORMERS}qwen3_vl, interleaved sections 24, 20, 20; rope_theta of the released "
        "2B, 4B, 8B and 30B-A3B",
        positions.frames,
        3,
        pair_axes=partial(_mrope, (24, 20, 20), interleaved=True),
        base=5e6,
        pairing="half",
    ),
    "qwen3.5-text": _row(
        256,
        f"{_TRANSFORMERS}qwen3_5, a quarter of the columns, interleaved sections 11, 11, 10; "
        "rope_theta of the released models",
        positions.frames,
        3,
        pair_axes=_quarter_mrope,
        base=1e7,
        pairing="half",
    ),
    "gemma3": _row(
        256,
        f"{_TRANSFORMERS}gemma3, global layers of 4B, 12B and 27B; local ones are llama",
        positions.sequence,
        # The released models scale positions linearly, by 8.
        frequencies=lambda dim: geometric_bands(dim // 2, base=1e6) / 8,
        pairing="half",
    ),
    "glm4.1v-text": _row(
        128,
        f"{_TRANSFORMERS}glm4v, half of the columns, sections 8, 12, 12",
        positions.frames,
        3,
        pair_axes=_first_half_mrope,
    ),
    "ernie4.5-vl-text": _row(
        128,
        f"{_TRANSFORMERS}ernie4_5_vl_moe, sections 22, 22, 20",
        positions.frames,
        3,
        pair_axes=_ernie_axes,
        base=500_000.0,
    ),
}
"""Rows of `ROTARY`."""
