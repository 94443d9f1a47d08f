"""Measurements: see README.md."""
