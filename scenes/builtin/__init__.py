"""Scenes and patterns by formula, and the bundled image."""
