"""What an encoding can tell apart, and which one suits some data.

`kernels` has the similarity of features by distance; `choose` finds an encoding, its bands or its
sigma by short fits.
"""

from nerf_posenc.analysis.choose import SigmaChoice as SigmaChoice
from nerf_posenc.analysis.choose import choose_sigma as choose_sigma
from nerf_posenc.analysis.kernels import Kernel as Kernel
from nerf_posenc.analysis.kernels import kernel as kernel
