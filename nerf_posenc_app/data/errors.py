"""The error of all loaders."""


class SceneError(ValueError):
    """The data cannot be opened; the message says why and how to correct it."""
