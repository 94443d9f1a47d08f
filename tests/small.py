"""Options of runs that take a second."""

SMALL_RUN = [
    *("--size", "24", "--steps", "30", "--batch-size", "200"),
    *("--width", "16", "--depth", "2", "--film", "4"),
]
SMALL_SCENE = [
    *("--scene", "spheres", "--size", "8", "--steps", "30", "--batch-size", "32"),
    *("--width", "16", "--depth", "1", "--film", "0", "--turntable", "0", "--test-views", "2"),
]
