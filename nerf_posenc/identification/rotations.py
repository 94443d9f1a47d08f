"""Rotary embeddings to compare an output with."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from nerf_posenc.identification.position_transforms import (
    NOISE,
    UNNAMED,
    Bands,
    Candidate,
    Counted,
    Motion,
    Slots,
    counted,
    find_bases,
    find_motion,
    shown,
    values_of,
    words,
)
from nerf_posenc.identification.tables import Pair, rotation_pairs
from nerf_posenc.identification.waves import Waves, measure_rotation
from nerf_posenc.positional.rotary import RotaryEncoder
from nerf_posenc.presets.rotary import ROTARY

_OTHER_WIDTH = 0.5


def rotary_candidates(
    before: Tensor,
    output: Tensor,
    shape: Sequence[int] | None,
    positions: Tensor | None,
    expected: str | None,
    tolerance: float,
) -> Iterator[Candidate]:
    """Rotary presets as they are and with what was measured to differ, then what was measured."""
    names = ROTARY if expected is None else [ROTARY.canonical(expected)]
    dim = before.shape[-1]
    # YaRN and LongRoPE scale what they rotate.
    # Not the columns that they leave as they are.
    is_moved = ((output - before).abs() > tolerance).any(dim=0)
    ratio = output[:, is_moved].norm(dim=-1) / before[:, is_moved].norm(dim=-1)
    scale = float(ratio.mean())
    is_scaled = bool((ratio - scale).abs().max() < 1e-4) and abs(scale - 1) > 1e-4
    scaled = {"scale": scale} if is_scaled else {}
    known: dict[bytes, Waves | None] = {}

    def measure(own: Counted) -> Waves | None:
        """Measure once for all presets that count alike."""
        key = own.axes.numpy().tobytes()
        if key not in known:
            known[key] = measure_rotation(
                before, output, own.axes, scaled.get("scale", 1), tolerance
            )
        return known[key]

    plain = counted(shape, positions)
    for name in names:
        sized: dict[str, Any] = {} if dim == ROTARY[name].dim else {"dim": dim}
        try:
            encoder = RotaryEncoder.preset(name, **sized)
        except ValueError:
            # The model's axes do not divide such a width.
            continue
        theirs = _own_positions(name, shape)
        is_plain = theirs is None or torch.equal(theirs.axes, plain.axes)
        for own in (theirs, plain):
            if own is None or own.axes.shape[1] != encoder.in_dim:
                continue
            counting = () if own is theirs or is_plain else ("positions counted as indices",)
            found = [(sized, Motion.none(encoder.in_dim))]
            waves = measure(own)
            if waves is not None:
                found += [({**a, **scaled}, m) for a, m in _changed(name, sized, waves, own)]
            for arguments, motion in found:
                changes = (*motion.changes, *counting)
                yield _preset(name, arguments, motion.moved(own), changes, before)
    waves = measure(plain)
    is_right = waves is not None and float(waves.error.max()) < NOISE
    # Blocks of columns that are each paired within themselves are left to presets.
    if waves is not None and is_right and expected is None and _pairing(waves) != "blocks":
        yield _unnamed(waves, plain, before, scaled.get("scale", 1.0))


def _own_positions(name: str, shape: Sequence[int] | None) -> Counted | None:
    """Positions as the model of a preset counts them."""
    if shape is None:
        return None
    try:
        own = ROTARY[name].positions(shape)
    except ValueError:
        # The model's grid has other sizes.
        return None
    return Counted(own, f'ROTARY["{name}"].positions({tuple(shape)})')


def _preset(
    name: str, arguments: dict[str, Any], at: Counted, moved: tuple[str, ...], before: Tensor
) -> Candidate:
    """A preset with other arguments, at moved positions."""
    encoder = RotaryEncoder.preset(name, **arguments)
    return Candidate(
        name,
        words({k: v for k, v in arguments.items() if k != "dim"}) + moved,
        f'RotaryEncoder.preset("{name}"{shown(arguments)}).rotate(before, {at.code})',
        lambda rows: encoder.rotate(before[rows], at.positions[rows]),
        _OTHER_WIDTH if "dim" in arguments else 0.0,
    )


def _changed(
    name: str, sized: dict[str, Any], waves: Waves, own: Counted
) -> Iterator[tuple[dict[str, Any], Motion]]:
    """Arguments and motions with which a preset would give what was measured."""
    preset = ROTARY[name].arguments
    pairing = preset.get("pairing", "interleaved")
    measured_pairing = _pairing(waves).replace("blocks", "axis-half")
    for other in dict.fromkeys((pairing, measured_pairing)):
        arguments = sized if other == pairing else {**sized, "pairing": other}
        try:
            pairs = rotation_pairs(RotaryEncoder.preset(name, **arguments))
        except ValueError:
            # Pairs of single axes have no blocks, and V-JEPA 2 has no pairs.
            continue
        place = {(pair.a, pair.b): slot for slot, pair in enumerate(pairs)}
        if not set(waves.pairs) <= place.keys():
            continue
        measured = Slots.unknown(len(pairs))
        for pair, *wave in zip(waves.pairs, waves.axis, waves.band, waves.phase, strict=True):
            measured.fill(place[pair], *map(float, wave))
        own_base = None if "bands" in preset else preset.get("base", 10_000.0)
        bases = find_bases(_slots(pairs), measured, own.extent, own_base) if own_base else []
        for changed in (arguments, *({**arguments, "base": base} for base in bases)):
            pairs = rotation_pairs(RotaryEncoder.preset(name, **changed))
            motion = find_motion(_slots(pairs), measured, own, waves.near)
            if motion is not None:
                yield changed, motion


def _slots(pairs: list[Pair]) -> Slots:
    return Slots.of([(pair.axis, pair.band, 0.0) for pair in pairs])


def _pairing(waves: Waves) -> str:
    """Name of the measured pairing; "blocks" for any other than of neighbors and of halves."""
    if all(b == a + 1 for a, b in waves.pairs):
        return "interleaved"
    first, second = zip(*waves.pairs, strict=True)
    is_one_step = len({b - a for a, b in waves.pairs}) == 1
    return "half" if is_one_step and max(first) < min(second) else "blocks"


def _unnamed(waves: Waves, own: Counted, before: Tensor, scale: float) -> Candidate:
    """The measured rotation, of all columns from the first that moves on."""
    num_axes, pairing = own.axes.shape[1], _pairing(waves)
    columns = [column for pair in waves.pairs for column in pair]
    step = waves.pairs[0][1] - waves.pairs[0][0]
    # With halves, columns that do not move may lie within.
    first, width = min(columns), max(columns) + 1 - min(columns)
    if pairing == "half":
        first, width = max(0, min(first, max(columns) + 1 - 2 * step)), 2 * step
    axes, bands = [0] * (width // 2), [0.0] * (width // 2)
    for (a, _), axis, band in zip(
        waves.pairs, waves.axis.tolist(), waves.band.tolist(), strict=True
    ):
        slot = a - first if pairing == "half" else (a - first) // 2
        axes[slot], bands[slot] = axis, band
    # Where positions begin, if all waves of an axis have an angle of 0 there.
    wave = Slots(waves.axis, waves.band.abs(), waves.phase * waves.band.sign())
    zero = wave._replace(phase=torch.zeros_like(wave.phase))
    motion = find_motion(zero, wave, own, waves.near) or Motion.none(num_axes)
    motion = Motion(Motion.none(num_axes).order, motion.factor, motion.offset)
    arguments: dict[str, Any] = {} if pairing == "interleaved" else {"pairing": pairing}
    if num_axes > 1:
        arguments["pair_axes"] = tuple(axes)
    elif width < before.shape[1] - first:
        arguments["axis_dims"] = (width,)
    arguments["bands"] = Bands(torch.tensor(bands, dtype=torch.float64))
    arguments |= {} if scale == 1 else {"scale": scale}
    head, at = before.shape[1] - first, motion.moved(own)
    encoder = RotaryEncoder(head, num_axes, **values_of(arguments))
    made = f"RotaryEncoder({head}, {num_axes}{shown(arguments)})"
    line = f"{made}.rotate(before, {at.code})"
    if first:
        rotated = f"{made}.rotate(before[:, {first}:], {at.code})"
        line = f"torch.cat([before[:, :{first}], {rotated}], -1)"

    def evaluate(rows: Tensor) -> Tensor:
        rotated = encoder.rotate(before[rows, first:], at.positions[rows])
        return torch.cat([before[rows, :first], rotated], dim=-1)

    return Candidate("RotaryEncoder", motion.changes, line, evaluate, UNNAMED)
