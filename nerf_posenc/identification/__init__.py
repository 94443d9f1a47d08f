"""Find out which encoding another implementation computes."""

from nerf_posenc.identification.search import Match as Match
from nerf_posenc.identification.search import identify as identify
