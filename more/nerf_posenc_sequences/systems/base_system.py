"""What most systems have in common."""

from nerf_posenc.training import schedules

_FEW = 100


class BaseSystem:
    """Defaults of a [System][nerf_posenc_sequences.system.System]."""

    def notes(self) -> list[str]:
        """Nothing to remark."""
        return []

    def schedule(self, progress: float) -> float:
        """Warm-up over the first 5%, then a cosine."""
        return schedules.warmup_cosine(progress)


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
        f"the test set has {total} {what}{'' if total == 1 else 's'}: a difference of one is "
        f"{bound}{points:.3g} points"
    ]
