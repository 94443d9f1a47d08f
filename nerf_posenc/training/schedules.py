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


def warmup_cosine(progress: float, *, warmup: float = 0.05) -> float:
    """Factor of the learning rate that rises linearly to 1, then follows `cosine_decay`.

    Args:
        progress: share of the fit in [0, 1).
        warmup: share of the fit in which the factor rises.
    """
    if progress < warmup:
        return (progress + 0.01) / (warmup + 0.01)
    return cosine_decay((progress - warmup) / (1 - warmup))
