"""Run again the figures of docs/figures.toml that name a fit, and compare: minutes on two cores.

    python -m benchmarks.figures

The exit status is 1 if a figure is farther off than its tolerance.
"""

import shlex
import sys
import tempfile
import tomllib
from pathlib import Path

import train_fit
from nerf_posenc_app.runs.saved import read_metrics

FIGURES = Path(__file__).parents[1] / "docs/figures.toml"


def main() -> int:
    """Run each command once, and print each figure beside what it is now."""
    figures = tomllib.loads(FIGURES.read_text())
    status = 0
    commands = dict.fromkeys(f["command"] for f in figures.values() if "fit" in f)
    for command in commands:
        with tempfile.TemporaryDirectory() as folder:
            words = [*shlex.split(command)[1:], "--out", f"{folder}/run", "--quiet", "--video", "0"]
            if train_fit.main(words) != 0:
                return 1
            metrics = read_metrics(Path(folder) / "run")
        scores = {fit.label: fit.scores[metrics.measures[0].name] for fit in metrics.fits}
        for name, figure in figures.items():
            if figure["command"] != command or "fit" not in figure:
                continue
            score, expected = scores[figure["fit"]], float(figure["value"])
            is_near = abs(score - expected) <= figure["tolerance"]
            status = status if is_near else 1
            print(f"{name}: {score:.2f}, stated {figure['value']}{'' if is_near else '  DIFFERS'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
