"""Draw the figures of the documentation: ``python docs/make_figures.py``."""

import math
from pathlib import Path
from typing import Any

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

import nerf_posenc as ne
from docs.naive import binary_codes, index_codes, normalized_index_codes
from nerf_posenc.core import coarse_to_fine_weight
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks.mlp import MLP
from nerf_posenc.training.loop import FitState, fit, predict
from nerf_posenc.training.optimizers import adam
from nerf_posenc_app.data import open_image

IMAGES = Path(__file__).parent / "images"
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"


def panels(columns: int, width: float = 3.6, height: float = 3.2) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width * columns, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def save(figure: Figure, name: str, folder: Path = IMAGES) -> None:
    folder.mkdir(exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=110)


def heat(
    axis: Any,
    values: Tensor,
    title: str,
    x: str,
    y: str,
    x_range: tuple[float, float] | None = None,
    **options: Any,
) -> Any:
    extent = None if x_range is None else (*x_range, len(values) - 0.5, -0.5)
    pixels = values.detach().numpy()
    drawn = axis.imshow(pixels, aspect="auto", interpolation="nearest", extent=extent, **options)
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    return drawn


def line_panel(axis: Any, title: str, x: str, y: str) -> None:
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def sinusoids() -> None:
    figure, axes = panels(2, 5.0)
    embeddings = ne.SinusoidalEncoder(512).table(100)
    drawn = heat(
        axes[0],
        embeddings,
        "SinusoidalEncoder(512, base=10_000).table(100)",
        "column",
        "position",
        cmap="RdBu_r",
        vmin=-1,
        vmax=1,
    )
    figure.colorbar(drawn, ax=axes[0])
    positions = torch.arange(256.0)
    similarity = ne.SinusoidalEncoder(128).similarity(positions, positions[128:129])[:, 0]
    axes[1].plot(positions, similarity, color=BLUE)
    axes[1].axvline(128, color="gray", lw=0.8)
    line_panel(
        axes[1],
        "Similarity of position 128 to all, width 128, base 10,000",
        "position",
        "inner product",
    )
    save(figure, "sinusoids")


def grids_of_positions() -> None:
    figure, axes = panels(3)
    for axis, name in zip(axes, ("timm", "mae", "detr"), strict=True):
        embeddings = ne.GridSinusoidalEncoder.preset(name, 32).table((8, 8)).flatten(0, 1)
        heat(
            axis,
            embeddings,
            f"preset {name!r}, width 32, base 10,000, 8 x 8",
            "column",
            "row * 8 + column",
            cmap="RdBu_r",
            vmin=-1,
            vmax=1,
        )
    save(figure, "grid_sinusoids")


def kernels() -> None:
    figure, axes = panels(2, 5.0)
    d = torch.linspace(-1, 1, 4001, dtype=torch.float64)
    for num_bands, color in ((4, BLUE), (6, ORANGE), (8, GREEN)):
        encoder = ne.FourierEncoder(1, num_bands)
        kernel = encoder(d[:, None]) @ encoder(torch.zeros(1, dtype=torch.float64)) / num_bands
        axes[0].plot(d, kernel, color=color, lw=1, label=f"L = {num_bands}")
    axes[0].legend(frameon=False)
    line_panel(axes[0], "FourierEncoder: L bands", "distance d", "kernel k(d)")
    for sigma, color in ((1.0, BLUE), (4.0, ORANGE), (16.0, GREEN)):
        generator = torch.Generator().manual_seed(0)
        gaussian = ne.GaussianEncoder(1, 2048, sigma=sigma, generator=generator)
        kernel = gaussian(d[:, None]) @ gaussian(torch.zeros(1, dtype=torch.float64)) / 2048
        axes[1].plot(d, kernel, color=color, lw=1, label=f"sigma = {sigma:g}")
    axes[1].legend(frameon=False)
    line_panel(axes[1], "GaussianEncoder: 2048 frequencies", "distance d", "kernel k(d)")
    save(figure, "kernels")


def coordinates() -> None:
    figure, axes = panels(3)
    x = torch.linspace(-1, 1, 512)[:, None]
    heat(
        axes[0],
        ne.FourierEncoder(1, 6)(x).T,
        "FourierEncoder(1, 6)",
        "x",
        "column",
        x_range=(-1, 1),
        cmap="RdBu_r",
    )
    variance = torch.linspace(0, 0.3, 512)[:, None] ** 2
    heat(
        axes[1],
        ne.FourierEncoder(1, 6)(x, variance=variance).T,
        "with variance growing to the right",
        "x",
        "column",
        x_range=(-1, 1),
        cmap="RdBu_r",
        vmin=-1,
        vmax=1,
    )
    progress = torch.stack(
        [coarse_to_fine_weight(10, p) for p in torch.linspace(0, 1, 100).tolist()]
    )
    heat(
        axes[2],
        progress.T,
        "coarse_to_fine_weight(10, progress)",
        "progress (%)",
        "band",
        cmap="viridis",
    )
    save(figure, "fourier")


def grids() -> None:
    figure, axes = panels(3)
    line = torch.linspace(-1, 1, 256)
    points = torch.cartesian_prod(line, line).flip(-1)
    encoder = ne.HashGridEncoder(
        2,
        4,
        features_per_level=1,
        base_resolution=4,
        log2_table_size=6,
        generator=torch.Generator().manual_seed(0),
    )
    features = encoder(points).reshape(256, 256, 4)
    for axis, level in zip(axes, (0, 1, 3), strict=True):
        nodes, rows = encoder.resolutions[level], encoder.rows_per_level[level]
        title = f"level {level}: {nodes} nodes, {rows} rows"
        heat(axis, features[..., level], title, "x", "y", cmap="viridis")
    save(figure, "hash_grid")


def directions() -> None:
    figure, axes = panels(4, 3.0, 2.4)
    theta = torch.linspace(0, math.pi, 90)[:, None]
    phi = torch.linspace(-math.pi, math.pi, 180)[None]
    xyz = torch.stack(
        torch.broadcast_tensors(theta.sin() * phi.cos(), theta.sin() * phi.sin(), theta.cos()), -1
    )
    features = ne.SphericalHarmonicsEncoder(4)(xyz)
    for axis, (degree, m) in zip(axes, ((1, 0), (2, -2), (3, 1), (3, 3)), strict=True):
        heat(
            axis,
            features[..., degree * degree + degree + m],
            f"degree {degree}, m = {m}",
            "longitude",
            "latitude",
            cmap="RdBu_r",
        )
        axis.set_xticks([])
        axis.set_yticks([])
    save(figure, "spherical_harmonics")


def naive_schemes() -> None:
    figure, axes = panels(4, 3.0)
    for length, color in ((20, ORANGE), (60, BLUE)):
        axes[0].plot(index_codes(length), color=color, label=f"{length} words")
        axes[1].plot(normalized_index_codes(length), color=color, label=f"{length} words")
    axes[0].legend(frameon=False)
    line_panel(axes[0], "index: grows without end", "position", "value")
    line_panel(axes[1], "normalized: depends on the length", "position", "value")
    heat(
        axes[2],
        binary_codes(64, num_bits=6),
        "binary: steps of unequal size",
        "bit",
        "position",
        cmap="Grays",
    )
    heat(
        axes[3],
        ne.SinusoidalEncoder(12, base=64.0).table(64),
        "sinusoidal, width 12, base 64",
        "column",
        "position",
        cmap="RdBu_r",
    )
    save(figure, "naive_schemes")


def why_line() -> None:
    line = open_image("cat").rgb[150].mean(-1)
    x = (((torch.arange(len(line)) + 0.5) / len(line)) * 2 - 1)[:, None]
    figure, axes = panels(2, 5.0)
    encoders = {"raw coordinate": torch.nn.Identity(), "8 frequency bands": ne.FourierEncoder(1, 8)}
    for axis, (name, encoder) in zip(axes, encoders.items(), strict=True):
        torch.manual_seed(0)
        model = torch.nn.Sequential(encoder, MLP(getattr(encoder, "out_dim", 1), 1, width=128))
        state = FitState(model, adam(model, lr=1e-3), 400)
        fit(state, lambda step: (x, line[:, None]))
        axis.plot(x[:, 0], line, color="gray", lw=2.5, alpha=0.5, label="row of the cat")
        fitted = predict(model, x)[:, 0]
        axis.plot(x[:, 0], fitted, color=ORANGE, lw=1.2, label=f"{psnr(fitted, line):.1f} dB")
        axis.legend(frameon=False, loc="upper left")
        line_panel(axis, f"{name}, 400 steps", "x", "brightness")
    save(figure, "why_line")


def main() -> None:
    for draw in (
        sinusoids,
        grids_of_positions,
        kernels,
        coordinates,
        grids,
        directions,
        naive_schemes,
        why_line,
    ):
        draw()


if __name__ == "__main__":
    main()
