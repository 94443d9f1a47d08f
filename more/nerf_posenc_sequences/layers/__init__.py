"""Layers that several systems share: attention, convolutions and the position encodings of both."""
