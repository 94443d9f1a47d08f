"""Radiance fields: cameras, rays, fields, and the renderers between them.

Read `fields`, then `renderers`.
"""
