"""What a run leaves for a person to see: a table, pictures, curves and the figures as JSON."""

from nerf_posenc.report.figures import save_comparison as save_comparison
from nerf_posenc.report.figures import save_curves as save_curves
from nerf_posenc.report.results import FitResult as FitResult
from nerf_posenc.report.results import table as table
from nerf_posenc.report.results import write_metrics as write_metrics
