"""Frequency encodings of radiance fields, images and places.

The rows differ in the unit (``base``: pi in the papers, 1 in most NeRF code, 2 pi in nerfstudio),
the order of the columns (``layout``) and the side of the raw input.
"""

import math
from typing import Any

import torch

from nerf_posenc.presets.row import Preset, PresetTable

_NERF = dict(base=1.0, layout="kpa", include_input="front")
_MIPNERF = dict(base=1.0, layout="pka", include_input="front")
_SIREN = dict(base=math.pi, layout="kap", include_input="front")
_TCNN = dict(base=math.pi, layout="akp")
_NERFSTUDIO = dict(base=2 * math.pi, layout="pak")
_NERFSTUDIO_MODELS = "nerfstudio, models/"

# Three directions at 120 degrees (Gao et al. 2019; Mai et al. 2020, Space2Vec).
_THIRDS_OF_A_TURN = torch.tensor(
    [[1.0, 0.0], [-0.5, math.sqrt(3) / 2], [-0.5, -math.sqrt(3) / 2]], dtype=torch.float64
)


def _nerfstudio(num_bands: int, max_octave: float, *, raw: bool = False) -> dict[str, Any]:
    """Arguments of a ``NeRFEncoding`` by the limits that a configuration has."""
    return dict(
        **_NERFSTUDIO,
        num_bands=num_bands,
        max_octave=max_octave,
        include_input="back" if raw else None,
    )


FOURIER = PresetTable(
    {
        "nerf": Preset(
            "bmild/nerf, run_nerf_helpers.py; Nerfies and HyperNeRF",
            _NERF,
            aliases=("nerfies", "hypernerf"),
        ),
        "nerf-pytorch": Preset(
            "yenchenlin/nerf-pytorch, run_nerf_helpers.py",
            _NERF,
            "6 bands in NeuS and VolSDF. BungeeNeRF gives a ``variance``, without the raw input.",
            aliases=("neus", "volsdf", "d-nerf", "nerf-w", "nerf-pl", "bungeenerf"),
        ),
        "pixelnerf": Preset(
            "sxyu/pixel-nerf, src/model/code.py with freq_factor of conf/default.conf",
            dict(base=1.5, layout="kpa", include_input="front"),
            "Without a configuration, the code's factor is pi: ``base=math.pi``.",
        ),
        "torch-ngp": Preset(
            "ashawkey/torch-ngp, encoding.py and freqencoder",
            _NERF,
            "``log_sampling=False`` of n bands to ``2 ** m`` is "
            "``frequencies=linear_bands(n, first=1.0, last=2.0 ** m)``.",
        ),
        "finer": Preset("liuzhen0212/FINER, models.py", _NERF),
        "jaxnerf": Preset(
            "google-research/jaxnerf, nerf/model_utils.py, posenc",
            _MIPNERF,
            "The default order; ``legacy_posenc_order=True`` is ``nerf``.",
        ),
        "mipnerf": Preset(
            "google/mipnerf, internal/mip.py, pos_enc",
            _MIPNERF,
            "``integrated_pos_enc`` has ``include_input=None``. The library wraps large arguments "
            "at 100 pi, which is not needed here.",
        ),
        "multinerf": Preset("google-research/multinerf, internal/coord.py", _MIPNERF),
        "nerfacc": Preset("nerfacc, examples/radiance_fields/mlp.py", _MIPNERF),
        "kaolin-wisp": Preset(
            "kaolin-wisp, wisp/models/embedders/positional_embedder.py", _MIPNERF
        ),
        "nerfstudio": Preset(
            "nerfstudio, field_components/encodings.py, NeRFEncoding in torch",
            _NERFSTUDIO,
            "The library multiplies a variance by 4^k instead of (2 pi 2^k)^2: divide yours by "
            "(2 pi)^2 for its numbers. ``min_freq_exp`` and ``max_freq_exp`` are ``min_octave`` "
            "and ``max_octave``. The ``tcnn`` implementation is ``nerfstudio-tcnn``.",
        ),
        "nerfstudio-vanilla": Preset(
            f"{_NERFSTUDIO_MODELS}vanilla_nerf.py; also its time", _nerfstudio(10, 8.0, raw=True)
        ),
        "nerfstudio-vanilla-direction": Preset(
            f"{_NERFSTUDIO_MODELS}vanilla_nerf.py and mipnerf.py, directions",
            _nerfstudio(4, 4.0, raw=True),
        ),
        "nerfstudio-mipnerf": Preset(
            f"{_NERFSTUDIO_MODELS}mipnerf.py", _nerfstudio(16, 16.0, raw=True)
        ),
        "nerfstudio-tensorf": Preset(f"{_NERFSTUDIO_MODELS}tensorf.py", _nerfstudio(2, 2.0)),
        "nerfstudio-nerfacto": Preset("nerfstudio, fields/nerfacto_field.py", _nerfstudio(2, 1.0)),
        "nerfstudio-sdf": Preset("nerfstudio, fields/sdf_field.py", _nerfstudio(6, 5.0)),
        "nerfstudio-sdf-direction": Preset(
            "nerfstudio, fields/sdf_field.py, directions; also of surface models",
            _nerfstudio(4, 3.0, raw=True),
        ),
        "nerfstudio-background": Preset(
            f"{_NERFSTUDIO_MODELS}base_surface_model.py, background", _nerfstudio(10, 9.0, raw=True)
        ),
        "nerfstudio-tcnn": Preset(
            "nerfstudio, field_components/encodings.py, NeRFEncoding in tcnn",
            _TCNN,
            "Another base and another order than in torch.",
        ),
        "tiny-cuda-nn": Preset(
            "tiny-cuda-nn, encodings/frequency.h, Frequency",
            _TCNN,
            "Without the columns of ones that pad it to a multiple of 16; coordinates in [0, 1].",
        ),
        "neuraloperator": Preset("neuraloperator, layers/embeddings.py", _TCNN),
        "pytorch3d": Preset(
            "pytorch3d, renderer/implicit/harmonic_embedding.py, HarmonicEmbedding, logarithmic",
            dict(base=1.0, layout="pak", include_input="back"),
            "Linear has ``frequencies=linear_bands(n, first=1.0, last=2.0 ** (n - 1))``.",
        ),
        "tensorf": Preset(
            "apchenstu/TensoRF, models/tensorBase.py, positional_encoding",
            dict(base=1.0, layout="pak"),
            "The coordinates stand beside it in the network's input.",
        ),
        "barf": Preset(
            "chenhsuanlin/bundle-adjusting-NeRF, model/nerf.py",
            dict(base=math.pi, layout="apk", include_input="front"),
            "FourierPositionalEmbedding of PhysicsNeMo, nn/module/embedding_layers.py.",
            aliases=("physicsnemo",),
        ),
        "siren": Preset("vsitzmann/siren, modules.py, PosEncodingNeRF", _SIREN),
        "wire": Preset("vishwa91/wire, modules/relu.py, PosEncoding", _SIREN),
        "rff": Preset(
            "rff, functional.py, positional_encoding of sigma and m",
            dict(layout="apk", phases=("cos", "sin"), frequencies=None),
            "``frequencies=ratio_bands(m, first=2 * pi, ratio=sigma ** (1 / m))``.",
        ),
        "perceiver": Preset(
            "transformers, models/perceiver",
            dict(layout="pak", include_input="front", frequencies=None),
            "``frequencies=linear_bands(n, first=pi, last=pi * resolution / 2)``.",
        ),
        "gligen": Preset(
            "gligen/GLIGEN and diffusers, boxes (x0, y0, x1, y1) in [0, 1]",
            dict(layout="kpa", frequencies=None),
            "``in_dim=4`` and ``frequencies=ratio_bands(n, first=1.0, ratio=100 ** (1 / n))``.",
        ),
        "space2vec-grid": Preset(
            "SatCLIP and TorchSpatial, Space2Vec grid",
            dict(layout="akp", frequencies=None),
            "``frequencies=ratio_bands(n, first=1 / min_radius, ratio=(min_radius / max_radius) ** "
            "(1 / (n - 1)))``; coordinates in any unit, radii in the same.",
        ),
        "space2vec-theory": Preset(
            "SatCLIP and TorchSpatial, Space2Vec theory",
            dict(layout="kap", frequencies=None, basis=_THIRDS_OF_A_TURN),
            "Bands as of ``space2vec-grid``.",
        ),
    }
)
"""Arguments of ``FourierEncoder`` that give each library's numbers, column for column."""
