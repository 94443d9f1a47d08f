"""Why a fit failed, and what to change."""

import torch

from nerf_posenc.training.checkpoints import CheckpointError
from nerf_posenc_app.runs.train import BuildError


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error is torch's or Python's for too little memory."""
    # On a CPU torch raises a plain RuntimeError.
    return (
        isinstance(error, torch.OutOfMemoryError | MemoryError)
        or "allocate memory" in str(error)
        or "DefaultCPUAllocator" in str(error)
    )


def failure_reason(error: Exception) -> str:
    """Explain why a fit failed, and what to change.

    Raises:
        Exception: The error itself, if no option explains it.
    """
    if isinstance(error, FloatingPointError):
        return f"{error} (--lr)"
    if isinstance(error, CheckpointError):
        return f"{error}; remove the file to fit it again"
    if isinstance(error, BuildError):
        return f"the model cannot be built: {error}"
    if is_out_of_memory(error):
        return "out of memory; use a smaller --batch-size, --width or --size"
    # By name, since importing these errors takes a second.
    if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
        return f"{str(error).strip().splitlines()[0]} (leave out --compile)"
    raise error
