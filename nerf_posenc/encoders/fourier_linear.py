"""A Fourier encoder and the linear layer after it in one module."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc.core.backend import require_fusible
from nerf_posenc.core.encoder import Encoder, require_coordinates
from nerf_posenc.encoders.fourier import FourierEncoder


class FourierLinear(Encoder):
    r"""A linear layer on Fourier features, $W \gamma(x) + b$.

    With an encoder of ``backend="triton"`` both are one kernel on a GPU: the features never reach
    its memory and are not kept for the backward pass. With any other it is the encoder followed by
    a linear layer, with the same results and the same ``state_dict``.

    Args:
        encoder: of the coordinates.
        out_dim: number of outputs.

    Examples:
        >>> layer = FourierLinear(FourierEncoder(3, 10), 64)
        >>> layer(torch.rand(8, 3)).shape
        torch.Size([8, 64])
    """

    def __init__(self, encoder: FourierEncoder, out_dim: int) -> None:
        super().__init__(encoder.in_dim, out_dim)
        self.encoder = encoder
        self.linear = nn.Linear(encoder.out_dim, out_dim)

    def forward(
        self, x: Float[Tensor, "*batch in_dim"], **conditions: Any
    ) -> Float[Tensor, "*batch out_dim"]:
        """Encode and multiply.

        Args:
            x: coordinates, as the encoder takes them.
            conditions: keyword arguments of the encoder (``variance``, ``progress``, ...); with
                them the features are computed on their own.

        Returns:
            Outputs in the type of the weights, or in autocast's.

        Raises:
            TypeError: If the encoder does not take the type of ``x`` or a keyword argument.
            ValueError: If a shape does not fit.
        """
        if conditions or self.encoder.sincos.backend != "triton" or not self.encoder.is_plain:
            outputs: Tensor = self.linear(self.encoder(x, **conditions))
            return outputs
        require_coordinates(x, self.in_dim)
        require_fusible(x)
        # Imported here since Triton takes a second to import and is not on every platform.
        from nerf_posenc.core.kernels import first_linear

        weight: Tensor = self.linear.weight
        bias: Tensor = self.linear.bias
        if torch.is_autocast_enabled(x.device.type):
            dtype = torch.get_autocast_dtype(x.device.type)
            weight, bias = weight.to(dtype), bias.to(dtype)
        sincos = self.encoder.sincos
        outputs = first_linear.encode_linear(
            x.reshape(math.prod(x.shape[:-1]), self.in_dim),
            sincos.band_cycles,
            weight,
            bias,
            sincos.layout,
            sincos.phases[0],
            self.encoder.include_input or "",
        )
        return outputs.reshape(*x.shape[:-1], self.out_dim)
