"""Values between the pixels of an image, by a small network trained on the image itself.

Small patches of an image recur within it, also at other scales (Glasner et al. 2009), and a network
can learn super-resolution from one image alone (Shocher et al. 2018). Those reduce the image by two
to learn; here nothing is reduced. The pixels of one color of a checkerboard are a square lattice,
rotated by 45 degrees and coarser by sqrt(2), and the pixels of the other color lie at the centers
of its cells: every pixel of the image is a target. The same geometric duality gave Li and Orchard
(2001) the covariances of their edge-directed interpolation.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nerf_posenc.images import Image
from nerf_posenc.networks.mlp import seeded_linear
from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.loop import FitState, fit
from nerf_posenc.training.optimizers import adam
from nerf_posenc.training.schedules import warmup_cosine

MAX_PATCH_PIXELS = 4 << 20
"""Largest image, in fitted pixels: the predictions take minutes per megapixel."""
MAX_STEPS = 2000
BATCH_SIZE = 2048
LR = 3e-3

# Fewer pixels teach less than bicubic interpolation knows, and as many as 256 x 256 deserve all
# steps: tried on photographs and pages of text of 128, 256 and 512 pixels, every second one fitted.
_LEAST_PIXELS = 1 << 13
_MANY_PIXELS = 1 << 16
_SIDE = 8
_LEAST_CONTRAST = 0.01
# Patches in a chunk, which stays in a CPU's cache.
_CHUNK = 1 << 13


class PatchNetwork(nn.Module):
    """Predict the value at the center of a patch of 8 x 8 samples.

    The prediction is that of bicubic interpolation plus a correction in units of the standard
    deviation of the 4 x 4 samples nearest to the center. It starts as bicubic interpolation.

    Args:
        generator: random number generator of the weights; None is torch's own.
    """

    def __init__(self, generator: torch.Generator | None = None) -> None:
        super().__init__()
        last = seeded_linear(48, 1, generator)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.network = nn.Sequential(
            seeded_linear(_SIDE**2, 96, generator),
            nn.ReLU(),
            seeded_linear(96, 48, generator),
            nn.ReLU(),
            last,
        )

    def forward(self, patches: Float[Tensor, "n 8 8"]) -> Float[Tensor, " n"]:
        """Predict from patches in the orientation that they are given in."""
        bicubic, contrast = _bicubic(patches), _contrast(patches)
        # Patches of all brightnesses and contrasts look alike to the network.
        normalized = (patches - bicubic[:, None, None]) / contrast[:, None, None]
        correction: Tensor = self.network(normalized.flatten(1))[:, 0]
        return bicubic + contrast * correction

    @torch.no_grad()
    def predict(self, patches: Float[Tensor, "n 8 8"]) -> Float[Tensor, " n"]:
        """Mean prediction over the eight symmetries of the square."""
        symmetries = [self(_rotated(patches, i)) for i in range(8)]
        return torch.stack(symmetries).mean(0)


def _bicubic(patches: Tensor) -> Tensor:
    # Cubic convolution (Keys 1981) half a sample from its neighbors.
    weights = patches.new_tensor([0, 0, -1, 9, 9, -1, 0, 0]) / 16
    return patches.flatten(1) @ torch.outer(weights, weights).flatten()


def _contrast(patches: Tensor) -> Tensor:
    return patches[:, 2:6, 2:6].flatten(1).std(1) + _LEAST_CONTRAST


def _rotated(patches: Tensor, symmetry: int) -> Tensor:
    """One of the eight mirrored and rotated versions of patches."""
    flipped = patches.flip([axis for axis in (1, 2) if symmetry & axis])
    return flipped.mT if symmetry & 4 else flipped


def patches_around_centers(
    plane: Float[Tensor, "height width"], rows: Int[Tensor, " n"], columns: Int[Tensor, " n"]
) -> Float[Tensor, "n 8 8"]:
    """Patches around the points half a pixel below and to the right of pixels.

    The plane is mirrored at its edges.
    """
    steps = torch.arange(_SIDE, device=plane.device) - _SIDE // 2 + 1
    return _gather(plane, rows[:, None, None] + steps[:, None], columns[:, None, None] + steps)


def patches_around_pixels(
    plane: Float[Tensor, "height width"], rows: Int[Tensor, " n"], columns: Int[Tensor, " n"]
) -> Float[Tensor, "n 8 8"]:
    """Patches around pixels, of the checkerboard's other color, rotated by 45 degrees.

    The plane is mirrored at its edges, which keeps the colors of the checkerboard.
    """
    steps = torch.arange(_SIDE, device=plane.device) - _SIDE // 2 + 1
    # A step along one axis of the rotated lattice goes one pixel down and one to the right, a step
    # along the other one up and one to the right. The - 1 puts the pixel between the middle steps.
    down = steps[:, None] - steps
    right = steps[:, None] + steps - 1
    return _gather(plane, rows[:, None, None] + down, columns[:, None, None] + right)


def _gather(plane: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    height, width = plane.shape
    return plane[_mirrored(rows, height), _mirrored(columns, width)]


def _mirrored(index: Tensor, size: int) -> Tensor:
    """Mirror an index at the first and the last pixel, which are not repeated."""
    period = max(2 * (size - 1), 1)
    # Beyond the last pixel the index runs back: 0 1 2 3 2 1 0 1 ...
    index = index % period
    return torch.minimum(index, period - index)


def default_steps(num_pixels: int) -> int:
    """Steps of training that suit an image of so many pixels."""
    if num_pixels < _LEAST_PIXELS:
        return 0
    return MAX_STEPS * min(num_pixels, _MANY_PIXELS) // _MANY_PIXELS


def fit_patch_network(
    rgb: Float[Tensor, "height width 3"],
    *,
    seed: int = 0,
    num_steps: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> PatchNetwork:
    """Train a network to predict each pixel from those around it.

    Args:
        rgb: values in [0, 1]; the network is trained on their device.
        seed: random seed of the weights and the batches.
        num_steps: number of steps of training; 0 leaves bicubic interpolation. None is as many as
            suit the number of pixels: 2000 from 256 x 256 on, proportionally fewer below, 0 below
            8192 pixels.
        should_stop: checked before each step.
    """
    if num_steps is None:
        num_steps = default_steps(rgb[..., 0].numel())
    network = PatchNetwork(torch.Generator().manual_seed(seed)).to(rgb.device)
    planes = rgb.permute(2, 0, 1)

    def draw_batch(step: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        plane = planes[step % len(planes)]
        drawn = torch.rand(2, BATCH_SIZE, generator=generator).to(rgb.device)
        rows, columns = (
            (u * size).long().clamp(max=size - 1)
            for u, size in zip(drawn, plane.shape, strict=True)
        )
        return (
            _rotated(patches_around_pixels(plane, rows, columns), step // len(planes) % 8),
            plane[rows, columns],
        )

    return _trained(network, draw_batch, num_steps, should_stop)


def _trained(
    network: PatchNetwork, draw_batch: DrawBatch, num_steps: int, should_stop: Callable[[], bool]
) -> PatchNetwork:
    """Train a network on batches of patches and the values at their centers."""
    fit(
        FitState(network, adam(network, lr=LR), num_steps),
        draw_batch,
        schedule=warmup_cosine,
        record_every=max(num_steps, 1),
        should_stop=should_stop,
    )
    return network


def double_resolution(
    rgb: Float[Tensor, "height width 3"], network: PatchNetwork
) -> Float[Tensor, "_height _width 3"]:
    """Insert predicted values between the pixels.

    Args:
        rgb: values in [0, 1].
        network: trained on the image.

    Returns:
        Twice as many rows and columns: the pixels at even rows and columns, values in [0, 1]
        between them, and beyond the last row and column.
    """
    height, width, _ = rgb.shape
    doubled = rgb.new_zeros(2 * height, 2 * width, 3)
    # First the pixels themselves, then the centers of their cells.
    doubled[::2, ::2] = rgb
    rows, columns = _crossings(height, width, rgb.device)
    for channel in range(3):
        plane = doubled[..., channel]
        centers = _predict(network, patches_around_centers, rgb[..., channel], rows, columns)
        plane[1::2, 1::2] = centers.reshape(height, width)
        # What is left is the other color of a checkerboard.
        for row, column in ((0, 1), (1, 0)):
            values = _predict(
                network, patches_around_pixels, plane, 2 * rows + row, 2 * columns + column
            )
            plane[row::2, column::2] = values.reshape(height, width)
    return doubled


def predict_held_out(image: Image, *, seed: int = 0) -> Float[Tensor, "height width 3"]:
    """Predict the held-out pixels of an image by a network that learns from its fitted pixels.

    Args:
        image: an image with pixels held out.
        seed: seed of the weights and the batches.

    Raises:
        ValueError: If no pixels are held out.
    """
    if image.held_out is None:
        raise ValueError("the image has no pixels held out; see Image.split_held_out")
    width, height = image.held_out.size
    doubled = double_resolution(image.rgb, fit_patch_network(image.rgb, seed=seed))
    # Held-out pixels lie diagonally between the fitted ones.
    return doubled[1::2, 1::2][:height, :width]


def _crossings(height: int, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Row and column of every pixel."""
    grid = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    rows, columns = (index.flatten().to(device) for index in grid)
    return rows, columns


def _predict(
    network: PatchNetwork,
    patches_around: Callable[[Tensor, Tensor, Tensor], Tensor],
    plane: Tensor,
    rows: Tensor,
    columns: Tensor,
) -> Tensor:
    chunks = zip(rows.split(_CHUNK), columns.split(_CHUNK), strict=True)
    return torch.cat([network.predict(patches_around(plane, *at)) for at in chunks]).clamp(0, 1)
