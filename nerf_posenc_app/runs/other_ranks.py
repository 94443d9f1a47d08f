"""The part in a run of the ranks above 0: they fit with rank 0, and neither write nor print.

Rank 0 runs as if it were alone. It sends the others its options, then the configuration, then each
fit as it begins; they open the data themselves.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nerf_posenc.training.checkpoints import CheckpointError
from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import UsageError
from nerf_posenc_app.own_encodings import imported
from nerf_posenc_app.runs.batch import fit_dealt
from nerf_posenc_app.runs.opening import open_data, resolve_device
from nerf_posenc_app.runs.processes import report_error, require_own_gpu, require_same_data
from nerf_posenc_app.runs.run import Context
from nerf_posenc_app.runs.train import begin_fit, train


def follow(context: Context, kinds: Mapping[str, type[Kind[Any]]]) -> None:
    """Take part in the run of rank 0, as another rank.

    Args:
        context: state that the runs of one command share.
        kinds: kinds by name.

    Raises:
        PeerError: If another process has ended.
        SaveError: If a run of several data cannot be written.
        Stopped: If the run was asked to end.
        UsageError: If a rank cannot take part, or sees other data than rank 0.
    """
    world = context.world
    begun = world.broadcast()
    if begun is None:
        return
    name, options, own_encodings = begun
    for encoding, file in own_encodings.items():
        imported(f"{file.path}:{encoding}")
    kind_class, options = kinds[name], replace(options, quiet=True, open=False)
    if kind_class.inputs(options) is not None:
        fit_dealt(kind_class, options, context)
        return
    try:
        device = resolve_device(options.device)
        require_own_gpu(device, world)
        kind = open_data(kind_class, options)
    except UsageError as error:
        report_error(world, str(error))
        raise
    require_same_data(world, kind.source, kind.digest)
    config, context.stop.folder = world.broadcast()
    config = replace(config, device=str(device), quiet=True)
    while (asked := world.broadcast()) is not None:
        name, batch_size = asked
        rank_config = config if batch_size is None else replace(config, batch_size=batch_size)
        try:
            fit = begin_fit(kind, name, rank_config)
            train(fit, context.stop, score=kind.training, world=world)
        except (FloatingPointError, CheckpointError):
            # All ranks have this error at the same step; rank 0 prints it and continues.
            continue
