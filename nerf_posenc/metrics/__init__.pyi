from nerf_posenc.metrics.image import psnr as psnr
from nerf_posenc.metrics.image import psnr_from_mse as psnr_from_mse
from nerf_posenc.metrics.image import ssim as ssim
from nerf_posenc.metrics.spectrum import BandScore as BandScore
from nerf_posenc.metrics.spectrum import power_spectrum as power_spectrum
from nerf_posenc.metrics.spectrum import psnr_by_band as psnr_by_band
