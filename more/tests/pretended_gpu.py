"""Runs of the companion's kinds on a GPU made of CPU memory; see `tests.pretended_gpu`.

python -m more.tests.pretended_gpu [cuda|mps] [NAME ...]
"""

from pathlib import Path

import numpy as np
import trimesh

from more.tests.sequences.small_stories import task, write_stories
from nerf_posenc_kinds import shape
from tests.pretended_gpu import PLAIN, SEQUENCE, main
from tests.texts import made_text

_ONE_LAYER = f"--depth 1 {SEQUENCE}"
RUNS = {
    "audio": f"--audio phrase --duration 0.1 --encodings fourier {PLAIN}",
    "shape": f"--shape box.ply --encodings hash --eikonal 0.1 {PLAIN}",
    "scan": f"--scan shepp-logan --size 24 --projections 6 --encodings hash {PLAIN}",
    "volume": f"--volume volume.npy --encodings fourier hash {PLAIN}",
    "clip": f"--clip spheres --size 16 --num-frames 4 --encodings hash {PLAIN}",
    "align": f"--align cat --size 64 --encodings fourier-eased {PLAIN}",
    "text": f"--task text.txt --encodings none sinusoidal rotary {_ONE_LAYER}",
    "bert": f"--task text.txt --model bert {_ONE_LAYER}",
    "causal": f"--task text.txt --model causal --encodings alibi learned {_ONE_LAYER}",
    "convolutional text": f"--task text.txt --model conv {_ONE_LAYER}",
    "stories": f"--task stories {SEQUENCE}",
    "pairs": f"--task pairs.tsv --model conv --seeds 2 {_ONE_LAYER}",
}
"""Command lines of every kind and model; `sources` has an LSTM, which is not there."""

MOST_WAITS = {"scan": 1}
"""Waits for the device that a training step takes: whatever is not named here takes none."""


def write_data() -> None:
    """Write what `RUNS` read to the current folder."""
    trimesh.creation.box((2.0, 2.0, 1.0)).export("box.ply")
    np.save("volume.npy", np.random.default_rng(0).random((5, 12, 16), np.float32))
    Path("text.txt").write_text(made_text(6000))
    pairs = (f"{word} {word[::-1]}\t{' '.join(word)}\n" for word in made_text(60).split())
    Path("pairs.tsv").write_text("".join(pairs))
    Path("stories").mkdir()
    for part in ("train", "test"):
        Path(f"stories/qa1_{part}.txt").write_text(write_stories(task("1", 40).train))


if __name__ == "__main__":
    # Millions of points, one operation after the other, would take minutes here.
    shape._POOL, shape._SCORED, shape._NODES = 1 << 13, 1 << 13, 24
    shape._VIEW_SIDE, shape._PREVIEW_SIDE = 24, 24
    main(RUNS, write_data, MOST_WAITS, [name for name in RUNS if "--task" in RUNS[name]])
