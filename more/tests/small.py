"""Options of runs of tasks that take a second."""

SMALL_TASK = [
    *("--task", "text.txt", "--encodings", "none", "rotary", "--steps", "30"),
    *("--batch-size", "4", "--context", "16", "--width", "16", "--depth", "1"),
]
