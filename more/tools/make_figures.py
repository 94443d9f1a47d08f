"""Make the figures of the pages on attention: ``python -m more.tools.make_figures``."""

from pathlib import Path

import torch

from docs.make_figures import BLUE, GREEN, ORANGE, heat, line_panel, panels, save
from nerf_posenc_attention import MemN2NPositionEncoder, RotaryEncoder, alibi_bias

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def rotary() -> None:
    figure, axes = panels(2, 5.0)
    distance = torch.arange(0, 200)
    for dim, color in ((32, BLUE), (128, ORANGE)):
        encoder = RotaryEncoder(dim)
        ones = torch.ones(200, dim)
        products = (encoder.rotate(ones, distance) * encoder.rotate(ones, distance * 0)).mean(-1)
        axes[0].plot(distance, products, color=color, label=f"width {dim}")
    axes[0].legend(frameon=False)
    line_panel(
        axes[0], "RotaryEncoder, base 10,000: product of equal vectors", "offset", "mean product"
    )
    bias = alibi_bias(4, 64)
    for head, color in zip(range(4), (BLUE, ORANGE, GREEN, "black"), strict=True):
        axes[1].plot(bias[head, 63], color=color, label=f"head {head + 1}")
    axes[1].legend(frameon=False)
    line_panel(axes[1], "alibi_bias: last query of 64", "key", "bias")
    save(figure, "rotary", IMAGES)


def memory_networks() -> None:
    figure, axes = panels(2)
    for axis, length in zip(axes, (5, 12), strict=True):
        drawn = heat(
            axis,
            MemN2NPositionEncoder(20).table(length),
            f"MemN2N, width 20, {length} words",
            "column",
            "word",
            cmap="viridis",
            vmin=0,
            vmax=1,
        )
    figure.colorbar(drawn, ax=axes)
    save(figure, "memn2n", IMAGES)


if __name__ == "__main__":
    rotary()
    memory_networks()
