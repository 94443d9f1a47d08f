"""Scenes: a radiance field that is fitted to posed views.

Read `scene` for the kind itself; `options` says what can be asked for.
"""
