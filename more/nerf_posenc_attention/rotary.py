"""Rotary position embeddings (RoPE): for sequences, and axial ones for images and videos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from nerf_posenc.core.bands import geometric_bands
from nerf_posenc.core.checks import checked_order, format_values, require_counts, whole
from nerf_posenc.core.sinusoids import SinCos
from nerf_posenc_attention.presets.rotary import ROTARY
from nerf_posenc_attention.rotary_config import rotary_arguments
from nerf_posenc_attention.rotation import PAIRINGS, Pairing, Rotation

if TYPE_CHECKING:
    from jaxtyping import Float, Num

_BY_AXIS = ("axis-half", "tiled")


class RotaryEncoder(Rotation):
    r"""Rotary embedding: rotates pairs of a query's or key's features by their position.

    A pair is rotated by $\omega_i t$ with the bands of the sinusoidal embedding,
    $\omega_i = \text{base}^{-2i/d}$, so that the product of a query and a key depends on their
    offset alone (Su et al. 2021, RoFormer, equation 34). With several axes (rows and columns of
    patches, frames) the width is divided among them.

    What models differ in, and what a checkpoint needs to be right, is said by arguments: the
    widths of the axes, their order, the pairing and the bands. ``RotaryEncoder.preset`` has them
    for the models in [ROTARY][nerf_posenc_attention.ROTARY].

    Args:
        dim: width of a head, 2 or more.
        num_axes: 1 for a sequence, 2 for patches, 3 for videos.
        base: ratio of the longest wavelength (not reached) to the shortest.
        frequencies: other bands, rad per unit of position: ``(num_bands,)`` for every axis,
            ``(num_bands, num_axes)``, or a sequence of one tensor for each axis, whose lengths
            may differ. They come from [ntk_bands][nerf_posenc_attention.ntk_bands],
            [yarn_bands][nerf_posenc_attention.yarn_bands] and so on, or ``linear_bands`` (pixels).
        axis_dims: columns of each axis, even numbers. Columns that are left over are not rotated
            (partial rotary: ``axis_dims=(16,)`` with a ``dim`` of 64). None divides ``dim``
            evenly.
        axis_order: axis of the positions that each block of columns takes: ``(1, 0)`` puts
            the columns of x before those of y.
        pair_axes: axis of each pair instead of blocks of columns, with one series of bands
            through all pairs: [mrope_axes][nerf_posenc.presets.mrope_axes] of Qwen-VL. Takes the
            place of ``axis_dims`` and ``axis_order``.
        pairing: columns that form a pair. ``"interleaved"``: 2i and 2i+1 (RoFormer, GPT-J,
            Flux, timm); ``"half"``: i and i + n/2 of all n rotated columns (GPT-NeoX, Llama and
            DINOv3 in transformers); ``"axis-half"``: the same within the columns of each axis
            (CroCo, DUSt3R, VGGT); ``"tiled"``: V-JEPA 2, whose code repeats the bands of each axis
            as for halves and rotates neighbors, so that lengths are not preserved.
        trailing: rotate the last columns, so that those left over are the first (DeepSeek V4, LTX).
        scale: factor of the cosines and sines, YaRN's attention temperature.

    Raises:
        ValueError: If an argument does not fit.

    Examples:
        >>> rotary = RotaryEncoder(64)
        >>> queries = torch.rand(2, 8, 100, 64)
        >>> rotary.rotate(queries, torch.arange(100)).shape
        torch.Size([2, 8, 100, 64])
        >>> video = RotaryEncoder(128, 3, axis_dims=(16, 56, 56))
        >>> video
        RotaryEncoder(dim=128, axis_dims=(16, 56, 56), pairing='interleaved', base=10000)
    """

    children_in_repr = ("sincos",)
    _axes: Tensor | None

    def __init__(
        self,
        dim: int,
        num_axes: int = 1,
        *,
        base: float = 10_000.0,
        frequencies: Float[Tensor, "num_bands *axes"]
        | Sequence[Float[Tensor, " _bands_of_the_axis"]]
        | None = None,
        axis_dims: Sequence[int] | None = None,
        axis_order: Sequence[int] | None = None,
        pair_axes: Sequence[int] | None = None,
        pairing: Pairing = "interleaved",
        trailing: bool = False,
        scale: float = 1.0,
    ) -> None:
        require_counts(dim=dim, num_axes=num_axes)
        if pairing not in PAIRINGS:
            raise ValueError(f"pairing must be one of {', '.join(PAIRINGS)}; got {pairing!r}")
        has_sections = pair_axes is not None
        if pair_axes is not None:
            pair_axes = [whole(axis, "pair_axes") for axis in pair_axes]
            if axis_dims is not None or axis_order is not None or pairing in _BY_AXIS:
                raise ValueError(
                    "pair_axes gives the axis of each pair, so axis_dims, axis_order and the "
                    f"pairings {' and '.join(_BY_AXIS)}, which are about blocks of columns, do "
                    "not go with it"
                )
            pair_bands = _bands_of_pairs(dim, num_axes, base, frequencies, pair_axes)
            self.axis_dims = tuple(2 * list(pair_axes).count(axis) for axis in range(num_axes))
        else:
            self.axis_dims = _divided(dim, num_axes, axis_dims)
            order = checked_order(axis_order, num_axes)
            pair_bands = torch.cat(_bands_of_blocks(self.axis_dims, base, frequencies))
            pair_axes = [
                axis
                for axis, width in zip(order, self.axis_dims, strict=True)
                for _ in range(width // 2)
            ]
        blocks = self.axis_dims if pairing in _BY_AXIS else (2 * len(pair_axes),)
        super().__init__(num_axes, dim, pairing=pairing, blocks=blocks, trailing=trailing)
        self.base = base
        self.scale = scale
        self.pair_axes = tuple(pair_axes)
        self._has_own_bands = frequencies is not None
        self._has_sections = has_sections
        self.sincos = SinCos(len(pair_bands), pair_bands[None], layout="kpa")
        one_axis = len(set(self.pair_axes)) == 1 and num_axes == 1
        self.register_constant(
            "_axes", None if one_axis else torch.tensor(self.pair_axes, device="cpu")
        )

    @classmethod
    def preset(cls, name: str, dim: int | None = None, **overrides: object) -> "RotaryEncoder":
        """Make the rotary embedding of a model.

        Args:
            name: one of [ROTARY][nerf_posenc_attention.ROTARY], which says what each
                stands for and how the model counts positions.
            dim: width of a head; None for the model's.
            overrides: arguments that differ from the preset's, such as ``base``.

        Raises:
            ValueError: If the name is unknown; the nearest ones are given.
        """
        name = ROTARY.spelled(name)
        row = ROTARY[name]
        dim = row.dims.get(name) if dim is None else dim
        sized = overrides if dim is None else {"dim": dim, **overrides}
        return cls(**row.arguments_with(**sized))

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any] | str | Path | Any,
        *,
        layer_type: str | None = None,
        length: int | None = None,
    ) -> "RotaryEncoder":
        """Make the rotary embedding that a model's configuration describes.

        The spellings of transformers 4 (``rope_theta``, ``rope_scaling``) and 5
        (``rope_parameters``) are read, with every ``rope_type``: default, linear, dynamic, yarn,
        llama3, longrope, proportional, and axial for images. What a file leaves out is what the
        class of its ``model_type`` in transformers fills in: base, share of rotated columns, width
        of a head, types of layers. Of a type that is not known the base must be written, all
        columns are rotated and halves are paired.

        Args:
            config: mapping, path of a ``config.json`` or of the folder with it, or an object with
                ``to_dict``. Of a composite configuration the language model's part is read; give
                ``config["vision_config"]`` for that of images.
            layer_type: type of the layers, such as ``"sliding_attention"``, where each has rope
                parameters of its own.
            length: length of the sequences, for ``"dynamic"`` and ``"longrope"``, whose bands
                depend on it; None is the trained length.

        Raises:
            ValueError: If models of this type do not rotate, a key about the rotation is not
                understood, is given twice with different values or is no number that can be meant,
                or one that is needed is missing; the message names it.

        Examples:
            >>> config = {"hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 5e5}
            >>> RotaryEncoder.from_config(config)
            RotaryEncoder(dim=128, axis_dims=(128,), pairing='half', base=500000)
        """
        return cls(**rotary_arguments(config, layer_type=layer_type, length=length))

    @property
    def frequency_bands(self) -> Float[Tensor, "num_pairs 1"]:
        """Band of each pair, rad per unit of position."""
        return self.sincos.frequencies.T

    def forward(
        self, positions: Num[Tensor, "*shape"]
    ) -> tuple[Float[Tensor, "*batch rotary_dim"], Float[Tensor, "*batch rotary_dim"]]:
        """Cosines and sines of every rotated column, for ``rotate_with`` or elsewhere.

        Args:
            positions: ``(*batch,)`` for one axis, else ``(*batch, num_axes)``, in the order of
                an array's axes (frame, row, column); integers or reals of any sign. Integers are
                taken as they are up to 2**53, and angles are exact to float32 up to 2**31, inside
                autocast too.

        Returns:
            Cosines and sines in float32 (float64 positions: float64), each
            ``(*batch, rotary_dim)``.

        Raises:
            ValueError: If the positions have the wrong number of axes.
        """
        cosine, sine = self._pairs(positions)
        return self.to_columns(cosine), self.to_columns(sine)

    def tables(
        self, positions: Num[Tensor, "*shape"], form: Literal["half", "interleaved", "complex"]
    ) -> tuple[Tensor, Tensor] | Tensor:
        """Cosines and sines as the code of others takes them, whatever this encoder's pairing.

        Args:
            positions: positions of the tokens, as ``forward`` takes them.
            form: ``"half"`` repeats the pairs one after the other, as transformers' models have
                them; ``"interleaved"`` repeats each of them, as diffusers has them by default; and
                ``"complex"`` gives numbers of length 1, as the first LLaMA code has them.

        Returns:
            Cosines and sines ``(*batch, rotary_dim)``; or complex numbers
            ``(*batch, rotary_dim / 2)``.

        Raises:
            ValueError: If the form is another one, or the positions have the wrong number of axes.
        """
        cosine, sine = self._pairs(positions)
        if form == "complex":
            return torch.complex(cosine, sine)
        if form == "half":
            return torch.cat([cosine, cosine], dim=-1), torch.cat([sine, sine], dim=-1)
        if form != "interleaved":
            raise ValueError(f"form must be 'half', 'interleaved' or 'complex'; got {form!r}")
        return cosine.repeat_interleave(2, dim=-1), sine.repeat_interleave(2, dim=-1)

    def _pairs(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine of each pair, both ``(*batch, num_pairs)``."""
        positions = self._positions(positions)
        # Each pair takes the position along its axis: (*batch, num_axes) -> (*batch, num_pairs).
        features: Tensor = self.sincos(
            positions.expand(*positions.shape[:-1], len(self.pair_axes))
            if self._axes is None
            else positions[..., self._axes]
        )
        if self.scale != 1:
            features = features * self.scale
        # One band for each pair, so "kpa" is [all sines, all cosines].
        sine, cosine = features.chunk(2, dim=-1)
        return cosine, sine

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        parts = [f"dim={self.dim}", f"axis_dims={self.axis_dims}", f"pairing={self.pairing!r}"]
        if self._has_own_bands:
            parts.append(f"frequencies={format_values(self.sincos.frequencies.flatten())}")
        else:
            parts.append(f"base={self.base:g}")
        if self._has_sections or list(self.pair_axes) != sorted(self.pair_axes):
            parts.append(f"pair_axes={self.pair_axes}")
        if self.trailing:
            parts.append("trailing=True")
        if self.scale != 1:
            parts.append(f"scale={self.scale}")
        return ", ".join(parts)


def _divided(dim: int, num_axes: int, axis_dims: Sequence[int] | None) -> tuple[int, ...]:
    """Columns of each axis."""
    if not isinstance(axis_dims, Sequence | None):
        raise TypeError(f"axis_dims must have a width for each axis, as ({axis_dims},)")
    if axis_dims is None:
        if dim % (2 * num_axes):
            raise ValueError(
                f"dim must be a positive multiple of 2 * num_axes = {2 * num_axes}; got {dim}. "
                "Give axis_dims for axes of unequal widths, or to leave columns unrotated"
            )
        axis_dims = (dim // num_axes,) * num_axes
    widths = tuple(whole(width, "axis_dims") for width in axis_dims)
    if len(widths) != num_axes or any(w < 2 or w % 2 for w in widths) or sum(widths) > dim:
        raise ValueError(
            f"axis_dims must be {num_axes} even widths of 2 or more that add up to at most dim = "
            f"{dim}; got {widths}"
        )
    return widths


def _bands_of_blocks(
    widths: Sequence[int], base: float, bands: Tensor | Sequence[Tensor] | None
) -> list[Tensor]:
    """Bands of the pairs of each block of columns."""
    if bands is None:
        return [geometric_bands(width // 2, base=base) for width in widths]
    if isinstance(bands, Tensor):
        each = [bands] * len(widths) if bands.ndim == 1 else list(bands.unbind(-1))
    else:
        each = [torch.as_tensor(band, dtype=torch.float64, device="cpu") for band in bands]
        if all(band.ndim == 0 for band in each):
            each = [torch.stack(each)] * len(widths)
    if [tuple(band.shape) for band in each] != [(width // 2,) for width in widths]:
        got = tuple(bands.shape) if isinstance(bands, Tensor) else [len(band) for band in each]
        raise ValueError(
            f"frequencies must have one number for each pair, {[width // 2 for width in widths]} "
            f"along the axes: shape (num_bands,), (num_bands, {len(widths)}), or one tensor "
            f"for each axis; got {got}"
        )
    return [band.detach().to("cpu", torch.float64) for band in each]


def _bands_of_pairs(
    dim: int,
    num_axes: int,
    base: float,
    bands: Tensor | Sequence[Tensor] | None,
    pair_axes: Sequence[int],
) -> Tensor:
    """One series of bands through all pairs, of which each takes its axis from ``pair_axes``."""
    num_pairs = len(pair_axes)
    if not 1 <= num_pairs <= dim // 2 or not set(pair_axes) <= set(range(num_axes)):
        raise ValueError(
            f"pair_axes must be 1 to {dim // 2} axes from 0 to {num_axes - 1}, one for each pair; "
            f"got {num_pairs} up to axis {max(pair_axes, default=0)}. Give num_axes=3 for time, "
            "rows and columns"
        )
    if bands is None:
        return geometric_bands(num_pairs, base=base)
    if not isinstance(bands, Tensor) or bands.shape != (num_pairs,):
        raise ValueError(
            f"frequencies must be a tensor of shape ({num_pairs},), one number for each of "
            "pair_axes"
        )
    return bands.detach().to("cpu", torch.float64)
