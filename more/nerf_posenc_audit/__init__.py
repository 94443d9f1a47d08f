"""Find out which encoding another implementation computes, and where it differs."""

from nerf_posenc_audit.asking import Answer as Answer
from nerf_posenc_audit.asking import ask as ask
from nerf_posenc_audit.checking import Verdict as Verdict
from nerf_posenc_audit.checking import assert_encoding as assert_encoding
from nerf_posenc_audit.checking import check as check
from nerf_posenc_audit.probe import NotAskableError as NotAskableError
from nerf_posenc_audit.search import Match as Match
from nerf_posenc_audit.search import identify as identify
