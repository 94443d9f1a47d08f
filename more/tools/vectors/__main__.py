"""Make tests/data/library_vectors.npz and .json: encodings computed by the libraries themselves.

    OMP_NUM_THREADS=1 python -m more.tools.vectors [--sources DIR] [--only NAME ...] [--check]

Libraries from PyPI are imported: ``pip install torch numpy scipy jax sympy pandas scikit-learn
pillow einops rotary-embedding-torch`` and light dependencies, then ``pip install --no-deps
transformers diffusers timm torchtune nerfstudio feature-engine``; no weights are downloaded. Files
of repositories are read from DIR/OWNER+NAME/PATH, at the commits that ``harness.COMMITS`` lists. An
entry that cannot run here keeps the numbers that it has. With ``--check`` the numbers are compared
with those that are kept, and nothing is written.

Everything runs in float64 and in 64-bit JAX, so that a library computes in float64 unless it names
another type; the JSON says where it does. Queries are not kept: all are `harness.before`.
"""

import argparse
from pathlib import Path

import torch

from more.tools.vectors import attention, coordinates, released
from more.tools.vectors.harness import ENTRIES, Libraries, Vectors

MODULES = (coordinates, attention, released)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sources", type=Path, help="folder with the repositories' files")
    parser.add_argument(
        "--only", nargs="+", choices=sorted(ENTRIES), metavar="NAME", help="names of entries"
    )
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    libraries, vectors = Libraries(options.sources), Vectors()
    for name in options.only or ENTRIES:
        try:
            found = vectors.compute(name, libraries)
        except Exception as error:  # Any library may be missing or broken here.
            print(f"{name}: skipped, {type(error).__name__}: {str(error)[:200]}")
            continue
        print(f"{name}: largest difference {vectors.difference(name, found):.1e}", flush=True)
        vectors.put(name, found, libraries.used)
    if not options.check:
        vectors.save()


if __name__ == "__main__":
    main()
