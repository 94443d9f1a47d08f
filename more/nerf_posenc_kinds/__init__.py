"""Further kinds of data: sounds, shapes, scans, volumes, clips, photographs.

The process that reads files imports this package too, so it imports nothing itself.
"""
