"""Makers of vectors, mutation tests, soak and fuzz tests; run by hand, and by slow tests."""
