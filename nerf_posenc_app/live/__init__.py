"""The live page, which needs viser: fits in progress in a browser on this machine."""
