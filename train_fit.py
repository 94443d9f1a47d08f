"""Fit small networks to an image or a radiance field, without and with an encoding of coordinates.

    python train_fit.py --image cat.png --bands 10

A small ReLU network on raw coordinates learns low frequencies first. Bands of sines and cosines,
`nerf_posenc.FourierEncoder`, let the same network recover fine detail: this program shows and
measures how much. The method itself, a page of plain PyTorch, is examples/first_fit.py.

`experiment` is all that the program does; each step is a method of `Run`
(nerf_posenc_app/runs/run.py), and what is particular to an image, a scene or a sequence is in
nerf_posenc_app/kinds. From there, nerf_posenc/training/coordinate_model.py puts encoder and network
together, nerf_posenc/training/loop.py takes the gradient steps, and nerf_posenc/metrics/image.py
computes PSNR.
"""

import sys
from collections.abc import Sequence
from typing import Any

from nerf_posenc_app import cli
from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import CommonOptions
from nerf_posenc_app.runs.folder import RunFolder
from nerf_posenc_app.runs.opening import open_run
from nerf_posenc_app.runs.run import Context

__all__ = ["experiment", "main"]


def experiment(
    kind: type[Kind[Any]], options: CommonOptions, context: Context, folder: RunFolder | None = None
) -> bool:
    """Make the same fit with every encoding, and compare them.

    Args:
        kind: kind of the data: an image, a scene, a sequence.
        options: its options, as the command line or `nerf_posenc_app.fit` gave them.
        context: state that all runs of a command share: signals, processes, what is resumed.
        folder: run folder, if the run was begun before.

    Returns:
        Whether every encoding was fitted.
    """
    # Open the data, replace every option that was left open, and create the run folder.
    with open_run(kind, options, context, folder) as run:
        # The names of the encodings; of several values of --bands or --sigma, one name for each.
        for name in run.names_to_fit():
            # A fit that diverges, or whose memory is too small, does not end the others.
            with run.failures_reported(name):
                # The encoder, the network after it, their batches, loss and optimizer.
                untrained = run.build(name)
                # Gradient steps, saved once a minute; those that an earlier run took are not taken
                # again.
                trained = run.train(untrained)
                # PSNR and SSIM, or what measures this kind, of the reconstruction.
                run.evaluate(trained)
        # The page, the images, metrics.json, and the table that is printed.
        return run.write_report()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program: read a command line, and make its experiment.

    Args:
        arguments: words of the command line; None for those that Python was started with.

    Returns:
        0; 1 if a fit failed or could not be saved; 2 for a mistake in the command line; 128 and
        the number of the signal that ended it.
    """
    # It calls the experiment once for each run: a new one, a resumed one, one for each of --images.
    return cli.main(sys.argv[1:] if arguments is None else arguments, experiment)


if __name__ == "__main__":
    sys.exit(main())
