from nerf_posenc_app.python import fit as fit
from nerf_posenc_app.runs.fitted import FittedRun as FittedRun
