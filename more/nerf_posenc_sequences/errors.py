"""Errors of data and systems that a user can correct."""


class SequenceError(Exception):
    """Data that cannot be used, or a system that does not suit it; the message says why."""
