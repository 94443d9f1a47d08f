"""What a run leaves for a person to see: a table, pictures, curves and the figures as JSON."""

from app.report.comparison import write_comparison as write_comparison
from app.report.figures import most_detailed_window as most_detailed_window
from app.report.figures import save_comparison as save_comparison
from app.report.figures import save_curves as save_curves
from app.report.figures import save_views as save_views
from app.report.page import shown_picture as shown_picture
from app.report.page import shown_views as shown_views
from app.report.page import write_page as write_page
from app.report.run_folder import eight_bit as eight_bit
from app.report.run_folder import make_run_folder as make_run_folder
from app.report.run_folder import write_picture_run as write_picture_run
from app.report.run_folder import write_scene_run as write_scene_run
from app.report.run_folder import write_video as write_video
from app.report.tables import FitResult as FitResult
from app.report.tables import PictureResult as PictureResult
from app.report.tables import SceneResult as SceneResult
from app.report.tables import Snapshot as Snapshot
from app.report.tables import bands_of as bands_of
from app.report.tables import kernel_of as kernel_of
from app.report.tables import table as table
from app.report.tables import table_of_pictures as table_of_pictures
from app.report.tables import write_metrics as write_metrics
from app.report.video import write_film as write_film
