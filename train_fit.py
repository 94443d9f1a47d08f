#!/usr/bin/env python3
"""Fit a picture or a radiance field with and without an encoding, and show the difference."""

import sys
from collections.abc import Sequence

import torch

from app import report
from app.options import PROGRAM, CompareOptions, UsageError, parse, read_options
from app.run import run
from app.run_many import run_each
from nerf_posenc.training.devices import keep_freed_memory
from scenes import SceneError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return 0, 1 where a fit failed, 2 for a mistake in what was asked."""
    arguments = sys.argv[1:] if arguments is None else arguments
    keep_freed_memory()
    try:
        if arguments[:1] == ["compare"]:
            return compare(read_options(CompareOptions, arguments[1:]))
        options = parse(arguments)
        if options.images:
            return run_each(options, arguments)
        return 0 if len(run(options, arguments)) == len(options.fitted) else 1
    except (UsageError, SceneError) as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return 2
    except torch.OutOfMemoryError:
        print(f"{PROGRAM}: error: out of device memory; use --batch-size", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{PROGRAM}: stopped", file=sys.stderr)
        return 130


def compare(options: CompareOptions) -> int:
    """Write one page over several runs."""
    if not options.runs:
        raise UsageError("compare needs the folder of one run or more")
    if options.out.exists() and not options.overwrite:
        raise UsageError(f"--out {options.out} is there already; name another or add --overwrite")
    try:
        results = report.write_comparison(options.out, options.runs)
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot write {options.out}: {error.strerror}; use --out") from None
    print(f"{report.table(results)}\n\nwrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
