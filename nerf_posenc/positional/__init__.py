"""Encoders from positions to embeddings, rotations and attention biases.

Read `sinusoidal` first.
"""

from nerf_posenc.positional.alibi import alibi_bias as alibi_bias
from nerf_posenc.positional.alibi import alibi_slopes as alibi_slopes
from nerf_posenc.positional.learned import LearnedPositionEncoder as LearnedPositionEncoder
from nerf_posenc.positional.memory_networks import MemN2NPositionEncoder as MemN2NPositionEncoder
from nerf_posenc.positional.memory_networks import TemporalEncoder as TemporalEncoder
from nerf_posenc.positional.rotary import RotaryEncoder as RotaryEncoder
from nerf_posenc.positional.sinusoidal import SinusoidalEncoder as SinusoidalEncoder
from nerf_posenc.positional.sinusoidal_grid import GridSinusoidalEncoder as GridSinusoidalEncoder
