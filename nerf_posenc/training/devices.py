"""Where to compute, and in which type."""

import ctypes
import importlib.util
import os

import torch


def pick_device(name: str = "auto") -> torch.device:
    """Choose the device to compute on.

    Args:
        name: ``"auto"`` for CUDA, MPS or the CPU, the first that is there; or a device's name.

    Raises:
        ValueError: where the device is unknown or not on this machine.

    Examples:
        >>> pick_device("cpu")
        device(type='cpu')
    """
    available = ["cpu"]
    if torch.backends.mps.is_available():
        available.insert(0, "mps")
    if torch.cuda.is_available():
        available.insert(0, "cuda")
    if name == "auto":
        return torch.device(available[0])
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"{name} is unknown; here are: {', '.join(available)}") from None
    too_high = device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()
    if device.type not in available or too_high:
        raise ValueError(f"{name} is not on this machine; here are: {', '.join(available)}")
    return device


def computes_bfloat16(device: torch.device) -> bool:
    """Tell whether a device computes in bfloat16; elsewhere it is emulated, and slower."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and bool(torch.cpu._is_avx512_bf16_supported())


def describe(device: torch.device) -> str:
    """Name a device for a person.

    Examples:
        >>> describe(torch.device("cpu")).startswith("cpu (")
        True
    """
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    if device.type == "cpu":
        return f"cpu ({torch.get_num_threads()} threads)"
    return str(device)


def keep_freed_memory() -> bool:
    """Have the C library keep the memory of freed arrays for the next ones of their size.

    Of itself glibc gives arrays of megabytes back to the system as they are freed, and every
    training step waits for the same pages to be cleared and mapped again. It is a setting of
    the whole process, which holds on to up to 2 GiB from then on: for programs to call as
    they start, not for libraries.

    Returns:
        Whether it was done; only glibc (Linux) has the settings.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3
    settings = {mmap_threshold: 32 << 20, trim_threshold: (1 << 31) - 1, top_pad: 64 << 20}
    return all(mallopt(setting, value) for setting, value in settings.items())


def require_triton(device: torch.device | None = None) -> None:
    """Refuse ``backend="triton"`` where it cannot run.

    Args:
        device: of what is to be computed; None to ask for the package alone.

    Raises:
        RuntimeError: where Triton is not installed, or the device is no GPU and Triton's
            interpreter is off.
    """
    if importlib.util.find_spec("triton") is None:
        raise RuntimeError(
            "backend='triton' needs the package triton, which comes with torch's CUDA builds for "
            "Linux: pip install triton, or use backend='torch'"
        )
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if device is not None and device.type != "cuda" and not interpreted:
        raise RuntimeError(
            f"backend='triton' computes on a GPU, and the coordinates are on {device}; move them "
            "with .cuda(), use backend='torch', or set TRITON_INTERPRET=1 to try the kernels slowly"
        )
