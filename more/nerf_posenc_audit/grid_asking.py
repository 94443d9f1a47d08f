"""Ask a module of images for the patches of a grid, and compare it with an encoder.

What modules take differs: sizes of the grid, positions of the patches, an image, or a length whose
rows the model picks. Grids are not square, so that an exchange of rows and columns shows.
"""

import contextlib
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nerf_posenc import GridSinusoidalEncoder
from nerf_posenc.core.grids import grid_positions
from nerf_posenc.core.sinusoids import sincos
from nerf_posenc_attention.presets.rotary import ROTARY
from nerf_posenc_attention.rotary import RotaryEncoder
from nerf_posenc_audit.probe import SINE_FIRST, NotAskableError
from nerf_posenc_audit.search import Match, identify

# Rows and columns of patches; of models that merge 2 x 2 of them, and of those with one own grid.
GRID, EVEN_GRID = (5, 7), (6, 10)
_TOLERANCE = 1e-4
# Distance of a reading that nothing is known of.
_VAGUE = 5
# Pairs of the widest head that is looked for.
_WIDEST = 512
# Names of what modules take.
HEIGHTS = ("h", "height", "grid_h", "num_patches_h", "H", "rows", "h_patches")
COLUMNS = ("w", "width", "grid_w", "num_patches_w", "W", "cols", "w_patches")
_SHAPES = ("shape", "grid_size", "feat_shape", "size", "hw", "grid_shape", "spatial_shape")
_PIXELS = ("pixel_values", "image", "images", "img", "pixels")
_POSITIONS = (
    *("position_ids", "positions", "pos", "coords", "pos_ids", "patch_positions", "xy"),
    *("coordinates", "ids"),
)
_LENGTHS = ("seqlen", "seq_len", "length", "max_grid_size", "max_hw", "n")
_FEATURES = ("x", "hidden_states", "tensor", "features", "q", "query", "mask")
# Models whose code is given the column of a patch before its row.
_X_FIRST = ("sam2", "sam3", "gemma4-vision")
_OTHERS: dict[str, Any] = {"device": torch.device("cpu"), "dtype": torch.float32}
_OTHERS |= {"t": 2, "num_frames": 2, "frames": 2, "grid_t": 2}


@dataclass(frozen=True)
class Grid:
    """A call for the patches of a grid.

    Attributes:
        call: calls a module, which may be another one than was looked at.
        shape: rows and columns.
        positions: positions of the patches where the caller gives them; None where the module
            counts.
    """

    call: Callable[[Callable[..., Any]], Any]
    shape: tuple[int, ...]
    positions: Tensor | None = None


def grid_calls(
    module: Callable[..., Any], num_axes: int = 2, *, is_image: bool = True
) -> Iterator[Grid]:
    """Ways to call a module for the patches of a grid, the likely ones first.

    Args:
        module: module or function.
        num_axes: number of axes of its positions.
        is_image: whether it is one of images for sure, so that features alone are a map of them.

    Raises:
        NotAskableError: If an argument is not understood.
    """
    for sizes in (GRID, EVEN_GRID, *_own_sizes(module)):
        shape = (*(2,) * (num_axes - 2), *sizes)
        plain = grid_positions(shape).flatten(0, -2)
        if hasattr(module, "get_embed"):  # Of timm's classes.
            yield Grid(lambda asked, s=shape: asked.get_embed(list(s)), shape)  # type: ignore[misc]
        called = module.forward if isinstance(module, nn.Module) else module
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        taken = [p for p in inspect.signature(called).parameters.values() if p.kind not in kinds]
        needed = [p.name for p in taken if p.default is p.empty]
        names = needed or [p.name for p in taken if p.name in (*_POSITIONS, *_SHAPES, *HEIGHTS)][:1]
        if not is_image and set(names) <= {*_FEATURES, *_LENGTHS}:
            continue
        choices = [_choices(name, shape, plain, module, len(names) == 1) for name in names]
        if not all(choices):
            unknown = next(name for name, own in zip(names, choices, strict=True) if not own)
            raise NotAskableError(f"the argument {unknown!r} is not understood")
        for chosen in itertools.product(*choices):
            given = dict(zip(names, chosen, strict=True))
            positions = plain if any(name in _POSITIONS for name in names) else None
            rows = plain if any(name in _LENGTHS for name in given) else None

            def call(
                asked: Callable[..., Any], given: dict[str, Any] = given, rows: Tensor | None = rows
            ) -> Any:
                output = asked(**given)
                return output if rows is None else _picked(output, rows)

            yield Grid(call, shape, positions)


def _own_sizes(module: Any) -> list[tuple[int, ...]]:
    """Sizes of the only grid that a module knows; none where it says none."""
    own = getattr(module, "feat_shape", None)
    if own is not None:
        return [tuple(own)]
    config = getattr(module, "config", module)
    image, patch = (getattr(config, name, None) for name in ("image_size", "patch_size"))
    is_known = isinstance(image, int) and isinstance(patch, int) and 1 < image // patch <= 64
    return [(image // patch,) * 2] if is_known else []  # type: ignore[operator]


def _choices(
    name: str, shape: tuple[int, ...], plain: Tensor, module: Any, is_alone: bool
) -> list[Any]:
    """Values to try for an argument; none if its name is not known."""
    height, width = shape[-2:]
    if name in HEIGHTS or name in COLUMNS:
        return [height if name in HEIGHTS else width]
    if name in _OTHERS:
        return [_OTHERS[name]]
    if name in _SHAPES:
        return [list(shape), torch.Size((1, 64, *shape)), torch.tensor(shape)]
    if name in _PIXELS:
        patch = getattr(getattr(module, "config", module), "patch_size", None)
        patch = patch if isinstance(patch, int) else 16
        return [torch.zeros(1, 3, height * patch, width * patch)]
    if "thw" in name:
        return [torch.tensor([[len(plain) // (height * width), height, width]])]
    if name in _LENGTHS:
        return [max(shape)]
    if name in _POSITIONS:
        given = (plain.T, plain, plain[None], plain.T[None], plain.T[:, None])
        return [convert(one) for one in given for convert in (Tensor.long, Tensor.float)]
    if name in _FEATURES:
        count = len(plain)
        maps = [torch.zeros(1, 256, height, width), torch.zeros(1, height, width, 256)]
        rows = [torch.zeros(1, count, 64)]
        return maps + rows if is_alone else rows
    return []


def _picked(output: Any, plain: Tensor) -> Any:
    """Rows of a table of all lengths that patches take, those of all axes side by side."""
    if isinstance(output, tuple | list):
        return tuple(_picked(one, plain) for one in output)
    return torch.cat([output[axis] for axis in plain.long().T], dim=-1)


# What comes back


def table(output: Tensor, shape: Sequence[int]) -> Tensor | None:
    """``(patches, width)`` of an output with further dimensions; None if it has no such rows."""
    count, grid = math.prod(shape), tuple(shape[-2:])
    for dim in range(output.ndim - 1):
        if tuple(output.shape[dim : dim + 2]) == grid:
            output = output.flatten(dim, dim + 1)
            break
    # One more row is that of a class token, the first or the last.
    for size in (count, count + 1):
        dims = [dim for dim, own in enumerate(output.shape) if own == size]
        if dims and output.ndim > 1:
            rows = output.movedim(dims[0], 0).double()
            return rows.reshape(size, -1)[:count]
    return None


def _readings(output: Any, shape: Sequence[int]) -> Iterator[tuple[Tensor, Tensor, str]]:
    """Cosines and sines of the patches that an output may hold, with the form."""
    parts = list(output.values()) if isinstance(output, Mapping) else output
    parts = [parts] if isinstance(parts, Tensor) else list(parts)
    parts = [part.detach() for part in parts if isinstance(part, Tensor)]
    if len(parts) == 1 and parts[0].shape[-1:] == (2,) and not parts[0].is_complex():
        parts = list(parts[0].unbind(-1))
        parts = [part[..., 0] for part in parts] if parts[0].shape[-1:] == (2,) else parts
    if len(parts) > 1 and parts[0].shape == parts[1].shape:
        first, second = (table(part, shape) for part in parts[:2])
        if first is not None and second is not None:
            yield first, second, "cosines and sines"
            yield second, first, SINE_FIRST
        return
    if not parts:
        raise NotAskableError(f"it returns {type(output).__name__}")
    if parts[0].is_complex():
        real, imaginary = (table(part, shape) for part in (parts[0].real, parts[0].imag))
        if real is not None and imaginary is not None:
            yield real, imaginary, "complex numbers"
        return
    rows = table(parts[0], shape)
    if rows is None:
        return
    if rows.shape[1] % 2 == 0:
        first, second = rows.chunk(2, dim=1)
        yield second, first, "features"
        yield first, second, "features"
    waves = sincos(rows, torch.ones(1, dtype=torch.float64))
    yield waves[..., 1::2], waves[..., ::2], "angles"


def _pairs(values: Tensor) -> tuple[Tensor, str]:
    """One value for each pair where a table repeats it, and the pairing that repeats it so."""
    width = values.shape[1]
    if width % 2 == 0 and torch.allclose(values[:, ::2], values[:, 1::2]):
        return values[:, ::2], "interleaved"
    if width % 4 == 0:
        first, second, third, fourth = values.chunk(4, dim=1)
        if torch.allclose(first, third) and torch.allclose(second, fourth):
            return torch.cat([first, second], 1), "half"
        if torch.allclose(first, second) and torch.allclose(third, fourth):
            return torch.cat([first, third], 1), "axis-half"
    if width % 2 == 0 and torch.allclose(values[:, : width // 2], values[:, width // 2 :]):
        return values[:, : width // 2], "half"
    return values, ""


@dataclass(frozen=True, eq=False)
class Waves:
    """Complex waves of the patches, with what their table says.

    Attributes:
        values: ``(patches, pairs)``.
        pairing: columns that form a pair; empty if the table has one for each.
        form: form of the output.
    """

    values: Tensor
    pairing: str
    form: str


def read_waves(output: Any, shape: Sequence[int]) -> list[Waves]:
    """The waves that an output may hold; none if it holds no cosines and sines.

    Args:
        output: output of the module.
        shape: rows and columns of the patches.
    """
    found = []
    for cosine, sine, form in _readings(output, shape):
        both, pairing = _pairs(torch.cat([cosine, sine]))
        waves = torch.complex(*both.chunk(2))
        lengths = waves.abs()
        if bool(waves.isfinite().all()) and float(lengths.std()) < 1e-2 * float(lengths.mean()):
            found.append(Waves(waves, pairing, form))
    return found


def rotated(waves: Waves, pairing: str, dim: int) -> tuple[Tensor, Tensor]:
    """A query before and after its rotation by waves.

    Args:
        waves: the waves.
        pairing: pairing of a table that does not repeat.
        dim: width of the query.
    """
    count = waves.values.shape[1]
    index = torch.arange(count)
    by = waves.pairing or pairing
    if by == "interleaved":
        first, second = 2 * index, 2 * index + 1
    elif by == "axis-half":
        first = index + (index >= count // 2) * (count // 2)
        second = first + count // 2
    else:
        first, second = index, index + count
    query = torch.randn(
        len(waves.values),
        max(dim, 2 * count),
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(0),
    )
    turned = torch.complex(query[:, first], query[:, second]) * waves.values
    output = query.clone()
    output[:, first], output[:, second] = turned.real, turned.imag
    return query, output


# Comparison

Found = tuple[list[str], Callable[[Any], Tensor]]
"""Differences in words, and a function that gives the error of another module or output."""


def compare(
    module: Callable[..., Any], expected: RotaryEncoder | GridSinusoidalEncoder, name: str | None
) -> Found:
    """Differences of a module from an encoder, on a grid that is not square.

    Args:
        module: module or function.
        expected: encoder that it should compute.
        name: name of the preset that says how patches are counted; None counts rows and columns.

    Returns:
        The differences in words, and a function of a module that gives its error.

    Raises:
        NotAskableError: If no usual way to call it gives what can be compared.
    """
    reasons: list[str] = []
    best: Found | None = None
    for grid in grid_calls(module, expected.in_dim):
        try:
            with evaluated(module):
                found = _compared(grid.call(module), grid, expected, name)
        except Exception as error:  # Whatever the code of others raises at a wrong call.
            reasons.append(f"{type(error).__name__}: {str(error)[:100]}")
            continue
        if found is None:
            reasons.append("the output has no cosines and sines of the patches")
        elif best is None or _distance(found[0]) < _distance(best[0]):
            words, differ = found

            def off(asked: Any, grid: Grid = grid, differ: Any = differ) -> Tensor:
                with evaluated(asked):
                    difference: Tensor = differ(grid.call(asked))
                return difference

            best = words, off
            if not words:
                break
    if best is None:
        raise NotAskableError(reasons[0] if reasons else "it takes no grid")
    return best


@contextlib.contextmanager
def evaluated(module: Any) -> Iterator[None]:
    """Call a module without gradients and without the augmentation of training."""
    was_training = isinstance(module, nn.Module) and module.training
    try:
        with torch.no_grad():
            yield module.eval() if was_training else None
    finally:
        if was_training:
            module.train()


def _distance(words: list[str]) -> int:
    """How far a reading is from what is expected: the nearest one is what was meant."""
    vague = sum(word.startswith(("it is another", "there are")) for word in words)
    return len(words) + 2 * _VAGUE * vague + _VAGUE * any("are rotated" in word for word in words)


def _compared(
    output: Any, grid: Grid, expected: RotaryEncoder | GridSinusoidalEncoder, name: str | None
) -> Found | None:
    """Differences of one output, and a function that gives the error of another."""
    if not isinstance(expected, RotaryEncoder):
        return _compared_table(output, grid.shape, expected, name)
    positions = grid.positions
    try:
        counted = ROTARY[name].positions(grid.shape) if name else None
    except ValueError:  # The model has another grid.
        counted = None
    x_first = positions is not None and name in _X_FIRST
    if positions is None:
        positions = grid_positions(grid.shape).flatten(0, -2) if counted is None else counted
    cosine, sine = expected._pairs((positions.flip(-1) if x_first else positions).double())
    exact = torch.complex(cosine, sine)
    readings = read_waves(output, grid.shape)
    fitting = [one for one in readings if one.values.shape == exact.shape]
    if not readings:
        return None
    if not fitting:
        width = 2 * readings[0].values.shape[1]
        words = [f"{width} columns are rotated instead of {2 * exact.shape[1]}"]
        return words, lambda _: torch.tensor(math.inf)
    judged = []
    for waves in fitting:
        words = []
        if waves.form == SINE_FIRST and "timm" not in str(name) and name != "eva02":
            words.append("cosine and sine are exchanged: the sine comes first")
        if waves.pairing not in ("", expected.pairing):
            words.append(f"columns are paired as {waves.pairing!r} instead of {expected.pairing!r}")
        if float((waves.values - exact).abs().max()) >= _TOLERANCE:
            words += _named(waves, exact, grid, expected, name, positions)
        judged.append((words, readings.index(waves)))
        if _distance(words) < _VAGUE:
            break
    words, index = min(judged, key=lambda one: _distance(one[0]))

    def differ(other: Any) -> Tensor:
        found = read_waves(other, grid.shape)
        # What nobody rebuilds on another device has no waves.
        waves = found[index].values if index < len(found) else exact * math.nan
        return torch.view_as_real(waves - exact)

    return words, differ


def _named(
    waves: Waves,
    exact: Tensor,
    grid: Grid,
    expected: RotaryEncoder,
    name: str | None,
    positions: Tensor,
) -> list[str]:
    """Differences of waves in words."""
    scale = float(waves.values.abs().mean())
    words = []
    if abs(scale - expected.scale) > 1e-3:
        words.append(f"cosines and sines are times {scale:.6g} instead of {expected.scale:.6g}")
    plain = Waves(waves.values / scale, "", waves.form)
    unit = exact / expected.scale
    if float((plain.values - unit).abs().max()) < _TOLERANCE:
        return words
    blocks = [axis for axis in range(expected.in_dim) if axis in expected.pair_axes]
    order = [[p for p, axis in enumerate(expected.pair_axes) if axis == one] for one in blocks]
    if len({len(one) for one in order}) == 1:
        turns = [pair for pairs in zip(*order, strict=True) for pair in pairs]
        backwards = [pair for pairs in zip(*order[::-1], strict=True) for pair in pairs]
        for one in (turns, backwards):
            if float((plain.values - unit[:, one]).abs().max()) < _TOLERANCE:
                return [*words, "the axes alternate from pair to pair instead of in blocks"]
    before, output = rotated(plain, expected.pairing, expected.dim)
    where: dict[str, Any] = {"positions": positions}
    if name and expected.scale == 1:
        found = identify(output, before=before, expected=name, **where)
        if found[0].is_exact and found[0].changes:
            return words + [f"it has {change}" for change in found[0].changes]
    found = identify(output, before=before, **where)
    if found[0].is_exact:
        changed = f" with {', '.join(found[0].changes)}" if found[0].changes else ""
        return [*words, f"it is {found[0].name}{changed}"]
    return [*words, "it is another rotation"]


def identify_grid(output: Any, grid: Grid) -> Match | None:
    """The encoding that an output for the patches of a grid holds; None if none is exact.

    Args:
        output: output of the module.
        grid: how it was called.

    Raises:
        NotAskableError: If the output has no row for each patch.
    """
    where: dict[str, Any] = {"shape": grid.shape}
    where = where if grid.positions is None else {"positions": grid.positions}
    # One table may be an embedding that is added, as long as it is one that is known.
    rows = table(output, grid.shape) if isinstance(output, Tensor) else None
    if rows is not None and not output.is_complex() and rows.shape[1] <= 2 * _WIDEST:
        match = identify(rows, **where)[0]
        if match.is_exact and not match.changes:
            return match
    readings = read_waves(output, grid.shape)
    if any(one.values.shape[1] > _WIDEST for one in readings):
        raise NotAskableError("the output has more columns than a head")
    if rows is None and not readings:
        raise NotAskableError("the output has no row for each patch")
    for waves in readings:
        scale = float(waves.values.abs().mean())
        plain = Waves(waves.values / scale, waves.pairing, waves.form)
        for pairing in (waves.pairing,) if waves.pairing else ("interleaved", "half"):
            before, after = rotated(plain, pairing, 0)
            match = identify(after, before=before, **where)[0]
            if match.is_exact:
                return match
    return None


def _compared_table(
    output: Any, shape: tuple[int, ...], expected: GridSinusoidalEncoder, name: str | None
) -> Found | None:
    """Differences of a table that is added, and a function that gives the error of another."""

    def rows_of(other: Any) -> Tensor | None:
        other = other[0] if isinstance(other, tuple | list) else other
        return table(other.mT if other.ndim == 3 and len(other) > 3 else other, shape)

    rows = rows_of(output)
    exact = expected.table(shape).double().flatten(0, -2)
    if rows is None:
        return None

    def differ(other: Any) -> Tensor:
        found = rows_of(other)
        assert found is not None
        return found - exact

    if rows.shape != exact.shape:
        return [f"there are {rows.shape[1]} columns instead of {exact.shape[1]}"], differ
    if float((rows - exact).abs().max()) < _TOLERANCE:
        return [], differ
    found = identify(rows, shape=shape, expected=name)
    if found[0].is_exact and found[0].changes:
        return [f"it has {change}" for change in found[0].changes], differ
    found = identify(rows, shape=shape)
    words = f"it is {found[0].name}" if found[0].is_exact else "it is another encoding"
    if found[0].is_exact and found[0].changes:
        words += f" with {', '.join(found[0].changes)}"
    return [words], differ
