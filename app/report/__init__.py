"""The output of a run: a table, images, videos, a page and the results as JSON.

Read `page` and its template for the page, `figures` for the PNGs, `tables` for the numbers. The
line that draws the divider is in ``page.html.j2``.
"""

from app.report.comparison import write_comparison as write_comparison
from app.report.index_page import write_index as write_index
from app.report.metrics_file import read_metrics as read_metrics
from app.report.metrics_file import write_metrics as write_metrics
from app.report.outputs import write_image_run as write_image_run
from app.report.outputs import write_scene_run as write_scene_run
from app.report.page import write_page as write_page
from app.report.sequence_page import write_sequence_page as write_sequence_page
from app.report.tables import table as table
from app.report.tables import table_of_images as table_of_images
from app.report.video import write_training_video as write_training_video
from app.report.video import write_video as write_video
