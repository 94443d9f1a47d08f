"""What saving costs a default run, and how soon a resumed run trains again.

    python -m benchmarks.saving [--every 60]

Runs the default image fit, with every save timed; then ends such a run in the middle of its second
fit, resumes it, and measures the time from the start of the process to the first training step.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import train_fit
from app import fit_file
from nerf_posenc.training import checkpoints

# Prints the seconds since the start of the process, and ends it, as a fit begins to train.
_UNTIL_TRAINING = """
import sys, time
import train_fit
from app import progress
fit = progress.fit
def timed(state, *args, **kwargs):
    if not state.is_complete:
        print(f"training after {time.time() - float(sys.argv[2]):.2f}", file=sys.__stdout__)
        sys.__stdout__.flush()
        raise SystemExit
    return fit(state, *args, **kwargs)
progress.fit = timed
train_fit.main(["--resume", sys.argv[1], "--quiet"])
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two saves")
    options = parser.parse_args()
    saves: list[float] = []
    original = checkpoints.save_checkpoint

    def timed(path: Path, values: Any) -> None:
        started = time.perf_counter()
        original(path, values)
        saves.append(time.perf_counter() - started)

    fit_file.save_checkpoint = timed  # type: ignore[attr-defined]
    home = Path(tempfile.mkdtemp())
    arguments = ["--quiet", "--save-every", str(options.every), "--out"]
    started = time.perf_counter()
    assert train_fit.main([*arguments, str(home / "whole")]) == 0
    total = time.perf_counter() - started
    size = sum(file.stat().st_size for file in (home / "whole/fits").iterdir()) / 1e6
    print(
        f"default run: {total:.1f} s, {len(saves)} saves of together {sum(saves):.2f} s, "
        f"{sum(saves) / total:.2%}; {size:.1f} MB on the disk"
    )
    part = home / "part"

    def end_in_the_second_fit() -> None:
        while not (part / "fits/none.safetensors").exists():
            time.sleep(0.05)
        time.sleep(3)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_in_the_second_fit, daemon=True).start()
    assert train_fit.main([*arguments, str(part)]) == 143
    for _ in range(3):
        copy = home / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(part, copy)
        command = [sys.executable, "-c", _UNTIL_TRAINING, str(copy), str(time.time())]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(f"resumed: {done.stdout.strip() or done.stderr[-300:]} s")
    shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
