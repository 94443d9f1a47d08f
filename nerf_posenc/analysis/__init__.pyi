from nerf_posenc.analysis.choose import SigmaChoice as SigmaChoice
from nerf_posenc.analysis.choose import choose_sigma as choose_sigma
