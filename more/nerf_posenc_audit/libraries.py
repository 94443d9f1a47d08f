"""Every class of a library that computes positions: what it computes, and how exactly.

Sources are searched before anything is imported, so that only the modules that define such a class
are. A class is built from the default of its configuration, or from usual sizes by the names of
its arguments; one that cannot be built or asked is listed with the reason.
"""

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nerf_posenc_audit.asking import ask
from nerf_posenc_audit.checking import CONDITIONS, FAR, NEAR, errors
from nerf_posenc_audit.grid_asking import COLUMNS, HEIGHTS, evaluated, grid_calls, identify_grid
from nerf_posenc_audit.probe import NotAskableError
from nerf_posenc_audit.rows import Row, brief, printable
from nerf_posenc_audit.search import identify

_CLASS = re.compile(
    r"(?i:rotary|sinusoid|timestep_?s?_?embed|^timesteps$|fourier_?(feat|embed|enc|pos)"
    r"|pos(ition(al)?)?_?(emb|enc)|nerf_?enc|harmonic_?emb|sincos|freqs_cis|posenc)"
    r"|RoPE|Rope(?![a-z])|(^|_)rope(_|$)"
)
# Classes that use encodings.
_USERS = re.compile(r"Attention|Layer|Model|Block|MLP|Norm$|For[A-Z]|Processor|Params|Parameters")
# Functions that use a table or change one.
_NO_TABLE = re.compile(r"_?(apply|rotate|test|update|resize|resample|interpolate|load|_)")
_DEFINED = re.compile(r"^(?:class|def) (\w+)", re.MULTILINE)
# Parts of a library that hold no encodings, or run something when they are imported.
_LEFT_OUT = ("tests", "test", "scripts", "examples", "benchmarks", "cli", "conversion", "onnx")
# Usual sizes of arguments that have no default.
_SIZES = {
    64: "dim d_model embed_dim hidden_size head_dim embedding_dim channels num_channels width "
    "num_pos_feats dims embed_size n_embd hidden_dim inner_dim out_dim size embedding_size "
    "dim_head num_features emb_dim time_embed_dim d_hid n_elem rotary_dim axis_dim",
    4096: "max_len max_seq_len max_position_embeddings seq_len length num_positions max_length "
    "maxlen block_size end max_positions context_length n_ctx",
    3: "in_dim input_dim in_channels num_axes d in_features n_dims",
    10: "num_frequencies num_freqs num_bands n_harmonic_functions multires num_freq n_freqs",
    8: "num_heads n_head n_heads heads max_freq_exp max_freq",
}
_USUAL: dict[str, Any] = {name: size for size, names in _SIZES.items() for name in names.split()}
_USUAL |= {"base": 10_000.0, "theta": 10_000.0, "rope_theta": 10_000.0, "temperature": 10_000.0}
_USUAL |= {
    "min_freq_exp": 0.0,
    "dropout": 0.0,
    "padding_idx": 0,
    "device": None,
    "max_freq_exp": 8.0,
}
_USUAL |= {"num_embeddings": 1024, "num_embed": 64, "out_size": 64, "out_features": 64}
_USUAL |= {"attention_head_dim": 64, "patch_size": 2, "flip_sin_to_cos": True, "depth": 2}
_USUAL |= {"axes_dim": (16, 24, 24), "axes_dims": (16, 24, 24), "rope_dim": (16, 24, 24)}
_USUAL |= {"downscale_freq_shift": 0, "image_size": 64, "ndim": 2, "index_dims": 64}
_COORDINATES = (3, 2, 1, 4)
# Arguments of functions that a probe gives.
_ASKED = ("end", "seq_len", "length", "max_seq_len", "max_length", *HEIGHTS, *COLUMNS)


def audit(library: str) -> Iterator[Row]:
    """Ask every class and function of a library that computes positions.

    Args:
        library: name of the library or of a package in it, such as ``transformers.models.llama``.

    Yields:
        One row for each, in the order of the sources.

    Raises:
        ValueError: If there is no such library.
    """
    spec = importlib.util.find_spec(library)
    if spec is None:
        raise ValueError(f"there is no library {library!r}; is it installed?")
    for module_name, names in _defining(library, spec):
        try:
            module = importlib.import_module(module_name)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            for name in names:
                yield Row(f"{module_name}.{name}", f"not imported: {brief(error)}", "not built")
            continue
        for name in names:
            made = getattr(module, name, None)
            if getattr(made, "__module__", None) == module_name and callable(made):
                yield from _asked(f"{module_name}.{name}", made, module)


def _defining(library: str, spec: Any) -> Iterator[tuple[str, list[str]]]:
    """Modules that define a class or function of positions, and its names."""
    if not spec.submodule_search_locations:
        files = [(library, Path(spec.origin))]
    else:
        root = Path(next(iter(spec.submodule_search_locations)))
        files = []
        for file in sorted(root.rglob("*.py")):
            parts = file.relative_to(root).with_suffix("").parts
            if not set(parts) & set(_LEFT_OUT) and not parts[-1].startswith(
                ("modular_", "convert")
            ):
                name = ".".join([library, *(part for part in parts if part != "__init__")])
                files.append((name, file))
    for name, file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        found = [
            one
            for one in _DEFINED.findall(text)
            if _CLASS.search(one) and not (_USERS.search(one) or _NO_TABLE.match(one))
        ]
        if found and re.search(r"\b(sin|cos|polar|rope)\b", text):
            yield name, found


def _asked(name: str, made: Any, module: Any) -> Iterator[Row]:
    """Rows of one class, for each type of layers, or of one function."""
    if not inspect.isclass(made):
        if not _NO_TABLE.match(made.__name__):
            yield from _answered(name, _held(_function(made)))
        return
    if not issubclass(made, nn.Module):
        return
    try:
        built = build(made, module)
    except (Exception, SystemExit) as error:
        yield Row(name, f"not built: {brief(error)}", "not built")
        return
    suffix = "_inv_freq"
    layer_types = [
        key.removesuffix(suffix)
        for key, _ in built.named_buffers()
        if key.endswith(suffix) and not key.endswith("original_inv_freq")
    ]
    for layer_type in layer_types or [None]:
        label = name if layer_type is None else f"{name}[{layer_type}]"
        yield from _answered(label, built.eval(), layer_type)


def build(made: type, module: Any, values: Mapping[str, Any] | None = None) -> Any:
    """Build a class from its configuration, or from usual sizes.

    Args:
        made: the class.
        module: the module that defines it.
        values: values of the configuration; None for its defaults.

    Raises:
        ValueError: If an argument has no default and none is usual.
    """
    given: dict[str, Any] = {}
    try:
        hints = typing.get_type_hints(made.__init__)  # type: ignore[misc]
    except Exception:
        hints = {}
    for parameter in list(inspect.signature(made).parameters.values()):
        name, is_given = parameter.name, parameter.default is not parameter.empty
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or is_given:
            continue
        if name.endswith("config") or name in ("args", "cfg"):
            if values is not None:
                kind = hints.get(name)
                own = kind(**values) if inspect.isclass(kind) else types.SimpleNamespace(**values)
                return made(**given, **{name: own})
            return _by_configuration(made, module, hints.get(name), given, name)
        if values is not None and name in values:
            given[name] = values[name]
            continue
        if name not in _USUAL:
            raise ValueError(f"the argument {name!r} has no default")
        given[name] = _USUAL[name]
    return made(**given)


def _by_configuration(
    made: type, module: Any, annotated: Any, given: dict[str, Any], name: str
) -> Any:
    """Build a class from the defaults of its configuration."""
    if inspect.isclass(annotated):
        required = [
            key
            for key, one in inspect.signature(annotated).parameters.items()
            if one.default is one.empty and key in _USUAL
        ]
        own = annotated(**{key: _USUAL[key] for key in required})
        try:
            return made(**given, **{name: own})
        except AttributeError:
            # A composite configuration: its language model has the sizes.
            if not hasattr(own, "get_text_config") or own.get_text_config() is own:
                raise
            return made(**given, **{name: own.get_text_config()})
    near = [
        one for key, one in vars(module).items() if key.endswith("Config") and inspect.isclass(one)
    ]
    reason: Exception = ValueError("no configuration is known")
    for one in near:
        try:
            return made(**given, **{name: one()})
        except Exception as error:
            reason = error
    raise reason


def _held(made: Callable[..., Any]) -> Callable[..., Any]:
    """The module of positions in the model that a function builds; the function if it is none."""
    needed = [p for p in inspect.signature(made).parameters.values() if p.default is p.empty]
    if any(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in needed):
        return made
    try:
        model = made()
    except (Exception, SystemExit):
        return made
    held = model.modules() if isinstance(model, nn.Module) else ()
    return next((one for one in held if _CLASS.search(type(one).__name__)), made)


def _function(made: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose sizes have usual values, as one of positions."""
    parameters = inspect.signature(made).parameters.values()
    fixed = {
        p.name: _USUAL[p.name]
        for p in parameters
        if p.default is p.empty and p.name in _USUAL and p.name not in _ASKED
    }

    def call(*arguments: Any, **given: Any) -> Any:
        return made(*arguments, **fixed, **given)

    rest = [p for p in parameters if p.name not in fixed]
    call.__signature__ = inspect.Signature(rest)  # type: ignore[attr-defined]
    return call


def _answered(name: str, module: Any, layer_type: str | None = None) -> Iterator[Row]:
    """What a module computes: waves of positions, else an encoding of coordinates."""
    try:
        answer = ask(module, layer_type=layer_type)
    except NotAskableError as error:
        found = _of_grid(name, module) or _of_coordinates(name, module)
        yield found or Row(name, f"not asked: {printable(error)}", "not asked")
        return
    except (Exception, SystemExit) as error:
        yield Row(name, f"not asked: {brief(error)}", "not asked")
        return
    table = {}
    if answer.num_axes == 1 and answer.series is not None:
        table = errors(module, answer.bands, answer.measured.scale, layer_type=layer_type)
    yield Row(name, str(answer), "unnamed" if answer.series is None else "named", table)


def _of_grid(name: str, module: Any) -> Row | None:
    """What a module computes of the patches of a grid; None if nothing is found."""
    fixed = module if isinstance(module, nn.Module) else _function(module)
    try:
        for grid in grid_calls(fixed, is_image=False):
            try:
                with evaluated(fixed):
                    match = identify_grid(grid.call(fixed), grid)
            except (Exception, SystemExit):
                continue
            return None if match is None else Row(name, str(match).splitlines()[0], "named")
    except NotAskableError:
        pass
    return None


def _of_coordinates(name: str, module: Any) -> Row | None:
    """What a module computes of coordinates; None if it takes none or nothing is found."""
    own = getattr(module, "in_dim", getattr(module, "input_dim", None))
    for in_dim in (own,) if isinstance(own, int) else _COORDINATES:
        x = 2 * torch.rand(96, in_dim, generator=torch.Generator().manual_seed(0)) - 1
        try:
            with torch.no_grad():
                output = module(x)
            if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != len(x):
                continue
            if not output.is_floating_point() or output.shape[1] > 512:
                continue
            # The second half is compared with what the first half says.
            match = identify(output[:64], positions=x[:64])[0]
        except Exception:
            continue
        if match.is_exact:
            return Row(name, str(match).splitlines()[0], "named")
    return None


def as_text(library: str, rows: list[Row]) -> str:
    """The table as text: what each computes, and its errors.

    Args:
        library: name of the library.
        rows: rows of `audit`.
    """
    titles = [f"{NEAR:,}", f"{FAR:,}", *(name.split()[-1] for name in list(CONDITIONS)[1:])]
    head = ["errors up to:", "    " + "".join(f"{title:<16}" for title in titles).rstrip()]
    lines = []
    for row in rows:
        lines.append(f"{row.name}\n    {row.answer}")
        if row.errors:
            cells = [row.error("as built", NEAR), row.error("as built", FAR)]
            cells += [row.error(condition, NEAR) for condition in list(CONDITIONS)[1:]]
            shown = ("-" if cell is None else f"{cell:.1e}" for cell in cells)
            lines.append("    " + "".join(f"{cell:<16}" for cell in shown).rstrip())
    counts = {
        status: sum(row.status == status for row in rows)
        for status in ("named", "unnamed", "not asked", "not built", "refused")
    }
    asked = counts["named"] + counts["unnamed"]
    summary = (
        f"{library} {release(library)}: {len(rows)} found, {asked} asked, {counts['named']} named, "
        f"{counts['not asked']} not asked, {counts['not built']} not built"
    )
    return "\n".join([*head, *lines, summary])


def as_json(library: str, rows: list[Row]) -> dict[str, Any]:
    """The table as plain values.

    Args:
        library: name of the library.
        rows: rows of `audit`.
    """
    return {
        "library": library,
        "version": release(library),
        "rows": [dataclasses.asdict(row) for row in rows],
    }


def release(library: str) -> str:
    """Version of the distribution that a library is in; empty if it is in none."""
    root = library.partition(".")[0]
    for name in (*importlib.metadata.packages_distributions().get(root, ()), root):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""
