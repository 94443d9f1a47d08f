"""Port weights trained with one column order to another."""

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from nerf_posenc.encoders.fourier import FourierEncoder

Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
_Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d
# Parameters that may have a column for each input: a plain weight; those of weight normalization,
# as `nn.utils.weight_norm` and as `nn.utils.parametrizations.weight_norm` name them.
_WEIGHTS = (
    {"weight"},
    {"weight_g", "weight_v"},
    {"parametrizations.weight.original0", "parametrizations.weight.original1"},
)


@dataclass(frozen=True)
class Port:
    """Where a layer reads an encoder's features, and which encoder it is to read.

    Attributes:
        source: the encoder that the layer was trained with.
        target: the encoder it is to follow.
        offset: input of the layer at which the features begin; None if it reads nothing else.
    """

    source: FourierEncoder
    target: FourierEncoder
    offset: int | None = None


def column_order(source: FourierEncoder, target: FourierEncoder) -> Tensor:
    """Index in ``source`` of each column of ``target``.

    ``source(x)[..., column_order(source, target)]`` equals ``target(x)`` to the bit.

    Args:
        source: the encoder that the columns come from.
        target: the encoder with the wanted order: the same bands, in any convention.

    Returns:
        Indices, int64, ``(target.out_dim,)``.

    Raises:
        TypeError: If one of them has no columns with a name, as random features have not.
        ValueError: If the encoders differ in coordinates, bands or basis, or ``target`` has a
            raw input that ``source`` lacks.
    """
    for encoder in (source, target):
        if not isinstance(encoder, FourierEncoder):
            raise TypeError(
                f"columns have a band, a phase and an axis in a FourierEncoder; got a "
                f"{type(encoder).__name__}"
            )
    same_basis = (source.basis is None) == (target.basis is None) and (
        source.basis is None or torch.equal(source.basis, cast(Tensor, target.basis))
    )
    if not (
        source.in_dim == target.in_dim
        and _are_equal(source.sincos.frequencies, target.sincos.frequencies)
        and same_basis
    ):
        raise ValueError(
            "the encoders have different coordinates, bands or directions; only the order of "
            f"columns can be changed, so give both the same bands. They are {source} and {target}"
        )
    place = {column: i for i, column in enumerate(source.columns)}
    missing = [column for column in target.columns if column not in place]
    if missing:
        raise ValueError(
            f"the source has no column for {missing[0]} (band, phase, axis), which the target has"
        )
    return torch.tensor([place[column] for column in target.columns], dtype=torch.long)


def _are_equal(bands: Tensor, others: Tensor) -> bool:
    """Whether bands are equal; trained ones are rounded to float32."""
    dtype = torch.float32 if torch.float32 in (bands.dtype, others.dtype) else torch.float64
    return torch.equal(bands.to(dtype), others.to(dtype))


def port_linear(
    layer: Layer, source: FourierEncoder, target: FourierEncoder, *, offset: int | None = None
) -> Layer:
    """Port a layer that reads an encoder's features from one column order to another.

    ``port_linear(layer, source, target)(target(x))`` equals ``layer(source(x))`` but for the order
    of the sums, so that a checkpoint of one library runs on the encoder of another. For every
    layer of a network in one call, see [port_module][nerf_posenc.port_module].

    Args:
        layer: a linear layer, or a convolution with a kernel of one cell (with any kernel, in
            fact: the order of channels is all that changes), also with weight normalization. It is
            not changed.
        source: the encoder it was trained with.
        target: the encoder it is to follow.
        offset: input of the layer at which the features begin, for a layer that reads a
            concatenation: NeRF's skip layer reads ``[features, hidden]`` (0), its view layer
            ``[hidden, features of the direction]`` (the width of hidden). None: it reads nothing
            else.

    Returns:
        A new layer.

    Raises:
        TypeError: If it is neither a linear layer nor a convolution.
        ValueError: If the encoders differ in more than the order of their columns, the layer does
            not fit ``source``, or its weight is computed in another way.
    """
    if not isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d):
        raise TypeError(
            f"layer must be an nn.Linear or a convolution; got a {type(layer).__name__}"
        )
    if isinstance(layer, _Convolution) and (layer.groups != 1 or layer.transposed):
        raise ValueError("a convolution must have one group and must not be transposed")
    num_inputs = layer.weight.shape[1]
    first = 0 if offset is None else offset
    stop = first + source.out_dim
    if first < 0 or stop > num_inputs or (offset is None and stop != num_inputs):
        raise ValueError(
            f"the layer takes {num_inputs} features and the source gives {source.out_dim}; give "
            "offset=, the input at which they begin, for a layer that reads more than them"
        )
    order = column_order(source, target)
    if len(order) != source.out_dim:
        raise ValueError("the target lacks columns of the source, whose weights would be lost")
    columns = torch.arange(num_inputs)
    columns[first:stop] = first + order
    return _with_inputs(layer, columns)


def port_module(module: nn.Module, ports: Mapping[str, Port]) -> dict[str, str]:
    """Port every layer of a network that reads an encoder's features, in place.

    Args:
        module: the network.
        ports: the encoders, and where their features begin, by the name of each such layer in
            ``module``.

    Returns:
        What was changed: for each layer, in words, the inputs that were put in another order.

    Raises:
        TypeError: If a layer is neither a linear layer nor a convolution.
        ValueError: If there is no layer of a name, one does not fit, or was ported by a call before
            and has not changed since; nothing is changed then.

    Examples:
        >>> theirs = FourierEncoder.preset("nerf", 3, 4, include_input=None)
        >>> ours = FourierEncoder(3, 4, base=1.0)
        >>> network = nn.Sequential(nn.Linear(24, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> port_module(network, {"0": Port(theirs, ours)})
        {'0': 'inputs 0 to 23: 22 of 24 moved'}
    """
    known = dict(module.named_modules(remove_duplicate=False))
    ported: dict[str, Layer] = {}
    report: dict[str, str] = {}
    for name, port in ports.items():
        if not isinstance(port, Port):
            raise TypeError(f"{name}: give Port(source, target); got a {type(port).__name__}")
        if name not in known:
            layers = [n for n, m in known.items() if isinstance(m, nn.Linear | _Convolution)]
            raise ValueError(f"no layer {name!r}; there are {', '.join(layers)}")
        layer = cast(Layer, known[name])
        try:
            ported[name] = port_linear(layer, port.source, port.target, offset=port.offset)
            twin = next((n for n in ported if known[n] is layer and n != name), None)
            if twin is not None:
                raise ValueError(f"it is the layer {twin}; give it once")
            expected, first = [list(each) for each in port.source.columns], port.offset or 0
            for start, columns in _columns_read(layer).items():
                meets = int(start) < first + len(expected) and first < int(start) + len(columns)
                if meets and (int(start), columns) != (first, expected):
                    raise ValueError("it was ported already; a second time would mix its inputs")
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None
        order = column_order(port.source, port.target)
        moved = int((order != torch.arange(len(order))).sum())
        first = port.offset or 0
        last = first + len(order) - 1
        report[name] = f"inputs {first} to {last}: {moved} of {len(order)} moved"
    for name, layer in ported.items():
        own, port = cast(Layer, known[name]), ports[name]
        columns = {**_columns_read(own), str(port.offset or 0): port.target.columns}
        with torch.no_grad():
            for old, new in zip(_by_input(own), _by_input(layer), strict=True):
                old.copy_(new)
        if "weight" in vars(own):
            own.weight = layer.weight
        # A text, which copies, `torch.save` and TorchScript keep.
        mark = json.dumps({"weights": _fingerprint(own), "columns": columns})
        object.__setattr__(own, "_ported", mark)
    return report


def _by_input(layer: Layer) -> list[Tensor]:
    """Tensors of a layer with a column for each of its inputs.

    Raises:
        ValueError: If its weight is computed from others than those of weight normalization.
    """
    own = dict([*layer.named_parameters(), *layer.named_buffers()])
    names = next((names for names in _WEIGHTS if names <= own.keys()), None)
    if names is None:
        others = ", ".join(sorted(own.keys() - {"bias"})) or "what is no parameter"
        raise ValueError(
            f"its weight is computed from {others}; port it without, for example after "
            "nn.utils.parametrize.remove_parametrizations"
        )
    return [own[n] for n in sorted(names) if own[n].shape[1:2] == layer.weight.shape[1:2]]


def _columns_read(layer: Layer) -> dict[str, Any]:
    """Columns that a layer was ported to, by their offset; empty if it has changed since."""
    mark = json.loads(getattr(layer, "_ported", "{}"))
    return dict(mark["columns"]) if mark.get("weights") == _fingerprint(layer) else {}


def _fingerprint(layer: Layer) -> str:
    """Checksum of the weights, which loading or training changes and a copy keeps."""
    weights = [each.detach() for each in _by_input(layer) if not each.is_meta]
    return hashlib.sha256(
        b"".join(each.double().cpu().numpy().tobytes() for each in weights)
    ).hexdigest()


def _with_inputs(layer: Layer, columns: Tensor) -> Layer:
    """A copy of the layer that reads its inputs in another order."""
    _by_input(layer)
    # That of `nn.utils.weight_norm` is no parameter, and autograd refuses to copy it.
    computed = vars(layer).get("weight")
    ported = copy.deepcopy(
        layer, {id(computed): _permuted(computed, columns)} if computed is not None else None
    )
    with torch.no_grad():
        for weight in _by_input(ported):
            weight.copy_(_permuted(weight, columns))
    return ported


def _permuted(weight: Tensor, columns: Tensor) -> Tensor:
    return weight.detach()[:, columns.to(weight.device)]
