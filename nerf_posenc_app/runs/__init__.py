"""Runs: prepare, fit, save, resume; several data, several processes.

Read `run` first.
"""
