"""Training: the loop, and the batches, schedules, optimizers and recipes that it is given.

Read `loop` first: the line that steps the optimizer is in it. `recipes` has the table of encodings.
"""

from nerf_posenc.training.batches import ShuffledBatches as ShuffledBatches
from nerf_posenc.training.loop import FitState as FitState
from nerf_posenc.training.loop import fit as fit
from nerf_posenc.training.loop import mse as mse
from nerf_posenc.training.loop import predict as predict
from nerf_posenc.training.optimizers import adam as adam
from nerf_posenc.training.optimizers import muon as muon
from nerf_posenc.training.recipes import ENCODINGS as ENCODINGS
from nerf_posenc.training.recipes import EncoderDescription as EncoderDescription
from nerf_posenc.training.recipes import EncodingRecipe as EncodingRecipe
from nerf_posenc.training.recipes import make_encoder as make_encoder
from nerf_posenc.training.recipes import make_optimizer as make_optimizer
from nerf_posenc.training.results import Measure as Measure
from nerf_posenc.training.results import Record as Record
from nerf_posenc.training.schedules import constant as constant
from nerf_posenc.training.schedules import cosine_decay as cosine_decay
