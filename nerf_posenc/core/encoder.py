"""The widths of an encoder, which are set once."""

from torch import nn


class FixedWidths(nn.Module):
    """Module whose numbers of inputs and outputs can be read and not changed."""

    _in_dim: int
    _out_dim: int

    @property
    def in_dim(self) -> int:
        """Number of coordinates."""
        return self._in_dim

    @property
    def out_dim(self) -> int:
        """Number of columns."""
        return self._out_dim
