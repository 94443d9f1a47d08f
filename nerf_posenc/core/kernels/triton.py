"""Triton, or a stand-in with which the kernel modules import on machines without it.

`require_triton` refuses ``backend="triton"`` before any kernel is launched there.
"""

from typing import Any

__all__ = ["tl", "triton"]

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:

    class _Missing:
        """As much of Triton as decorators, annotations and constants need."""

        @staticmethod
        def jit(function: Any) -> Any:
            """Leave a kernel as it is."""
            return function

        @staticmethod
        def constexpr(value: Any) -> Any:
            """Leave a constant as it is."""
            return value

    triton: Any = _Missing  # type: ignore[no-redef]
    tl: Any = _Missing  # type: ignore[no-redef]
