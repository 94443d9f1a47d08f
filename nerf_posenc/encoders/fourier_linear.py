"""The Fourier encoder and the linear layer behind it as one."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc.core.checks import require_coordinates
from nerf_posenc.core.sinusoids import require_fusible
from nerf_posenc.encoders.fourier import FourierEncoder


class FourierLinear(nn.Module):
    r"""A linear layer of Fourier features, $W \gamma(x) + b$.

    With an encoder of ``backend="triton"`` both are one kernel on a GPU, and the features never
    reach its memory, nor are they kept for the backward pass. With any other it is the encoder
    and a linear layer, one after the other, with the same results and the same ``state_dict``.

    Args:
        encoder: of the coordinates.
        out_dim: number of outputs.

    Examples:
        >>> layer = FourierLinear(FourierEncoder(3, 10), 64)
        >>> layer(torch.rand(8, 3)).shape
        torch.Size([8, 64])
    """

    def __init__(self, encoder: FourierEncoder, out_dim: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.linear = nn.Linear(encoder.out_dim, out_dim)

    @property
    def in_dim(self) -> int:
        """Number of coordinates."""
        return self.encoder.in_dim

    @property
    def out_dim(self) -> int:
        """Number of outputs."""
        return self.linear.out_features

    def forward(
        self, x: Float[Tensor, "*batch in_dim"], **conditions: Any
    ) -> Float[Tensor, "*batch out_dim"]:
        """Encode and multiply.

        Args:
            x: coordinates, as the encoder takes them.
            conditions: what else the encoder takes (``variance``, ``progress``, ...); with them
                the features are made on their own.

        Returns:
            Outputs in the type of the weights, or in autocast's.

        Raises:
            TypeError: where ``x`` is of a type that the encoder does not take.
            ValueError: where a shape does not fit.
        """
        if conditions or self.encoder.sincos.backend != "triton" or not self.encoder.is_plain:
            outputs: Tensor = self.linear(self.encoder(x, **conditions))
            return outputs
        require_coordinates(x, self.in_dim)
        require_fusible(x)
        # Here, because Triton is not everywhere that torch is.
        from nerf_posenc.core.kernels import first_linear as _triton_linear

        weight: Tensor = self.linear.weight
        bias: Tensor = self.linear.bias
        if torch.is_autocast_enabled(x.device.type):
            dtype = torch.get_autocast_dtype(x.device.type)
            weight, bias = weight.to(dtype), bias.to(dtype)
        sincos = self.encoder.sincos
        outputs = _triton_linear.encode_linear(
            x.reshape(math.prod(x.shape[:-1]), self.in_dim),
            sincos.band_cycles,
            weight,
            bias,
            sincos.layout,
            sincos.phases[0],
            self.encoder.include_input or "",
        )
        return outputs.reshape(*x.shape[:-1], self.out_dim)
