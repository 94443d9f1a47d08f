"""Tell beforehand what an encoding will recover of an image.

Read `forecasts` first: PSNR in total and by octave, without a fit. `content` and `texture` measure
an image, `kernels` an encoding; `recommendation` chooses one, `scattered` for samples of no image.
"""

from nerf_posenc.analysis.content import Spectrum as Spectrum
from nerf_posenc.analysis.content import spectrum as spectrum
from nerf_posenc.analysis.forecasts import Forecast as Forecast
from nerf_posenc.analysis.forecasts import forecast as forecast
from nerf_posenc.analysis.kernels import Kernel as Kernel
from nerf_posenc.analysis.kernels import kernel as kernel
from nerf_posenc.analysis.recommendation import Recommendation as Recommendation
from nerf_posenc.analysis.recommendation import recommend as recommend
from nerf_posenc.analysis.scattered import SigmaChoice as SigmaChoice
from nerf_posenc.analysis.scattered import choose_sigma as choose_sigma
from nerf_posenc.analysis.scattered import spectrum_of_samples as spectrum_of_samples
from nerf_posenc.analysis.texture import Detail as Detail
from nerf_posenc.analysis.texture import detail as detail
