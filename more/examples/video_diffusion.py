"""A diffusion transformer for videos, with and without three-axis rotary embeddings.

Videos of 4 frames of 6 x 6 pixels show a blob that moves at a constant speed. The transformer has
Wan's rotary embedding (a third of each head for frames, rows and columns) and a sinusoidal
embedding of time, and learns the velocity of rectified flow. Without positions it cannot tell where
a token is, and learns the mean of what a token may be.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc import SinusoidalEncoder
from nerf_posenc_attention import ROTARY, RotaryEncoder

FRAMES, SIZE = 4, 6
WIDTH, HEADS = 64, 2


def videos(count: int) -> Tensor:
    """Moving blobs in [-1, 1], ``(count, tokens)``."""
    start = torch.rand(count, 1, 2) * 3 + 1
    speed = torch.rand(count, 1, 2) - 0.5
    center = start + speed * torch.arange(FRAMES)[:, None]
    line = torch.arange(SIZE).float()
    rows = torch.exp(-((line - center[..., :1]) ** 2))
    columns = torch.exp(-((line - center[..., 1:]) ** 2))
    return (2 * rows[..., :, None] * columns[..., None, :] - 1).flatten(1)


class Denoiser(nn.Module):
    """Two transformer blocks on one token per pixel of every frame."""

    def __init__(self, *, with_positions: bool) -> None:
        super().__init__()
        preset = ROTARY["wan"]
        self.rotary = RotaryEncoder.preset("wan", dim=WIDTH // HEADS)
        self.positions = preset.positions((FRAMES, SIZE, SIZE)) * with_positions
        self.time = SinusoidalEncoder.timestep(WIDTH, flip_sin_to_cos=True, downscale_freq_shift=0)
        self.embed = nn.Linear(1, WIDTH)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                dict(
                    norm=nn.LayerNorm(WIDTH),
                    qkv=nn.Linear(WIDTH, 3 * WIDTH),
                    mlp=nn.Sequential(
                        nn.LayerNorm(WIDTH),
                        nn.Linear(WIDTH, 2 * WIDTH),
                        nn.GELU(),
                        nn.Linear(2 * WIDTH, WIDTH),
                    ),
                )
            )
            for _ in range(2)
        )
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, noisy: Tensor, time: Tensor) -> Tensor:
        """Velocity of videos ``(batch, tokens)`` at times in [0, 1]."""
        tables = self.rotary(self.positions)
        x = self.embed(noisy[..., None]) + self.time(1000 * time)[:, None]
        for layer in self.layers:
            qkv = layer["qkv"](layer["norm"](x))  # type: ignore[index]
            q, k, v = qkv.unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
            q, k = (self.rotary.rotate_with(part, *tables) for part in (q, k))
            x = x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
            x = x + layer["mlp"](x)  # type: ignore[index]
        return self.out(x)[..., 0]  # type: ignore[no-any-return]


def loss_after(model: Denoiser, steps: int = 140) -> float:
    """Train on rectified flow; return the mean loss of the last 40 steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses: list[float] = []
    for _ in range(steps):
        clean = videos(16)
        noise = torch.randn_like(clean)
        time = torch.rand(len(clean))
        noisy = (1 - time[:, None]) * clean + time[:, None] * noise
        loss = (model(noisy, time) - (noise - clean)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses[-40:]) / 40


def main() -> dict[str, float]:
    """Train both; return their losses."""
    results = {}
    for name, with_positions in (("no positions", False), ("rotary, three axes", True)):
        torch.manual_seed(0)
        results[name] = loss_after(Denoiser(with_positions=with_positions))
        print(f"{name:20s} loss {results[name]:.3f}")
    return results


if __name__ == "__main__":
    main()
