"""Hashes of seeded loss curves of the companion's kinds; see ``benchmarks/loss_hashes.py``.

python -m more.benchmarks.loss_hashes
"""

from benchmarks.loss_hashes import main

RUNS = {
    "phrase": ["--audio", "phrase", "--duration", "0.3", "--steps", "40"],
    "brick": ["--shape", "brick", "--steps", "40"],
    "scan": ["--scan", "shepp-logan", "--size", "64", "--projections", "8", "--steps", "40"],
    "clip": ["--clip", "spheres", "--steps", "20"],
    "topics": ["--task", "topics", "--steps", "20", "--seeds", "2"],
    "stories": ["--task", "stories", "--steps", "20"],
    "numbers": ["--task", "numbers", "--steps", "10"],
    "chapters": ["--task", "chapters", "--steps", "20"],
    "indexing": ["--task", "indexing", "--steps", "20"],
}
"""Arguments of train_fit.py by the name of the run."""

if __name__ == "__main__":
    main(RUNS)
