"""A prompt encoder as in SAM: points and boxes on the random features of the image's grid.

A decoder of one attention layer is asked which cells of an image lie inside a box, given as the
tokens of its two corners. Corners and cells have the same random Fourier features of a position, so
attention can compare them, and prompts may lie anywhere between the cells.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc import GaussianEncoder, grid_positions, normalize_box

SIZE, WIDTH = 12, 64


class PromptEncoder(nn.Module):
    """Tokens of boxes, and features of the image's grid (Kirillov et al. 2023, appendix A)."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.positions = GaussianEncoder(2, WIDTH // 2, sigma=0.5, generator=generator)
        self.kinds = nn.Embedding(2, WIDTH)

    def grid(self) -> Tensor:
        """Features of all cells, ``(cells, width)``; coordinates are (x, y) in [-1, 1]."""
        features: Tensor = self.positions(
            grid_positions((SIZE, SIZE), units="box", xy=True).flatten(0, 1)
        )
        return features

    def boxes(self, corners: Tensor) -> Tensor:
        """Tokens of boxes ``(n, 2 corners, 2)``, x and y in pixels, one for each corner."""
        inside = normalize_box(corners, (0.0, float(SIZE)))
        return self.positions(inside) + self.kinds.weight  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """Cells attend to the tokens of the prompt, then each is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.prompts = PromptEncoder()
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.head = nn.Sequential(nn.Linear(2 * WIDTH, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, corners: Tensor) -> Tensor:
        """Score of each cell to lie in the box, ``(n, cells)``."""
        cells = self.prompts.grid().expand(len(corners), -1, -1)
        tokens = self.prompts.boxes(corners)
        attended, _ = self.attention(cells, tokens, tokens, need_weights=False)
        scores: Tensor = self.head(torch.cat([cells, attended], dim=-1))
        return scores[..., 0]


def batch(count: int) -> tuple[Tensor, Tensor]:
    """Boxes in pixels, and which cells have their center inside."""
    first, second = torch.rand(2, count, 2) * SIZE
    corners = torch.stack([torch.minimum(first, second), torch.maximum(first, second)], dim=1)
    centers = (grid_positions((SIZE, SIZE), units="box", xy=True).flatten(0, 1) + 1) * SIZE / 2
    inside = (centers > corners[:, :1]) & (centers < corners[:, 1:])
    return corners, inside.all(-1).float()


def main() -> float:
    """Train; return the mean intersection over union on new boxes."""
    torch.manual_seed(0)
    model = Decoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(400):
        corners, inside = batch(32)
        loss = F.binary_cross_entropy_with_logits(model(corners), inside)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    corners, inside = batch(500)
    with torch.no_grad():
        guess = model(corners) > 0
    both = (guess & (inside > 0)).sum(1)
    either = (guess | (inside > 0)).sum(1).clamp(min=1)
    overlap = float((both / either)[inside.sum(1) > 0].mean())
    print(f"mean intersection over union of the boxes: {overlap:.2f}")
    return overlap


if __name__ == "__main__":
    main()
