"""Radiance fields: cameras, rays, fields, and the renderers between them.

Read `fields`, then `renderers`. `recipes` has the fields that the program fits.
"""

from nerf_posenc.radiance.cameras import Camera as Camera
from nerf_posenc.radiance.evaluation import ViewScore as ViewScore
from nerf_posenc.radiance.evaluation import evaluate_views as evaluate_views
from nerf_posenc.radiance.evaluation import render as render
from nerf_posenc.radiance.factored_field import FactoredField as FactoredField
from nerf_posenc.radiance.fields import RadianceField as RadianceField
from nerf_posenc.radiance.fields import hash_field as hash_field
from nerf_posenc.radiance.fields import mip_field as mip_field
from nerf_posenc.radiance.fields import nerf_field as nerf_field
from nerf_posenc.radiance.occupancy import OccupancyGrid as OccupancyGrid
from nerf_posenc.radiance.occupancy import visual_hull as visual_hull
from nerf_posenc.radiance.packed import PackedRenderer as PackedRenderer
from nerf_posenc.radiance.proposals import ProposalRenderer as ProposalRenderer
from nerf_posenc.radiance.rays import Rays as Rays
from nerf_posenc.radiance.rays import camera_rays as camera_rays
from nerf_posenc.radiance.renderers import GridRenderer as GridRenderer
from nerf_posenc.radiance.renderers import HierarchicalRenderer as HierarchicalRenderer
from nerf_posenc.radiance.views import Scene as Scene
from nerf_posenc.radiance.views import Views as Views
from nerf_posenc.radiance.volume_rendering import Rendering as Rendering
