"""A vision transformer with axial rotary embeddings, at another resolution than trained at.

The task needs positions and nothing else: is the bright patch above or below the dark one, and left
or right of it? The transformer has DINOv3's rotary embedding, on patch centers in [-1, 1], a class
token that is left alone, and positions that are scaled at random in training.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc import grid_positions
from nerf_posenc_attention import RotaryEncoder, augmented_positions

WIDTH, HEADS = 64, 2


class Block(nn.Module):
    """Pre-norm attention and MLP; queries and keys of the patches are rotated."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor, rotary: RotaryEncoder, tables: tuple[Tensor, Tensor]) -> Tensor:
        """Tokens ``(batch, length, width)``, the class token first."""
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).unbind(-3)
        # (batch, length, heads, dim): the sequence is the third dimension from the end.
        q, k = (rotary.rotate_with(part, *tables, sequence_dim=-3, num_prefix=1) for part in (q, k))
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        x = x + self.out(attended)
        mixed: Tensor = x + self.mlp(self.norms[1](x))
        return mixed


class ViT(nn.Module):
    """Two blocks on patches of one pixel, and a class token."""

    def __init__(self) -> None:
        super().__init__()
        self.rotary = RotaryEncoder.preset("dinov3", dim=WIDTH // HEADS)
        self.embed = nn.Linear(1, WIDTH)
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of four classes for images ``(batch, rows, columns)``."""
        rows, columns = images.shape[-2:]
        positions = grid_positions((rows, columns), units="box").flatten(0, 1)
        if self.training:
            positions = augmented_positions(positions, rescale=2.0)
        tables = self.rotary(positions)
        patches = self.embed(images.flatten(1)[..., None])
        x = torch.cat([self.token.expand(len(images), -1, -1), patches], dim=1)
        for block in self.blocks:
            x = block(x, self.rotary, tables)
        scores: Tensor = self.head(x[:, 0])
        return scores


def batch(count: int, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Images with a bright and a dark patch, and which of four quadrants relates them."""
    images = torch.zeros(count, rows * columns)
    cells = torch.stack([torch.randperm(rows * columns)[:2] for _ in range(count)])
    images.scatter_(1, cells[:, :1], 1.0).scatter_(1, cells[:, 1:], -1.0)
    (row, other_row), (column, other_column) = (
        (cells // columns).unbind(1),
        (cells % columns).unbind(1),
    )
    return images.unflatten(1, (rows, columns)), 2 * (row > other_row) + (column > other_column)


def accuracy(model: ViT, rows: int, columns: int) -> float:
    """Share of right answers on 256 images of a size."""
    model.eval()
    images, labels = batch(256, rows, columns)
    with torch.no_grad():
        return float((model(images).argmax(-1) == labels).float().mean())


def main() -> dict[str, float]:
    """Train at 6 x 6 patches; return the accuracy there and at 10 x 8."""
    torch.manual_seed(0)
    model = ViT()
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=400)
    for _ in range(400):
        images, labels = batch(64, 6, 6)
        loss = F.cross_entropy(model.train()(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    results = {"6 x 6": accuracy(model, 6, 6), "10 x 8": accuracy(model, 10, 8)}
    for size, share in results.items():
        print(f"{size:8s} {100 * share:5.1f}% right (chance: 25%)")
    return results


if __name__ == "__main__":
    main()
