"""Coordinate networks, with or without an encoder before them."""
