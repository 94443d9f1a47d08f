"""Calibration of forecasts, written by ``python -m benchmarks.forecast``."""

from nerf_posenc.analysis.law import TransferLaw

LAWS = {
    "fourier": TransferLaw(
        resolution=768,
        follows_nyquist=False,
        steps=(300,),
        recovery=((39.8, 43.09, 38.51, 33.14, 26.78, 20.35, 13.82, 6.44, 2.56, 1.0),),
        weights=((0.0, 0.62, 0.31),),
        settings=(),
        offsets=(),
        errors=(1.0,),
    ),
    "gaussian": TransferLaw(
        resolution=768,
        follows_nyquist=False,
        steps=(240,),
        recovery=((26.85, 31.69, 29.83, 28.19, 24.71, 19.78, 14.21, 6.96, 1.89, 0.59),),
        weights=((0.0, 0.38, 0.0),),
        settings=(),
        offsets=(),
        errors=(0.9,),
    ),
    "hash": TransferLaw(
        resolution=768,
        follows_nyquist=True,
        steps=(800,),
        recovery=((57.71, 58.6, 55.09, 51.81, 47.75, 42.84, 35.66, 28.55, 21.18, 14.03),),
        weights=((-1.26, 0.0, 0.0),),
        settings=(),
        offsets=(),
        errors=(0.8,),
    ),
}
"""Law of each encoding that can be forecast."""
