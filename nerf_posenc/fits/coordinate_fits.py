"""Fitted images and other functions of coordinates, to be queried and rendered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nerf_posenc.core.encoder import Encoder
from nerf_posenc.images import MuLaw
from nerf_posenc.training.coordinate_model import CoordinateModel
from nerf_posenc.training.loop import predict

if TYPE_CHECKING:
    from jaxtyping import Float

Window = tuple[int | float, int | float, int | float, int | float]
"""Left, top, width and height of a part of an image, in its pixels."""


@dataclass(frozen=True)
class CoordinateFit:
    """A fitted image, or other data on coordinates: a function from coordinates to values.

    Attributes:
        encoder: encoder of the coordinates, of which the longest axis spans [-1, 1].
        network: network from the features to values.
        options: options of the model.
        size: samples that were fitted along each axis; for an image width and height in pixels.
        step: steps taken.
        num_steps: length of the whole fit.
        facts: further values that the data needs to be given back, such as a sampling rate.
    """

    encoder: Encoder
    network: nn.Module
    options: CoordinateModel
    size: tuple[int, ...]
    step: int
    num_steps: int
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> nn.Sequential:
        """The encoder and the network."""
        return nn.Sequential(self.encoder, self.network)

    @torch.no_grad()
    def __call__(self, coordinates: Float[Tensor, "*batch in_dim"]) -> Float[Tensor, "*batch out"]:
        """Values at coordinates, in chunks; the result is on the model's device."""
        device = next(self.network.parameters()).device
        chunk_size = 2048 if device.type == "cpu" else 1 << 18
        flat = coordinates.reshape(-1, coordinates.shape[-1]).to(device)
        rows = predict(self.model, flat, chunk_size=chunk_size)
        return rows.reshape(*coordinates.shape[:-1], rows.shape[-1])


class ImageFit(CoordinateFit):
    """A fitted image: a function from coordinates to sRGB in [0, 1], up to small overshoots.

    The coordinates are (x, y): x right, y down, the longer side spanning [-1, 1].
    """

    @property
    def tone(self) -> MuLaw | None:
        """Curve by which the values are linear light; None if they are as stored."""
        numbers = {name: float(self.facts[name]) for name in ("peak", "mu") if name in self.facts}
        return MuLaw(**numbers) if numbers else None

    def render(
        self, size: int | None = None, *, window: Window | None = None
    ) -> Float[Tensor, "height width 3"]:
        """Render the image or a part of it at any resolution; a smaller one is averaged.

        Args:
            size: pixels along the longer side of the result; None for one per fitted pixel.
            window: the part, in pixels of the fitted image; None for all of it.

        Returns:
            Values in [0, 1], on the CPU.

        Raises:
            ValueError: If the size is below 1, or the window is empty or not in the image.
        """
        return torch.cat(list(self.strips(size, window=window)))

    def rendered_size(
        self, size: int | None = None, *, window: Window | None = None
    ) -> tuple[int, int]:
        """Width and height of what `render` gives, with the same arguments and errors."""
        _, _, width, height = self._window(window)
        scale = 1.0 if size is None else size / max(width, height)
        if scale * max(width, height) < 1:
            raise ValueError(f"size must be 1 or more; got {size}")
        return max(1, round(width * scale)), max(1, round(height * scale))

    def strips(
        self, size: int | None = None, *, window: Window | None = None, num_pixels: int = 1 << 20
    ) -> Iterator[Float[Tensor, "_rows width 3"]]:
        """Render from top to bottom in strips of about so many pixels; see `render`."""
        columns, rows = self.rendered_size(size, window=window)
        left, top, width, height = self._window(window)
        unit = 2 / max(self.size)
        # Samples in a rendered pixel along each axis: as many as it has fitted pixels.
        across, down = max(1, round(width / columns)), max(1, round(height / rows))
        x = left + (torch.arange(across * columns, dtype=torch.float64) + 0.5) * (
            width / (across * columns)
        )
        y = top + (torch.arange(down * rows, dtype=torch.float64) + 0.5) * (height / (down * rows))
        x, y = (x - self.size[0] / 2) * unit, (y - self.size[1] / 2) * unit
        for part in y.split(down * max(1, num_pixels // (across * down * columns))):
            grid = torch.stack(torch.meshgrid(x, part, indexing="xy"), dim=-1).float()
            samples = self(grid).clamp(0, 1).unflatten(0, (-1, down)).unflatten(2, (-1, across))
            # Means are of light, where the image holds light.
            tone = self.tone if across * down > 1 else None
            light = samples if tone is None else tone.light(samples)
            mean = light.mean((1, 3))
            yield (mean if tone is None else tone.values(mean)).cpu()

    def _window(self, window: Window | None) -> Window:
        if window is None:
            return 0.0, 0.0, float(self.size[0]), float(self.size[1])
        left, top, width, height = window
        inside = left >= 0 and top >= 0 and width > 0 and height > 0
        if not (inside and left + width <= self.size[0] and top + height <= self.size[1]):
            raise ValueError(
                "the window (left, top, width, height) must lie in the image of "
                f"{self.size[0]} x {self.size[1]} pixels; got {window}"
            )
        return window
