"""Data of the further kinds: files, read within limits, and built-in data."""
