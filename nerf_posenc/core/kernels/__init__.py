"""Triton kernels behind ``backend="triton"``."""
