"""Training: the loop, and the batches, schedules, optimizers and recipes that it is given.

Read `loop` first: the line that steps the optimizer is in it. `recipes` has the table of encodings.
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
