"""The exact sinusoid: bands, columns, and the evaluation that every encoder shares.

Read `sinusoids` first; a band is multiplied by pi in `SinCos._evaluate`. Bands of long contexts
(`scaled_bands`) are exported here, the usual ones by `nerf_posenc`.
"""

from nerf_posenc.core.bands import coarse_to_fine_weight as coarse_to_fine_weight
from nerf_posenc.core.columns import LAYOUTS as LAYOUTS
from nerf_posenc.core.columns import column_labels as column_labels
from nerf_posenc.core.encoder import Encoder as Encoder
from nerf_posenc.core.encoder import Identity as Identity
from nerf_posenc.core.rope_scaling import dynamic_ntk_bands as dynamic_ntk_bands
from nerf_posenc.core.rope_scaling import llama3_bands as llama3_bands
from nerf_posenc.core.rope_scaling import longrope_bands as longrope_bands
from nerf_posenc.core.rope_scaling import longrope_scale as longrope_scale
from nerf_posenc.core.rope_scaling import ntk_bands as ntk_bands
from nerf_posenc.core.rope_scaling import p_rope_bands as p_rope_bands
from nerf_posenc.core.rope_scaling import yarn_bands as yarn_bands
from nerf_posenc.core.rope_scaling import yarn_scale as yarn_scale
from nerf_posenc.core.sinusoids import SinCos as SinCos
