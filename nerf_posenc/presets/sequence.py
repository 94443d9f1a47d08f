"""Sinusoidal embeddings of positions and of diffusion's timesteps."""

import math

from torch import Tensor

from nerf_posenc.core.bands import geometric_bands, ratio_bands
from nerf_posenc.presets.row import Preset, PresetTable


# An odd width ends in a column of zeros, as in diffusers: the bands are those of dim - 1.
def _last_reached(dim: int) -> Tensor:
    return geometric_bands(dim // 2, shift=1)


def _even(dim: int) -> Tensor:
    return geometric_bands(dim // 2)


def _between(shortest: float, longest: float, dim: int) -> Tensor:
    """Bands with wavelengths from ``shortest`` to ``longest``, both included."""
    ratio = (shortest / longest) ** (1 / max(dim // 2 - 1, 1))
    return ratio_bands(dim // 2, first=2 * math.pi / shortest, ratio=ratio)


SEQUENCE = PresetTable(
    {
        "transformer": Preset(
            "Vaswani et al. 2017, section 3.5; PyTorch's tutorial",
            note="Of n frames conformers (Parakeet, Wav2Vec2-Conformer, Seamless M4T, FastSpeech2) "
            "embed the distances from n - 1 down to 1 - n: call it with "
            "``torch.arange(n - 1, -n, -1)``.",
            aliases=(
                "act",
                "ibrnet",
                "parakeet",
                "seamless-m4t",
                "fastspeech2-conformer",
                "xlm",
                "espnet",
            ),
        ),
        "xlnet": Preset(
            "transformers, models/xlnet; Transformer-XL; x-transformers, ScaledSinusoidalEmbedding",
            dict(split=True),
            "x-transformers multiplies by ``dim ** -0.5``.",
            aliases=("transformer-xl", "x-transformers", "marian", "ctrl", "latte", "gr00t"),
        ),
        "whisper": Preset(
            "openai/whisper, model.py, sinusoids; tensor2tensor, get_timing_signal_1d; fairseq; "
            "diffusers, get_timestep_embedding; NVlabs/edm, SongUNet with positional embeddings",
            dict(split=True, frequencies=_last_reached),
            "``SinusoidalEncoder.timestep(dim)``; of times in [0, 1], ``1000 * t`` in F5-TTS and "
            "``10000 * t`` in FrameDiff. Fairseq counts from its padding index plus 1; "
            "padded tokens have zeros and are not counted.",
            aliases=(
                "tensor2tensor",
                "fairseq",
                "timestep",
                "diffusion-policy",
                "edm-ddpm++",
                "timesfm",
                "speech2text",
                "pytorch-geometric",
            ),
        ),
        "musicgen": Preset(
            "facebookresearch/audiocraft, modules/transformer.py, create_sin_embedding; "
            "transformers, models/musicgen; times of HT Demucs",
            dict(split=True, phases=("cos", "sin"), frequencies=_last_reached),
            aliases=("audiocraft", "demucs"),
        ),
        "stable-diffusion": Preset(
            "diffusers, get_timestep_embedding(flip_sin_to_cos=True, downscale_freq_shift=0); "
            "guided-diffusion; NVlabs/edm, DhariwalUNet",
            dict(split=True, phases=("cos", "sin"), frequencies=_even),
            "``SinusoidalEncoder.timestep(dim, flip_sin_to_cos=True, downscale_freq_shift=0)``; "
            "also the times of Stable Diffusion 3, FLUX and Kandinsky 5.",
            aliases=("guided-diffusion", "edm-adm", "sdxl", "sd3", "sd3.5"),
        ),
        "pi0": Preset(
            "Physical-Intelligence/openpi, models/pi0.py, posemb_sincos; lerobot; time in [0, 1]",
            dict(split=True, frequencies=lambda dim: _between(4e-3, 4.0, dim)),
            aliases=("openpi",),
        ),
        "aurora-position": Preset(
            "microsoft/aurora, model/fourier.py, pos_expansion; degrees",
            dict(split=True, frequencies=lambda dim: _between(0.01, 720.0, dim)),
        ),
    }
)
"""Arguments of ``SinusoidalEncoder`` that give each library's numbers."""
