"""Base class of most systems."""

from nerf_posenc.training import cosine_decay

_FEW = 100
_WARMUP = 0.05


class BaseSystem:
    """Defaults of a [System][nerf_posenc_sequences.system.System].

    Attributes:
        uses: options beside ``model``, ``width`` and ``seed`` that change something.
    """

    uses: frozenset[str]

    def notes(self) -> list[str]:
        """Nothing to remark."""
        return []

    def schedule(self, progress: float) -> float:
        """Warm-up over the first 5%, then a cosine."""
        if progress < _WARMUP:
            return (progress + 0.01) / (_WARMUP + 0.01)
        return cosine_decay((progress - _WARMUP) / (1 - _WARMUP))


def few_tested(what: str, *counts: int) -> list[str]:
    """Remark on a small test set: fewer than 100 examples.

    Args:
        what: an example is called.
        counts: examples of each task, 1 or more; the score is the mean over tasks.
    """
    total = sum(counts)
    if total >= _FEW:
        return []
    points = 100 / (len(counts) * min(counts))
    bound = "up to " if len(set(counts)) > 1 else ""
    return [
        f"the test set has {total} {what}{'' if total == 1 else 's'}; a difference of one "
        "changes the score by "
        f"{bound}{points:.3g} points"
    ]
