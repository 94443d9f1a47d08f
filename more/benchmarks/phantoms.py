"""PSNR of scans of the eight randomly perturbed phantoms of Tancik et al. 2020, by the program.

    python -m more.benchmarks.phantoms [--encodings none fourier gaussian hash]

The phantoms are those of their notebook (fourier-feature-networks, Experiments/2d_CT.ipynb): each
number of the modified Shepp-Logan phantom's ellipses plus a normal one / 20, drawn and clipped to
[0, 1] at 512 x 512; needs ``pip install phantominator``, which draws them there. Seeds are 0 to 7,
since theirs are of another generator. Projections and training are the program's: the notebook
evaluates its network at all pixels in each of 1,000 steps, which takes hours on a CPU.
"""

import argparse
import importlib
import statistics
from pathlib import Path

import numpy as np

from benchmarks.timing import machine
from nerf_posenc_app import fit

SIDE, COUNT, PROJECTIONS = 512, 8, 20


def phantom(seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """One of the phantoms, ``(512, 512)`` in [0, 1]."""
    phantominator = importlib.import_module("phantominator")
    ellipses = phantominator.ct_modified_shepp_logan_params_2d()
    noise = np.random.default_rng(seed).normal(size=ellipses.shape) / 20
    values = phantominator.ct_shepp_logan((SIDE, SIDE), E=ellipses + noise)
    return np.asarray(values.clip(0, 1), np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--encodings", nargs="+", default=["none", "fourier", "gaussian", "hash"])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(COUNT)))
    parser.add_argument("--out", type=Path, default=Path("runs/phantoms"))
    options = parser.parse_args()
    print(machine(), flush=True)
    found: dict[str, list[float]] = {}
    for seed in options.seeds:
        run = fit(
            scan=phantom(seed),
            projections=PROJECTIONS,
            encodings=options.encodings,
            video=0,
            quiet=True,
            out=options.out / str(seed),
        )
        for name, scores in run.scores.items():
            found.setdefault(name, []).append(scores["psnr_db"])
        shown = ", ".join(f"{name} {values[-1]:.2f}" for name, values in found.items())
        print(f"phantom {seed}: {shown} dB", flush=True)
    for name, values in found.items():
        print(f"{name:<18} {statistics.mean(values):6.2f} dB, the mean of {len(values)}")


if __name__ == "__main__":
    main()
