"""Runs: prepare, fit, save, resume; several data.

Read `run` first.
"""
