"""Every encoding of this library by the names of the models and libraries that have it."""

import difflib
import functools
import importlib
import inspect
import re
import unicodedata
from dataclasses import dataclass

from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.encoders.sinusoidal_grid import GridSinusoidalEncoder
from nerf_posenc.presets import Preset
from nerf_posenc_attention.rotary import RotaryEncoder
from nerf_posenc_attention.rotary_config import rotating_types
from nerf_posenc_audit.catalog.equivalents import SECTIONS
from nerf_posenc_audit.catalog.presets import PRESETS, encoder_of

# Modules whose exported classes and functions are searched by the text of their docstrings.
_PACKAGES = (
    "nerf_posenc",
    "nerf_posenc.core",
    "nerf_posenc.encoders",
    "nerf_posenc_attention",
    "nerf_posenc.networks",
)
# Presets that need three axes; all others take any number.
_THREE_AXES = ("cogvideox-sincos", "prithvi")


_FROM_CONFIG = 'RotaryEncoder.from_config("config.json")'
_FUNCTIONAL = "from torch.nn import functional as F"


@dataclass(frozen=True)
class Found:
    """An encoding and the line of code that makes it.

    Attributes:
        name: preset, model or class.
        line: line of Python that makes the encoding.
        also: other names of the same.
        about: source in the library, and what to watch out for.
    """

    name: str
    line: str
    also: tuple[str, ...] = ()
    about: str = ""


# What the subject calls its encodings, before all that models call them.
_SUBJECT = (
    Found(
        "sinusoidal, positional encoding of the Transformer",
        "SinusoidalEncoder(512).table(100)",
        also=("positional embedding", "position embedding", "attention is all you need"),
        about="Vaswani et al. 2017: a fixed function of the position.",
    ),
    Found(
        "learned, positional embedding",
        "LearnedPositionEncoder(512, 768).table(100)",
        also=("nn.Embedding", "trained positional embedding", "positional encoding of BERT"),
        about="Gehring et al. 2017; Devlin et al. 2019: a trained table of positions.",
    ),
    Found(
        "positional encoding of NeRF",
        "FourierEncoder(3, 10)",
        also=("Fourier features of coordinates", "neural radiance field"),
        about="Mildenhall et al. 2020: sines and cosines of 2^k pi x.",
    ),
    Found(
        "rotary positional embedding",
        "RotaryEncoder(128)",
        also=("RoPE", "rotary", "positional encoding by rotation"),
        about="Su et al. 2021: queries and keys rotated by their position.",
    ),
)
# Names that people type, of models and methods that have the encoding of another row.
_TYPED = {
    "mrope; m-rope": 'RotaryEncoder.preset("qwen2-vl-text")',
    "2d rope; axial rope; vision rope; rope 2d": "RotaryEncoder(64, 2)",
    "3d rope; video rope": "RotaryEncoder(96, 3)",
    "position interpolation; linear scaling": (
        'RotaryEncoder(128, frequencies=geometric_bands(64) / 4, pairing="half")'
    ),
    "pythia": 'RotaryEncoder.preset("gpt-neox")',
    "phi-4; code llama; llama 3.2; ministral; smollm": _FROM_CONFIG,
    "i-jepa; ijepa": 'preset("mae", 1280)',
    "dino; depth anything; depth anything v2": (
        "LearnedGridEncoder.from_table(table, trained_shape).table(shape)"
    ),
    "triplane; tri-plane": 'KPlanesEncoder(3, 32, resolution=256, reduce="sum")',
    "chatglm; chatglm2; chatglm3": "RotaryEncoder(128, axis_dims=(64,))",
    "deit; openclip": "LearnedPositionEncoder(197, 768).table(197)",
    "gpt-2; gpt2": "LearnedPositionEncoder(1024, 768).table(1024)",
    "opt": "LearnedPositionEncoder(2050, 768).table(2048)[2:]",
    "roberta": "LearnedPositionEncoder(514, 768).table(514)[2:]",
    "time embedding; timestep embedding": "SinusoidalEncoder.timestep(256)",
    "gsplat; 3dgs; gaussian splatting": "SphericalHarmonicsEncoder(4)",
    "siren": "siren(2, 3)",
    "finer": "finer(2, 3)",
    "wire": "wire(2, 3)",
    "ingp; instant neural graphics primitives": "HashGridEncoder(3)",
}


@functools.cache
def index() -> tuple[Found, ...]:
    """All presets, lines for what is no preset, and exported classes and functions."""
    presets = []
    for name, row in PRESETS.items():
        about = f"{row.source}. {row.note}".strip()
        # An alias with its own width gets its own line of code.
        presets += [
            Found(
                alias,
                f'RotaryEncoder.preset("{alias}")',
                about=f'RotaryEncoder.preset("{name}") at the width of the model.',
            )
            for alias in getattr(row, "dims", ())
        ]
        also = tuple(alias for alias in row.aliases if alias not in getattr(row, "dims", ()))
        presets.append(Found(name, _line(name, row), also, about))
    rows = [row for section in SECTIONS.values() for row in section]
    lines = [Found(row.what, row.code) for row in rows]
    classes: dict[str, Found] = {}
    for package in _PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if name[0] != "_" and callable(value) and name not in classes:
                about = inspect.getdoc(value) or ""
                line = f"from {package} import {name}"
                classes[name] = Found(name, line, about=about.partition("\n\nArgs:")[0])
    typed = [
        Found(name, line, tuple(also))
        for names, line in _TYPED.items()
        for name, *also in (names.split("; "),)
    ]
    configs = [
        Found(name.removesuffix("_text"), _FROM_CONFIG, about="Read from the model's own file.")
        for name in rotating_types()
    ]
    return (*_SUBJECT, *typed, *presets, *lines, *configs, *classes.values())


def find_encodings(text: str) -> list[Found]:
    """Find the line of code for a model, a library or a method.

    Args:
        text: name in any case, with any or no dashes, as ``rtdetr`` or ``"sam 2"``.

    Returns:
        What has all of the text as whole words in its name, then names with a word that begins with
        it, then what has it in what is said of it. Empty if there is none: a model of another
        version or size may have another encoding, so that nothing is found for ``"olmo3"`` by
        ``olmo``; see `find_shorter`.

    Examples:
        >>> find_encodings("dust3r")[0].line
        'RotaryEncoder.preset("croco")'
        >>> find_encodings("geoclip")[0].name
        'GeoCLIP, random features of sigma 16 on the Equal Earth projection'
    """
    return [found for _, found in _ranked("".join(_words(text)))]


def begins_others(text: str) -> bool:
    """Whether a text is only the beginning of names, as ``v-jepa`` of ``vjepa2``."""
    return min((rank for rank, _ in _ranked("".join(_words(text)))), default=0) == _BEGINNING


def find_shorter(text: str) -> tuple[str, list[Found]]:
    """Find what a name has without its last words and digits, which may be another encoding.

    Args:
        text: name that `find_encodings` has not found.

    Returns:
        The longest beginning of the name that is a whole word of other names, and what has it;
        an empty text and nothing if there is none.

    Examples:
        >>> shorter, found = find_shorter("olmo3")
        >>> shorter, found[0].line
        ('olmo', 'RotaryEncoder.preset("llama")')
    """
    ends = [match.end() for match in re.finditer(r"[a-z]+|\d+", text.lower())]
    # Of ViT-B/16 these are "vit b", "vit"; of Wan2.1 "wan2", "wan".
    for shorter in (text[:end].strip().lower() for end in reversed(ends[:-1])):
        wanted = "".join(_words(shorter))
        found = [each for _, each in _ranked(wanted) if _names_version(wanted, each)]
        if found and len(wanted) > 2:
            return shorter, found
    return "", []


def _names_version(wanted: str, found: Found) -> bool:
    """Whether a name is the text, or goes on after it with no letters but versions and sizes."""
    return any(re.fullmatch(rf"{wanted}(v?\d+[bm]?)*", name) for name in _models(found))


def _models(found: Found) -> list[str]:
    """Names without spaces; some rows are of several models: "ViT, CLIP: learned positions"."""
    parts = [part for name in (found.name, *found.also) for part in re.split(r"[,;:(]", name)]
    return ["".join(_words(part)) for part in parts]


def _ranked(wanted: str) -> list[tuple[int, Found]]:
    """Matches of a text without spaces, with their ranks."""
    # A size, as 7b, tells no model.
    if not wanted or re.fullmatch(r"[\d.]+[bmk]?", wanted):
        return []
    ranked = [(_rank(wanted, found), found) for found in index()]
    return sorted((row for row in ranked if row[0] < _NOT_FOUND), key=lambda row: row[0])


def imports_of(code: str) -> list[str]:
    """Statements that import what a line of code has.

    Args:
        code: line of an encoding.

    Examples:
        >>> imports_of("RotaryEncoder(64, frequencies=ntk_bands(64, base=1e4, factor=4.0))")
        ['from nerf_posenc_attention import RotaryEncoder, ntk_bands']
    """
    if code.startswith("from "):
        return []
    # Not in texts, as of preset("siren").
    names_alone = re.sub(r"\"[^\"]*\"|'[^']*'", "", code)
    words = sorted(set(re.findall(r"(?<![.\w])[A-Za-z]\w*", names_alone)))
    parts = [importlib.import_module(package) for package in _PACKAGES]
    others = {"pi": "from math import pi", "torch": "import torch", "F": _FUNCTIONAL}
    statements = [others[word] for word in others if word in words]
    for part in parts:
        names = [word for word in words if word in part.__all__]
        words = [word for word in words if word not in names]
        if names:
            statements.append(f"from {part.__name__} import {', '.join(names)}")
    return statements


def similar_names(text: str) -> list[str]:
    """Names of the index that are spelled like a text."""
    names = [name for found in index() for name in (found.name.lower(), *found.also)]
    return difflib.get_close_matches(text.lower(), names, n=3, cutoff=0.7)


# Ranks of names that only begin with a text, and of what does not have it.
_BEGINNING, _NOT_FOUND = 2, 4


def _rank(wanted: str, found: Found) -> int:
    """0 for a name itself, 1 for whole words in names, 2 for parts of names, 3 for the text."""
    names = [_words(name) for name in (found.name, *found.also)]
    # A longer name that begins alike, as Wav2Vec2-Conformer, is another model's.
    about = ["".join(_words(each)) for each in re.findall(r"[A-Za-z0-9-]+", found.about)]
    if wanted in _models(found):
        return 0
    if any(_contains(wanted, words, whole=True) for words in names):
        return 1
    if any(_contains(wanted, words, whole=False) for words in names):
        return 2
    return 3 if _contains(wanted, about, whole=True) else _NOT_FOUND


def _contains(wanted: str, words: list[str], *, whole: bool) -> bool:
    """Whether adjacent words, joined, are or begin with what is wanted."""
    for first in range(len(words)):
        joined = ""
        for word in words[first:]:
            joined += word
            if joined == wanted or (not whole and joined.startswith(wanted)):
                return True
            if len(joined) >= len(wanted):
                break
    return False


def _words(text: str) -> list[str]:
    """Letters, digits and plus signs of a text, word by word, without accents."""
    plain = unicodedata.normalize("NFKD", text.lower())
    return re.findall(r"(?:[^\W_]|\+)+", re.sub(r"[\u0300-\u036f]", "", plain))


def _line(name: str, row: Preset) -> str:
    """The line that makes a preset, at usual sizes where it has none."""
    encoder = encoder_of(name)
    if encoder is RotaryEncoder:
        return f'RotaryEncoder.preset("{name}")'
    if encoder is FourierEncoder:
        basis = row.arguments.get("basis")
        in_dim = 3 if basis is None else basis.shape[1]
        own = "num_bands" in row.arguments
        bands = (
            ""
            if own
            else ", frequencies=bands"
            if row.arguments.get("frequencies", 0) is None
            else ", 10"
        )
        return f'preset("{name}", {in_dim}{bands})'
    axes = ", 3" if name in _THREE_AXES else ""
    return f'preset("{name}", {768 if encoder is GridSinusoidalEncoder else 512}{axes})'
