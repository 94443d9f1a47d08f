"""Run a NeRF checkpoint of nerf-pytorch on an encoder with another order of columns.

The network has nerf-pytorch's module structure. Three of its layers read encoded inputs: the first,
the one after the skip, and the first of the view branch. `port_module` puts their weights in the
order of the new encoders, and the outputs stay the same.
"""

import torch
from torch import Tensor, nn

from nerf_posenc import FourierEncoder, Port, port_module


class NeRF(nn.Module):
    """Density and color of a point seen from a direction (Mildenhall et al. 2020, figure 7)."""

    def __init__(self, point_dim: int, view_dim: int, width: int = 256) -> None:
        super().__init__()
        self.pts_linears = nn.ModuleList(
            nn.Linear(point_dim if i == 0 else width + (point_dim if i == 5 else 0), width)
            for i in range(8)
        )
        self.feature_linear = nn.Linear(width, width)
        self.alpha_linear = nn.Linear(width, 1)
        self.views_linears = nn.ModuleList([nn.Linear(width + view_dim, width // 2)])
        self.rgb_linear = nn.Linear(width // 2, 3)

    def forward(self, points: Tensor, views: Tensor) -> Tensor:
        """Color and density, ``(n, 4)``, from encoded points and directions."""
        hidden = points
        for i, layer in enumerate(self.pts_linears):
            if i == 5:
                hidden = torch.cat([points, hidden], dim=-1)
            hidden = layer(hidden).relu()
        seen = torch.cat([self.feature_linear(hidden), views], dim=-1)
        color = self.rgb_linear(self.views_linears[0](seen).relu())
        return torch.cat([color, self.alpha_linear(hidden)], dim=-1)


def main() -> float:
    """Port a network; return the largest difference between its outputs before and after."""
    torch.manual_seed(0)
    theirs = FourierEncoder.preset("nerf-pytorch", 3, 10)
    their_views = FourierEncoder.preset("nerf-pytorch", 3, 4)
    # The same bands with the axes outermost and the input at the end, as our renderer has them.
    ours = FourierEncoder(3, 10, base=1.0, include_input="back")
    our_views = FourierEncoder(3, 4, base=1.0, include_input="back")

    network = NeRF(theirs.out_dim, their_views.out_dim)  # .load_state_dict(torch.load(...))
    points = torch.rand(1024, 3) * 2 - 1
    views = nn.functional.normalize(torch.randn(1024, 3), dim=-1)
    with torch.no_grad():
        before = network(theirs(points), their_views(views))
        report = port_module(
            network,
            {
                "pts_linears.0": Port(theirs, ours),
                "pts_linears.5": Port(theirs, ours, offset=0),
                "views_linears.0": Port(their_views, our_views, offset=256),
            },
        )
        after = network(ours(points), our_views(views))
    for name, words in report.items():
        print(f"{name:16s} {words}")
    difference = float((after - before).abs().max())
    print(f"largest difference of the outputs: {difference:.1e}")
    return difference


if __name__ == "__main__":
    main()
