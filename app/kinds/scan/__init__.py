"""Scans: a network that is only seen through its projections.

Read `scan` for the kind itself; `tomography` is what it is compared with.
"""
