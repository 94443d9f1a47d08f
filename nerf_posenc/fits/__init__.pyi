from nerf_posenc.fits.files import describe_fit as describe_fit
from nerf_posenc.fits.files import describe_scene_fit as describe_scene_fit
from nerf_posenc.fits.files import load_fit as load_fit
from nerf_posenc.fits.models import CoordinateFit as CoordinateFit
from nerf_posenc.fits.models import ImageFit as ImageFit
from nerf_posenc.fits.models import SceneFit as SceneFit
from nerf_posenc.fits.models import Window as Window
