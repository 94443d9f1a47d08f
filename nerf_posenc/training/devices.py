"""Devices, precision and memory of a program."""

import ctypes
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def pick_device(name: str = "auto") -> torch.device:
    """Choose the device to compute on.

    Args:
        name: ``"auto"`` for the first available of CUDA, MPS and the CPU; or a device's name.

    Raises:
        ValueError: If the device is unknown or not available on this machine.

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
        raise ValueError(f"{name} is unknown; available are: {', '.join(available)}") from None
    too_high = device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()
    if device.type not in available or too_high:
        raise ValueError(f"{name} is not on this machine; available are: {', '.join(available)}")
    return device


def computes_bfloat16(device: torch.device) -> bool:
    """Whether a device computes in bfloat16; elsewhere it is emulated, and slower."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    # Before 2.6 torch does not say whether a CPU does.
    is_supported = getattr(torch.cpu, "_is_avx512_bf16_supported", bool)
    return device.type == "cpu" and bool(is_supported())


def fastest_dtype(device: torch.device, *, is_small: bool) -> torch.dtype:
    """Type in which matrix products are fastest.

    Args:
        device: device to compute on.
        is_small: whether they are so small that bfloat16 is no faster, and only less exact.
    """
    in_bfloat16 = not is_small and computes_bfloat16(device)
    return torch.bfloat16 if in_bfloat16 else torch.float32


def describe(device: torch.device) -> str:
    """Describe a device for a person.

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
    """Make the C library keep freed memory for later allocations.

    By default glibc returns arrays of megabytes to the system as they are freed, and every training
    step waits for the same pages to be cleared and mapped again. The setting is process-wide and
    keeps up to 2 GiB: programs may call this as they start, libraries should not.

    Returns:
        Whether it was set; only glibc (Linux) has the settings.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3
    settings = {mmap_threshold: 32 << 20, trim_threshold: (1 << 31) - 1, top_pad: 64 << 20}
    return all(mallopt(setting, value) for setting, value in settings.items())


def return_freed_memory() -> None:
    """Return memory that glibc has freed to the operating system; elsewhere do nothing."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return


def autocast(device: torch.device, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    """Autocast in this type; no autocast for None or float32."""
    is_off = dtype is None or dtype == torch.float32
    return nullcontext() if is_off else torch.autocast(device.type, dtype)
