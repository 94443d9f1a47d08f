"""Fit small networks to an image or a radiance field, without and with an encoding of coordinates.

    python train_fit.py --image cat.png --bands 10

A small ReLU network on raw coordinates learns low frequencies first. Bands of sines and cosines,
`nerf_posenc.FourierEncoder`, let the same network recover fine detail: this program shows and
measures how much. The method itself, a page of plain PyTorch, is examples/first_fit.py.

`experiment` is all that the program does, and `train` is how a network is fitted. What is
particular to an image, a scene or a sequence is in nerf_posenc_app/kinds. What surrounds the fits,
such as saving and resuming them, progress, and the page, is in nerf_posenc_app/runs and report;
encoders, networks and the rendering of scenes are those of the library, nerf_posenc.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nerf_posenc_app import cli
from nerf_posenc_app.kinds.kind import Fit, Kind
from nerf_posenc_app.options import CommonOptions
from nerf_posenc_app.runs.folder import RunFolder
from nerf_posenc_app.runs.opening import open_run
from nerf_posenc_app.runs.run import Context
from nerf_posenc_app.runs.train import Session

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["experiment", "main", "train"]


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
                fit = run.build(name)
                # Saved once a minute; steps that an earlier run took are not taken again.
                with run.training(fit) as training:
                    train(fit, training)
                # PSNR and SSIM, or what measures this kind, of the reconstruction.
                run.evaluate(fit)
        # The page, the images, metrics.json, and the table that is printed.
        return run.write_report()


def train(fit: Fit[Any], training: Session) -> None:
    """Fit a model by gradient descent, from random batches.

    Args:
        fit: the model with its problem: batches, loss and optimizer.
        training: session around the steps, with precision, learning rates, progress, snapshots.
    """
    problem, optimizer = fit.problem, fit.problem.optimizer

    @training.captured  # On a GPU as a graph of its kernels, which is launched as a whole.
    def take_step(batch: tuple[Any, Any]) -> Tensor:
        # Of an image coordinates (n, 2) of random pixels and their colors (n, 3); of a scene rays
        # and the colors of their pixels.
        inputs, target = batch
        optimizer.zero_grad()
        # The model is network(encoder(coordinates)); a scene's is asked along each ray, and what it
        # answers is composited to a color.
        prediction = training.predict(inputs)
        # The mean squared error, of which PSNR is -10 log10.
        loss = problem.loss(prediction, target)
        loss.sum().backward()
        optimizer.step()
        return loss.detach()

    for step in training.steps():
        training.record(take_step(problem.draw_batch(step)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program: read a command line, and make its experiment.

    Args:
        arguments: words of the command line; None for those that Python was started with.

    Returns:
        0; 1 if a fit failed or could not be saved; 2 for a mistake in the command line; 128 and
        the number of the signal that ended it.
    """
    return cli.main(sys.argv[1:] if arguments is None else arguments, experiment)


if __name__ == "__main__":
    sys.exit(main())
