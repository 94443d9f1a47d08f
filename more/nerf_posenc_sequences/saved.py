"""Saved fits of systems."""

from pathlib import Path

import torch
from torch import nn

from nerf_posenc.training.checkpoints import CheckpointError, load_checkpoint
from nerf_posenc_sequences.ensemble import Ensemble
from nerf_posenc_sequences.system import System


def load_models(path: str | Path, system: System) -> list[nn.Module]:
    """Load the models of a run's fit.

    Args:
        path: ``RUN/fits/ENCODING.safetensors``.
        system: system that was fitted, opened with the options of the run.

    Returns:
        One model per seed, in evaluation mode on the CPU.

    Raises:
        CheckpointError: If the file is damaged, or of another system.
        FileNotFoundError: If there is none.
        ImportError: If safetensors is not installed.
    """
    path = Path(path)
    saved = load_checkpoint(path)
    try:
        model = saved["model"]
        encoding, found = model["encoding"], model["description"]
        if model["system"] != system.model:
            raise ValueError(f"it is of {model['system']!r:.60}, not {system.model!r}")
        for name, value in system.description(encoding).items():
            if found.get(name) != value:
                raise ValueError(f"its {name} is {found.get(name)!r:.60}, not {value!r:.60}")
        members = [
            system.build(encoding, torch.Generator().manual_seed(0))
            for _ in range(model["num_seeds"])
        ]
        ensemble = Ensemble(members)
        ensemble.load_state_dict(saved["fit"]["model"])
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path} is not a fit of this system: {reason}") from None
    return [member.eval() for member in members]
