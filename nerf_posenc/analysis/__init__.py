"""Tell beforehand what an encoding will recover of an image.

Read `content` first: the energy of an image by octave. `kernels` and `expression` describe an
encoding.
"""

from nerf_posenc.analysis.content import Spectrum as Spectrum
from nerf_posenc.analysis.content import spectrum as spectrum
from nerf_posenc.analysis.expression import Expressible as Expressible
from nerf_posenc.analysis.expression import expressible as expressible
from nerf_posenc.analysis.expression import product_frequencies as product_frequencies
from nerf_posenc.analysis.kernels import Kernel as Kernel
from nerf_posenc.analysis.kernels import kernel as kernel
