"""The encodings of other libraries by name: presets, lines of code, and a search over both."""
