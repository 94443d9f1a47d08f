"""Runs: prepare, fit, save, resume.

Read `run` first.
"""
