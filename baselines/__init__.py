"""Closed forms and self-taught predictions that fits are compared with; no encoding, no field."""

from baselines.interpolation import INTERPOLATIONS as INTERPOLATIONS
from baselines.interpolation import interpolate as interpolate
from baselines.interpolation import interpolate_held_out as interpolate_held_out
from baselines.local_cosine import MAX_COSINE_PIXELS as MAX_COSINE_PIXELS
from baselines.local_cosine import LocalCosineSeries as LocalCosineSeries
from baselines.local_cosine import round_series as round_series
from baselines.patch_network import MAX_PATCH_PIXELS as MAX_PATCH_PIXELS
from baselines.patch_network import predict_held_out as predict_held_out
