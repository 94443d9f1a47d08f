"""Benchmarks of the companion; see benchmarks/README.md."""
