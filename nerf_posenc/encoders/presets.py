"""The conventions of other libraries, frozen."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_NERF = dict(base=1.0, layout="kpa", include_input="front")
_MIPNERF = dict(base=1.0, layout="pka", include_input="front")
_SIREN = dict(base=math.pi, layout="kap", include_input="front")
_TCNN = dict(base=math.pi, layout="akp")

_ARGUMENTS: dict[str, dict[str, Any]] = {
    "nerf": _NERF,
    "nerf-pytorch": _NERF,
    "torch-ngp": _NERF,
    "finer": _NERF,
    "jaxnerf": _MIPNERF,
    "mipnerf": _MIPNERF,
    "multinerf": _MIPNERF,
    "nerfacc": _MIPNERF,
    "kaolin-wisp": _MIPNERF,
    "nerfstudio": dict(base=2 * math.pi, layout="pak", variance_scale=(2 * math.pi) ** -2),
    "nerfstudio-tcnn": _TCNN,
    "tiny-cuda-nn": _TCNN,
    "neuraloperator": _TCNN,
    "pytorch3d": dict(base=1.0, layout="pak", include_input="back"),
    "barf": dict(base=math.pi, layout="apk", include_input="front"),
    "siren": _SIREN,
    "wire": _SIREN,
    "rff": dict(layout="apk", phases=("cos", "sin"), bands=None),
    "perceiver": dict(layout="pak", include_input="front", bands=None),
}

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {name: MappingProxyType(arguments) for name, arguments in _ARGUMENTS.items()}
)
"""Arguments of ``FourierEncoder`` that give each library's numbers, column for column.

A preset whose bands are None has none of its own: the caller gives them.

- ``nerf``: bmild/nerf ``run_nerf_helpers.py``, and with it nerf-pytorch, torch-ngp and FINER.
- ``jaxnerf``: the default order; ``legacy_posenc_order=True`` is ``nerf``.
- ``mipnerf``: ``pos_enc``; its ``integrated_pos_enc`` has ``include_input=None``. The
  libraries wrap large arguments at 100 pi, which is not needed here.
- ``nerfstudio``: ``NeRFEncoding`` in torch, with the variance's missing factor of (2 pi)^2
  as it is there: ``variance_scale=1`` gives the true expectation. Where ``max_freq_exp`` is
  not ``num_frequencies - 1``, give ``bands=ratio_bands(...)``. Its ``tcnn`` implementation
  has another base and another order: ``nerfstudio-tcnn``.
- ``tiny-cuda-nn``: ``Frequency``, without the columns of ones that pad it to a multiple
  of 16; coordinates in [0, 1].
- ``pytorch3d``: ``HarmonicEmbedding``, logarithmic; linear has
  ``bands=linear_bands(n, first=1.0, last=2.0 ** (n - 1))``.
- ``siren``, ``wire``: ``PosEncodingNeRF`` and ``PosEncoding``.
- ``rff``: ``positional_encoding`` of sigma and m: ``bands=ratio_bands(m, first=2 * pi,
  ratio=sigma ** (1 / m))``.
- ``perceiver``: ``bands=linear_bands(n, first=pi, last=pi * resolution / 2)``.
"""
