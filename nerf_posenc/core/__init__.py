"""The exact sinusoid: bands, columns, and the evaluation that every encoder shares.

Read `sinusoids` first; a band is multiplied by pi in `SinCos._evaluate`.
"""

from nerf_posenc.core.encoder import Encoder as Encoder
from nerf_posenc.core.encoder import Identity as Identity
from nerf_posenc.core.sinusoids import SinCos as SinCos
from nerf_posenc.core.sinusoids import sincos as sincos
