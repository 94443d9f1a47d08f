from nerf_posenc.fits.coordinate_fits import CoordinateFit as CoordinateFit
from nerf_posenc.fits.coordinate_fits import ImageFit as ImageFit
from nerf_posenc.fits.coordinate_fits import Window as Window
from nerf_posenc.fits.files import describe_fit as describe_fit
from nerf_posenc.fits.files import load_fit as load_fit
from nerf_posenc.fits.scene_fits import SceneFit as SceneFit
from nerf_posenc.fits.scene_fits import describe_scene_fit as describe_scene_fit
