"""Posed views of files: transforms.json, COLMAP and LLFF, their frames, masks and camera paths."""
