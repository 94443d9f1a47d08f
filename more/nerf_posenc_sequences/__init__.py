"""Sequences to fit, and the systems that position encodings were developed in.

Read `data.types` for what data is, `layers.positions` for what an encoding does in a Transformer,
and one module of `systems` for each model.
"""

from nerf_posenc_sequences.errors import SequenceError as SequenceError
from nerf_posenc_sequences.open import BUILT_IN as BUILT_IN
from nerf_posenc_sequences.open import open_sequence as open_sequence
from nerf_posenc_sequences.saved import load_models as load_models
