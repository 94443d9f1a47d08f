"""Learning-rate schedules: factors of the learning rate by the progress of a fit."""

import math


def cosine_decay(progress: float, *, final: float = 0.01) -> float:
    """Factor of the learning rate, from 1 at progress 0 to ``final`` at progress 1.

    Half a cosine (Loshchilov and Hutter 2017, equation 5, without restarts).
    """
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress))


def constant(progress: float) -> float:
    """Factor of a constant learning rate."""
    return 1.0
