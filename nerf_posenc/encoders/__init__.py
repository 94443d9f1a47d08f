"""Encoders from coordinates to features.

Read `fourier` first; the others differ from it in what they compute, not in how they are used.
"""
