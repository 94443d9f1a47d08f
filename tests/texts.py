"""A text whose next character follows from its position and those before it."""

import random

WORDS = ("sine", "cosine", "band", "wave", "phase", "octave", "order", "offset")


def made_text(num_words: int = 2400, seed: int = 0) -> str:
    """Words of a small vocabulary in random order, twelve to a line."""
    rng = random.Random(seed)
    words = [rng.choice(WORDS) for _ in range(num_words)]
    lines = [" ".join(words[i : i + 12]) for i in range(0, num_words, 12)]
    return "\n".join(lines) + "\n"
