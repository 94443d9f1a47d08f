"""What can run: Triton on a device, and fast paths inside transforms."""

import importlib.util
import os
from typing import Literal

import torch
from torch import Tensor
from torch.autograd import forward_ad

Backend = Literal["torch", "triton"]


def is_recorded() -> bool:
    """Whether the operations are being recorded, by a compiler, an exporter or ``torch.jit``."""
    return torch.compiler.is_compiling() or bool(
        torch.jit.is_tracing()  # type: ignore[attr-defined]
    )


def require_triton(device: torch.device | None = None) -> None:
    """Refuse ``backend="triton"`` if it cannot run.

    Args:
        device: of the coordinates; None checks the package alone.

    Raises:
        RuntimeError: If Triton is not installed, or the device is no GPU and Triton's
            interpreter is off.
    """
    if importlib.util.find_spec("triton") is None:
        raise RuntimeError(
            "backend='triton' needs the package triton, which comes with torch's CUDA builds for "
            "Linux: pip install triton, or use backend='torch'"
        )
    is_interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if device is not None and device.type != "cuda" and not is_interpreted:
        raise RuntimeError(
            f"backend='triton' computes on a GPU, and the coordinates are on {device}; move them "
            "with .cuda(), use backend='torch', or set TRITON_INTERPRET=1 to try the kernels slowly"
        )


def require_backend(name: str) -> None:
    """Refuse a backend that there is not, or that cannot run.

    Raises:
        RuntimeError: If it is Triton and that is not installed.
        ValueError: If there is no such backend.
    """
    if name not in ("torch", "triton"):
        raise ValueError(f"backend must be 'torch' or 'triton'; got {name!r}")
    if name == "triton":
        require_triton()


def require_fusible(x: Tensor) -> None:
    """Refuse coordinates that the fused kernels do not take.

    Raises:
        RuntimeError: If the kernels cannot run on the device.
        TypeError: If the coordinates are not float32 or half precision.
    """
    require_triton(x.device)
    if x.dtype == torch.float64 or not x.is_floating_point():
        raise TypeError(
            f"backend='triton' takes coordinates in float32 or half precision; got {x.dtype}; "
            "use backend='torch' for others"
        )


def inside_transform() -> bool:
    """Whether a transform of ``torch.func`` or forward-mode differentiation is active."""
    transforms: bool = torch._C._are_functorch_transforms_active()
    return transforms or forward_ad._current_level >= 0
