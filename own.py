
from torch import nn


class Plain(nn.Sequential):
    def __init__(self, in_dim, out_dim, *, width, depth=2, bandwidth=1.0):
        super().__init__(nn.Linear(in_dim, width), nn.ReLU(), nn.Linear(width, out_dim))
