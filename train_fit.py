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
from pathlib import Path
from typing import Any, Literal

from nerf_posenc_app import cli
from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import CommonOptions
from nerf_posenc_app.runs import fit as runs_of_python
from nerf_posenc_app.runs.fitted import FittedRun
from nerf_posenc_app.runs.folder import RunFolder
from nerf_posenc_app.runs.opening import open_run
from nerf_posenc_app.runs.run import Context

__all__ = ["FittedRun", "experiment", "fit", "main"]


def experiment(
    kind: type[Kind[Any]], options: CommonOptions, context: Context, folder: RunFolder | None = None
) -> bool:
    """Make the same fit with every encoding, and compare them.

    Args:
        kind: kind of the data: an image, a scene, a sequence.
        options: its options, as the command line or `fit` gave them.
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


def fit(
    *,
    encodings: Sequence[str | type] | None = None,
    width: int | None = None,
    depth: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    seed: int = 0,
    num_seeds: int = 1,
    device: str = "auto",
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
    video: int = 16,
    out: str | Path | None = None,
    overwrite: bool = False,
    save_every: float = 60.0,
    figures: bool = False,
    tensorboard: bool = False,
    quiet: bool = False,
    **options: Any,
) -> FittedRun:
    """Fit data from Python: the experiment of the command line, with values of Python.

    Args:
        encodings: names of the encodings to fit, or classes of modules of yours, with `out_dim`;
            None for those that suit the data.
        width: units per hidden layer; None for the default of the encoding or the field.
        depth: number of hidden layers; None likewise.
        steps: training steps per fit; None for a number that suits the size of the data.
        seconds: training time per fit, instead of ``steps``.
        batch_size: pixels, rays or examples per step; None for a number that suits the device.
        lr: peak learning rate; None for that of the encoding and the optimizer.
        seed: seed of the initial weights and the batches.
        num_seeds: number of seeds that each fit is repeated with; scores are means over them.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:N"`` or ``"mps"``.
        precision: type that the network trains in.
        video: frames of the training video; 0 for none.
        out: new run folder; None for one under ``runs/``.
        overwrite: whether ``out`` may be a folder that contains files.
        save_every: seconds between two saves of a fit.
        figures: whether to write all charts as SVG files too.
        tensorboard: whether to log for TensorBoard too.
        quiet: whether to print errors only.
        **options: the data, and the options of its kind: the fields of ``ImageOptions``,
            ``SceneOptions`` or ``SequenceOptions`` in `nerf_posenc_app.kinds`, or of another
            distribution's kind. Data is the name of a file, as on the command line, or values in
            memory: an ``image`` of shape ``(height, width)`` or ``(height, width, 3 or 4)`` in 8 or
            16 bits, in [0, 1], or of linear light with values above 1; as a ``scene``,
            `nerf_posenc.radiance.Views`. A ``mask`` and ``observed`` may be arrays.

    Returns:
        The run: its scores, reconstructions and models, in a folder of its own.

    Raises:
        KeyboardInterrupt: If a second Ctrl-C ended it; what was fitted is saved.
        OSError: If the run folder cannot be written.
        RuntimeError: If an encoding could not be fitted; the others are in the folder.
        ValueError: If an option is unknown, out of its range or in conflict, or the data cannot
            be read.

    Examples:
        >>> from train_fit import fit  # doctest: +SKIP
        >>> run = fit(image="cat.png", num_bands=10)  # doctest: +SKIP
        >>> run.scores["fourier"]["psnr_db"]  # doctest: +SKIP
        42.96
    """
    common = {name: value for name, value in locals().items() if name != "options"}
    # It calls the experiment with the options that are made of these values.
    return runs_of_python.fit({**options, **common}, experiment)


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
