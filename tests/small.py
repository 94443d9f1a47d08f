"""Options of a run that takes a second."""

SMALL_RUN = [
    *("--size", "24", "--steps", "30", "--batch-size", "200"),
    *("--width", "16", "--depth", "2", "--film", "4"),
]
