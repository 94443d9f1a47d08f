"""Encoders from positions to embeddings, rotations and biases.

Read `sinusoidal` first.
"""
