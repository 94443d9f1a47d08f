"""The conventions of other libraries, frozen."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

_NERF = dict(base=1.0, layout="kpa", include_input="front")
_MIPNERF = dict(base=1.0, layout="pka", include_input="front")
_SIREN = dict(base=math.pi, layout="kap", include_input="front")
_TCNN = dict(base=math.pi, layout="akp")
_NERFSTUDIO = dict(base=2 * math.pi, layout="pak", variance_scale=(2 * math.pi) ** -2)


def _nerfstudio(
    num_bands: int, max_octave: float, *, raw: bool = False, min_octave: float = 0.0
) -> dict[str, Any]:
    """Arguments of a ``NeRFEncoding`` by the limits that a configuration has."""
    return dict(
        **_NERFSTUDIO,
        num_bands=num_bands,
        min_octave=min_octave,
        max_octave=max_octave,
        include_input="back" if raw else None,
    )


# Three directions at 120 degrees (Gao et al. 2019; Mai et al. 2020, Space2Vec).
_THIRDS_OF_A_TURN = torch.tensor(
    [[1.0, 0.0], [-0.5, math.sqrt(3) / 2], [-0.5, -math.sqrt(3) / 2]], dtype=torch.float64
)

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
    "nerfstudio": _NERFSTUDIO,
    "nerfstudio-vanilla": _nerfstudio(10, 8.0, raw=True),
    "nerfstudio-vanilla-direction": _nerfstudio(4, 4.0, raw=True),
    "nerfstudio-mipnerf": _nerfstudio(16, 16.0, raw=True),
    "nerfstudio-tensorf": _nerfstudio(2, 2.0),
    "nerfstudio-nerfacto": _nerfstudio(2, 1.0),
    "nerfstudio-sdf": _nerfstudio(6, 5.0),
    "nerfstudio-sdf-direction": _nerfstudio(4, 3.0, raw=True),
    "nerfstudio-background": _nerfstudio(10, 9.0, raw=True),
    "nerfstudio-tcnn": _TCNN,
    "tiny-cuda-nn": _TCNN,
    "neuraloperator": _TCNN,
    "pytorch3d": dict(base=1.0, layout="pak", include_input="back"),
    "barf": dict(base=math.pi, layout="apk", include_input="front"),
    "siren": _SIREN,
    "wire": _SIREN,
    "rff": dict(layout="apk", phases=("cos", "sin"), bands=None),
    "perceiver": dict(layout="pak", include_input="front", bands=None),
    "gligen": dict(layout="kpa", bands=None),
    "space2vec-grid": dict(layout="akp", bands=None),
    "space2vec-theory": dict(layout="kap", bands=None, basis=_THIRDS_OF_A_TURN),
}

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {name: MappingProxyType(arguments) for name, arguments in _ARGUMENTS.items()}
)
"""Arguments of ``FourierEncoder`` that give each library's numbers, column for column.

A preset whose bands are None has none of its own: the caller gives them.

- ``nerf``: bmild/nerf ``run_nerf_helpers.py``, and with it nerf-pytorch, torch-ngp and FINER.
  torch-ngp's ``log_sampling=False`` of n bands to ``2 ** m`` is
  ``bands=linear_bands(n, first=1.0, last=2.0 ** m)``.
- ``jaxnerf``: the default order; ``legacy_posenc_order=True`` is ``nerf``.
- ``mipnerf``: ``pos_enc``; its ``integrated_pos_enc`` has ``include_input=None``. The
  libraries wrap large arguments at 100 pi, which is not needed here.
- ``nerfstudio``: ``NeRFEncoding`` in torch, with the variance's missing factor of (2 pi)^2
  as it is there: ``variance_scale=1`` gives the true expectation. ``min_freq_exp`` and
  ``max_freq_exp`` are ``min_octave`` and ``max_octave``. Models of nerfstudio have their own:
  ``nerfstudio-vanilla`` (also time), ``nerfstudio-vanilla-direction`` (also of mipnerf),
  ``nerfstudio-mipnerf``, ``nerfstudio-tensorf``, ``nerfstudio-nerfacto``, ``nerfstudio-sdf``,
  ``nerfstudio-sdf-direction`` (also of surface models) and ``nerfstudio-background``. The ``tcnn``
  implementation has another base and another order: ``nerfstudio-tcnn``.
- ``tiny-cuda-nn``: ``Frequency``, without the columns of ones that pad it to a multiple
  of 16; coordinates in [0, 1].
- ``pytorch3d``: ``HarmonicEmbedding``, logarithmic; linear has
  ``bands=linear_bands(n, first=1.0, last=2.0 ** (n - 1))``.
- ``siren``, ``wire``: ``PosEncodingNeRF`` and ``PosEncoding``.
- ``rff``: ``positional_encoding`` of sigma and m: ``bands=ratio_bands(m, first=2 * pi,
  ratio=sigma ** (1 / m))``.
- ``perceiver``: ``bands=linear_bands(n, first=pi, last=pi * resolution / 2)``.
- ``gligen``: boxes (x0, y0, x1, y1) in [0, 1], ``in_dim=4``, and
  ``bands=ratio_bands(n, first=1.0, ratio=100 ** (1 / n))``.
- ``space2vec-grid``, ``space2vec-theory``: of SatCLIP and TorchSpatial, with
  ``bands=ratio_bands(n, first=1 / min_radius, ratio=(min_radius / max_radius) ** (1 / (n - 1)))``;
  coordinates in any unit, radii in the same.
"""
