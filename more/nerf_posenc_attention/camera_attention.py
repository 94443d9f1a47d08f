"""Camera poses in attention: queries, keys and values transformed by relative cameras."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.core.checks import require_tensor
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.core.grids import grid_positions
from nerf_posenc.core.speed import exact_product
from nerf_posenc_attention.rotary import RotaryEncoder

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True)
class CameraTransforms:
    """Matrices that multiply the tokens of each camera.

    Attributes:
        queries: ``(*batch, cameras, 4, 4)``.
        keys: also for values, ``(*batch, cameras, 4, 4)``.
        outputs: ``(*batch, cameras, 4, 4)``.
    """

    queries: Float[Tensor, "*batch cameras 4 4"]
    keys: Float[Tensor, "*batch cameras 4 4"]
    outputs: Float[Tensor, "*batch cameras 4 4"]


class PRoPEEncoder(Encoder):
    r"""Projective position encoding of tokens seen by several cameras (PRoPE).

    With $P$ the projection of each token's camera, in 4x4 blocks on half of a head's columns,
    queries become $P^\top q$, keys and values $P^{-1} k$ and the outputs of attention $P o$, so
    that tokens are compared in a frame that depends on the relative cameras alone. The other
    columns are rotated by the patch's position, a quarter by its column and a quarter by its row
    (Li et al. 2025, Cameras as Relative Positional Encoding, arXiv:2507.10496). Without
    intrinsics $P$ is the pose, as in GTA (Miyato et al. 2024, arXiv:2310.10375).

    Args:
        dim: width of a head, a multiple of 8.
        patches: rows and columns of patches of an image. Tokens come camera by camera, row by
            row.
        base: ratio of the longest wavelength (not reached) to the shortest of the rotations.

    Raises:
        ValueError: If an argument does not fit.

    Examples:
        >>> prope = PRoPEEncoder(16, patches=(2, 3))
        >>> poses = torch.eye(4).expand(1, 2, 4, 4)
        >>> q = k = v = torch.rand(1, 8, 12, 16)
        >>> prope.attend(q, k, v, prope.transforms(poses)).shape
        torch.Size([1, 8, 12, 16])
    """

    children_in_repr = ("rotary",)

    def __init__(self, dim: int, *, patches: Sequence[int], base: float = 100.0) -> None:
        if dim < 8 or dim % 8:
            raise ValueError(f"dim must be a positive multiple of 8; got {dim}")
        if len(patches) != 2 or min(patches) < 1:
            raise ValueError(f"patches must be (rows, columns), 1 or more; got {tuple(patches)}")
        super().__init__(2, dim)
        self.patches = tuple(patches)
        self.base = base
        # The authors rotate by negative angles, so `_transformed` negates the positions of queries
        # and keys. Their first block of columns is that of the patch's column: (1, 0).
        self.rotary = RotaryEncoder(dim // 2, 2, base=base, axis_order=(1, 0), pairing="axis-half")

    def transforms(
        self,
        world_from_camera: Float[Tensor, "*batch cameras 4 4"],
        intrinsics: Float[Tensor, "*batch cameras 3 3"] | None = None,
        *,
        image_size: Sequence[int | float] | None = None,
        translation_scale: float = 1.0,
    ) -> CameraTransforms:
        """Find the transforms of cameras; compute them once for all layers.

        Args:
            world_from_camera: rigid poses, in OpenCV's axes (x right, y down, looking along +z).
            intrinsics: intrinsic matrices in pixels, without skew; None leaves the poses alone.
            image_size: height and width in pixels, with intrinsics.
            translation_scale: factor of the cameras' positions, ``trans_coeff`` in GTA.

        Raises:
            ValueError: If a shape does not fit, or one of intrinsics and image_size is missing.
        """
        require_tensor(world_from_camera, "world_from_camera")
        if world_from_camera.ndim < 3 or world_from_camera.shape[-2:] != (4, 4):
            raise ValueError(
                "world_from_camera must have shape (*batch, cameras, 4, 4); got "
                f"{tuple(world_from_camera.shape)}"
            )
        if image_size is not None and (len(image_size) != 2 or min(image_size) <= 0):
            raise ValueError(f"image_size must be (height, width) above 0; got {image_size}")
        if (intrinsics is None) != (image_size is None):
            raise ValueError("give both intrinsics and image_size, or neither")
        # [R t; 0 1]: only the translation t is scaled.
        scale = torch.ones(4, 4).to(world_from_camera)
        scale[:3, 3] = translation_scale
        world_from_camera = world_from_camera * scale
        camera_from_world = _inverted_pose(world_from_camera)
        if intrinsics is None or image_size is None:
            return CameraTransforms(camera_from_world.mT, world_from_camera, camera_from_world)
        if intrinsics.shape != (*world_from_camera.shape[:-2], 3, 3):
            raise ValueError(
                f"intrinsics must have shape {(*world_from_camera.shape[:-2], 3, 3)}; got "
                f"{tuple(intrinsics.shape)}"
            )
        image_from_camera = _normalized_intrinsics(intrinsics, image_size)
        projection = exact_product(image_from_camera, camera_from_world)
        inverse = exact_product(world_from_camera, torch.linalg.inv(image_from_camera))
        return CameraTransforms(projection.mT, inverse, projection)

    def queries(
        self, x: Float[Tensor, "*batch heads length dim"], transforms: CameraTransforms
    ) -> Float[Tensor, "*batch heads length dim"]:
        """Transform queries.

        Args:
            x: tokens camera by camera, row by row.
            transforms: camera transforms of the cameras.

        Raises:
            ValueError: If a shape does not fit.
        """
        return self._transformed(x, transforms.queries, -1)

    def keys(
        self, x: Float[Tensor, "*batch heads length dim"], transforms: CameraTransforms
    ) -> Float[Tensor, "*batch heads length dim"]:
        """Transform keys, or values.

        Args:
            x: tokens camera by camera, row by row.
            transforms: camera transforms of the cameras.

        Raises:
            ValueError: If a shape does not fit.
        """
        return self._transformed(x, transforms.keys, -1)

    def outputs(
        self, x: Float[Tensor, "*batch heads length dim"], transforms: CameraTransforms
    ) -> Float[Tensor, "*batch heads length dim"]:
        """Transform what attention gave, back to the frame of the query's camera.

        Args:
            x: outputs of attention, tokens camera by camera, row by row.
            transforms: camera transforms of the queries' cameras.

        Raises:
            ValueError: If a shape does not fit.
        """
        return self._transformed(x, transforms.outputs, 1)

    def attend(
        self,
        queries: Float[Tensor, "*batch heads length dim"],
        keys: Float[Tensor, "*batch heads length dim"],
        values: Float[Tensor, "*batch heads length dim"],
        transforms: CameraTransforms,
        **attention: Any,
    ) -> Float[Tensor, "*batch heads length dim"]:
        """Self-attention between all tokens of all cameras.

        Args:
            queries: tokens camera by camera, row by row.
            keys: likewise.
            values: likewise.
            transforms: camera transforms of the cameras.
            attention: arguments of ``torch.nn.functional.scaled_dot_product_attention``.

        Raises:
            ValueError: If a shape does not fit.
        """
        output = F.scaled_dot_product_attention(
            self.queries(queries, transforms),
            self.keys(keys, transforms),
            self.keys(values, transforms),
            **attention,
        )
        return self.outputs(output, transforms)

    def _transformed(self, x: Tensor, matrices: Tensor, direction: int) -> Tensor:
        cameras = matrices.shape[-3]
        length = cameras * self.patches[0] * self.patches[1]
        if x.ndim < 3 or x.shape[-2:] != (length, self.out_dim):
            raise ValueError(
                f"x must have shape (*batch, heads, {length}, {self.out_dim}) for {cameras} "
                f"cameras of {self.patches} patches; got {tuple(x.shape)}"
            )
        # x: [first half: blocks of 4 for the camera | column of the patch | row of the patch]
        half = self.out_dim // 2
        projected = transformed_by_camera(x[..., :half], matrices)
        positions = grid_positions(self.patches, device=x.device).flatten(0, 1).repeat(cameras, 1)
        rotated = self.rotary.rotate(x[..., half:], direction * positions)
        return torch.cat([projected, rotated], dim=-1)

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        return f"dim={self.out_dim}, patches={self.patches}, base={self.base:g}"


def transformed_by_camera(
    x: Float[Tensor, "*batch heads length dim"], matrices: Float[Tensor, "*batch cameras 4 4"]
) -> Float[Tensor, "*batch heads length dim"]:
    r"""Multiply each four columns of each token with its camera's matrix.

    CaPE of EscherNet (Kong et al. 2024, arXiv:2402.03908) is this on all columns, with
    the inverse of the pose for queries and its transpose for keys. (Its form for four degrees
    of freedom is ``RotaryEncoder(dim, 4, frequencies=torch.ones(dim // 8))`` on azimuth and so on.)

    Args:
        x: tokens, camera by camera, as many for each; the width a multiple of 4.
        matrices: one for each camera.

    Raises:
        ValueError: If a shape does not fit.
    """
    cameras = matrices.shape[-3]
    if x.ndim < 3 or x.shape[-1] % 4 or x.shape[-2] % cameras:
        raise ValueError(
            f"x must have shape (*batch, heads, length, dim) with a length that {cameras} cameras "
            f"divide and a dim that 4 divides; got {tuple(x.shape)}"
        )
    # (*batch, heads, cameras, tokens, dim / 4, 4) @ (*batch, 1, cameras, 1, 4, 4)
    groups = x.unflatten(-2, (cameras, -1)).unflatten(-1, (-1, 4))
    moved = exact_product(groups, matrices.to(x.dtype).mT[..., None, :, None, :, :])
    return moved.flatten(-2).flatten(-3, -2)


def _inverted_pose(pose: Tensor) -> Tensor:
    """Inverse of a rigid transform: ``[R t; 0 1]`` to ``[R^T  -R^T t; 0 1]``."""
    rotation = pose[..., :3, :3].mT
    translation = exact_product(-rotation, pose[..., :3, 3:])
    return torch.cat([torch.cat([rotation, translation], dim=-1), pose[..., 3:, :]], dim=-2)


def _normalized_intrinsics(intrinsics: Tensor, image_size: Sequence[int | float]) -> Tensor:
    """4x4 matrices that project to images from -0.5 to 0.5."""
    height, width = image_size
    # In pixels [fx 0 cx; 0 fy cy; 0 0 1]. Divide by the size, then move the center to 0.
    size = intrinsics.new_tensor([width, height, 1.0])
    center = intrinsics.new_tensor([[0.0, 0.0, 0.5], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]])
    lifted = torch.zeros(*intrinsics.shape[:-2], 4, 4).to(intrinsics)
    lifted[..., :3, :3] = intrinsics / size[:, None] - center
    lifted[..., 3, 3] = 1
    return lifted
