"""Hashes of seeded loss curves, to show that a refactoring leaves every fit as it was.

    python -m benchmarks.loss_hashes

Run it before and after in the same environment on the same machine: equal hashes are equal bits of
every score of the batches that ``metrics.json`` records. It goes through the command line, so that
it runs on any version of the code since 0.2.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_CAT = ["--image", "cat", "--size", "96", "--steps", "60"]
_SPHERES = ["--scene", "spheres", "--size", "32", "--steps", "20", "--turntable", "0"]

RUNS = {
    "cat": [*_CAT, "--bands", "8", "--encodings", "none", "fourier", "gaussian", "hash"],
    "cat, networks": [*_CAT, "--encodings", "siren", "wire"],
    "cat, bands": [*_CAT, "--bands", "4", "6"],
    "cat, observed": [*_CAT, "--observed", "0.1", "--bands", "auto"],
    "spheres": [*_SPHERES, "--bands", "6", "--encodings", "none", "fourier"],
    "proposal": [*_SPHERES, "--field", "proposal", "--encodings", "hash"],
    "mip": [*_SPHERES, "--field", "mip"],
    "topics": ["--sequence", "topics", "--steps", "30"],
}
"""Arguments of train_fit.py by the name of the run; the companion's are in its own script."""


def main(runs: Mapping[str, Sequence[str]] = RUNS) -> None:
    """Make small runs and print a hash of each loss curve."""
    with tempfile.TemporaryDirectory() as folder:
        for i, (name, arguments) in enumerate(runs.items()):
            out = Path(folder, str(i))
            common = ["--device", "cpu", "--video", "0", "--quiet", "--out", str(out)]
            subprocess.run([sys.executable, "train_fit.py", *arguments, *common], check=True)
            metrics = json.loads((out / "metrics.json").read_text())
            for fit in metrics["fits"]:
                if fit["is_reference"]:
                    continue
                # The score that the curves are of, as a function of the loss.
                losses = [record[metrics["training"]["name"]] for record in fit["history"]]
                digest = hashlib.sha256(json.dumps(losses).encode()).hexdigest()
                print(f"{name:13}  {fit['name']:8}  {digest[:16]}  last score {losses[-1]!r}")


if __name__ == "__main__":
    main()
