"""The properties of the encoders' family, of rotary and polar embeddings."""

from typing import Any, ClassVar

from nerf_posenc_attention import (
    MixedRotaryEncoder,
    PoPEEncoder,
    RotaryEncoder,
    XPosEncoder,
    mrope_axes,
)
from tests.encoders.family import Case, EncoderFamily, coordinates, positions

# Positions may be integers; angles are float32 in any model.
_ROTATED: Any = dict(
    takes_integers=True, keeps_half=False, num_features=lambda encoder: 2 * encoder.rotary_dim
)


class TestRotations(EncoderFamily):
    """Encoders that rotate queries and keys; their cosines and sines are the features."""

    CASES: ClassVar = {
        "rotary": Case(lambda: RotaryEncoder(8), positions, has_axes=False, **_ROTATED),
        "rotary-axial": Case(
            lambda: RotaryEncoder(8, 2, pairing="half"), coordinates(2), **_ROTATED
        ),
        "rotary-unequal": Case(
            lambda: RotaryEncoder(16, 2, axis_dims=(4, 8), pairing="axis-half"),
            coordinates(2),
            **_ROTATED,
            is_exported=False,
        ),
        "rotary-trailing": Case(
            lambda: RotaryEncoder(8, axis_dims=(4,), pairing="half", trailing=True),
            positions,
            has_axes=False,
            **_ROTATED,
        ),
        "rotary-sections": Case(
            lambda: RotaryEncoder(8, 3, pair_axes=mrope_axes((2, 1, 1))),
            coordinates(3),
            **_ROTATED,
            is_exported=False,
        ),
        "rotary-mixed": Case(
            lambda: MixedRotaryEncoder(8), coordinates(2), **_ROTATED, keeps_parameters=True
        ),
        "xpos": Case(lambda: XPosEncoder(8), positions, has_axes=False, **_ROTATED),
        "pope": Case(
            lambda: PoPEEncoder(4, 2),
            positions,
            has_axes=False,
            takes_integers=True,
            keeps_half=False,
        ),
    }
