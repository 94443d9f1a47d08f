"""What a run leaves for a person to see: a table, pictures, curves and the figures as JSON."""

from nerf_posenc.report.figures import most_detailed_window as most_detailed_window
from nerf_posenc.report.figures import save_comparison as save_comparison
from nerf_posenc.report.figures import save_curves as save_curves
from nerf_posenc.report.figures import save_views as save_views
from nerf_posenc.report.film import write_film as write_film
from nerf_posenc.report.folder import eight_bit as eight_bit
from nerf_posenc.report.folder import make_run_folder as make_run_folder
from nerf_posenc.report.folder import write_picture_run as write_picture_run
from nerf_posenc.report.folder import write_scene_run as write_scene_run
from nerf_posenc.report.folder import write_video as write_video
from nerf_posenc.report.page import shown_picture as shown_picture
from nerf_posenc.report.page import shown_views as shown_views
from nerf_posenc.report.page import write_page as write_page
from nerf_posenc.report.results import FitResult as FitResult
from nerf_posenc.report.results import PictureResult as PictureResult
from nerf_posenc.report.results import SceneResult as SceneResult
from nerf_posenc.report.results import Snapshot as Snapshot
from nerf_posenc.report.results import bands_of as bands_of
from nerf_posenc.report.results import kernel_of as kernel_of
from nerf_posenc.report.results import table as table
from nerf_posenc.report.results import table_of_pictures as table_of_pictures
from nerf_posenc.report.results import write_metrics as write_metrics
from nerf_posenc.report.stored import write_comparison as write_comparison
