"""Find out which encoding another implementation computes."""

from nerf_posenc_audit.search import Match as Match
from nerf_posenc_audit.search import identify as identify
