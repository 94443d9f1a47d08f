from nerf_posenc.core.grids import augmented_positions as augmented_positions
from nerf_posenc.positional.alibi import alibi_bias as alibi_bias
from nerf_posenc.positional.alibi import alibi_slopes as alibi_slopes
from nerf_posenc.positional.camera_attention import CameraTransforms as CameraTransforms
from nerf_posenc.positional.camera_attention import PRoPEEncoder as PRoPEEncoder
from nerf_posenc.positional.camera_attention import transformed_by_camera as transformed_by_camera
from nerf_posenc.positional.fourier_series import (
    FourierSeriesRotaryEncoder as FourierSeriesRotaryEncoder,
)
from nerf_posenc.positional.learned_grid import LearnedAxialEncoder as LearnedAxialEncoder
from nerf_posenc.positional.learned_grid import resize_positions as resize_positions
from nerf_posenc.positional.memory_networks import MemN2NPositionEncoder as MemN2NPositionEncoder
from nerf_posenc.positional.memory_networks import TemporalEncoder as TemporalEncoder
from nerf_posenc.positional.mixed_rotary import MixedRotaryEncoder as MixedRotaryEncoder
from nerf_posenc.positional.pope import PoPEEncoder as PoPEEncoder
from nerf_posenc.positional.relative_bias import ClippedRelativeBias as ClippedRelativeBias
from nerf_posenc.positional.relative_bias import FireBias as FireBias
from nerf_posenc.positional.relative_bias import KerpleBias as KerpleBias
from nerf_posenc.positional.relative_bias import T5RelativeBias as T5RelativeBias
from nerf_posenc.positional.relative_bias import deberta_buckets as deberta_buckets
from nerf_posenc.positional.window_bias import LogCPBBias as LogCPBBias
from nerf_posenc.positional.window_bias import WindowBias as WindowBias
from nerf_posenc.positional.xpos import XPosEncoder as XPosEncoder
