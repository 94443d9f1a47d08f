"""English docstrings of the libraries installed here: text, and sentences labeled by library.

Files are parsed, never imported. Chosen parts of torch and numpy are read: all of torch takes
longer than a user would wait, and other parts repeat these nearly word for word.
"""

import ast
import hashlib
import importlib.metadata
import importlib.util
import inspect
import re
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sequences.data.sentences import balanced, sentences
from sequences.data.types import Labeled, LabeledSentences, Text
from sequences.errors import SequenceError

LIBRARIES: dict[str, tuple[str, ...]] = {
    "torch": (
        "_torch_docs.py",
        "autograd",
        "distributions",
        "fft",
        "functional.py",
        "linalg",
        "nn",
        "optim",
        "special",
    ),
    "numpy": ("_core", "fft", "lib", "linalg"),
    "skimage": ("",),
}
"""Files and folders that are read of every library; the empty name is all of it."""

_DISTRIBUTIONS = {"skimage": "scikit-image"}
_INSTALL = "pip install 'nerf_posenc[app]'"
_MAX_BYTES = 1_000_000
_SKIPPED = {"tests", "test", "testing", "conftest.py", "_vendored", "__pycache__"}
_TEST_SHARE = 0.1
_MAX_TRAIN, _MAX_TEST = 3_600, 400
# Functions that attach docstrings to what is written in C; their shorter strings are names.
_ATTACH = re.compile(r"add_docstr\w*|add_newdoc\w*")
_FEWEST_CHARACTERS = 20
_TYPOGRAPHY = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014\u2212", "''\"\"---")


@dataclass(frozen=True)
class _Module:
    library: str
    name: str
    docstrings: tuple[str, ...]

    @property
    def num_characters(self) -> int:
        return sum(map(len, self.docstrings))

    @property
    def hash(self) -> bytes:
        return hashlib.sha256(self.name.encode()).digest()


def open_docstrings() -> Text:
    """Docstrings of torch, numpy and scikit-image in printable ASCII, one document per module.

    Doctests are left out. A docstring that occurs several times is kept once. Whole modules, with
    at most a tenth of every library's characters, are for testing.

    Raises:
        SequenceError: If none of the libraries is installed.
    """
    train, test = _split_modules()
    return Text(
        name="docstrings",
        source=_source(train),
        train=["\n\n".join(module.docstrings) + "\n" for module in train],
        test=["\n\n".join(module.docstrings) + "\n" for module in test],
    )


def open_sources() -> LabeledSentences:
    """Sentences of the docstrings of `open_docstrings`, labeled by library.

    They have 5 to 40 words, in lower case, and lack the names of the libraries. Every label has
    equally many different ones, at most 3,600 for training and 400, of other modules, for testing.
    A sentence that occurs in two libraries is left out.

    Raises:
        SequenceError: If fewer than two of the libraries are installed.
    """
    train, test = _split_modules()
    if len({module.library for module in train}) < 2:
        raise SequenceError(
            f"only {train[0].library} is installed to take sentences of: {_INSTALL}"
        )
    of_train, of_test = _labeled(train), _labeled(test)
    label_of: dict[tuple[str, ...], str | None] = {}
    for label, words in (*of_train, *of_test):
        label_of[words] = label if label_of.get(words, label) == label else None
    trained = {words for _, words in of_train}
    return LabeledSentences(
        name="sources",
        source=f"sentences of the {_source(train)}",
        train=balanced(
            [(label, words) for label, words in of_train if label_of[words]], _MAX_TRAIN
        ),
        test=balanced(
            [
                (label, words)
                for label, words in of_test
                if label_of[words] and words not in trained
            ],
            _MAX_TEST,
        ),
    )


def _labeled(modules: Sequence[_Module]) -> list[Labeled]:
    return [
        (module.library, words)
        for module in modules
        for docstring in module.docstrings
        for words in sentences(docstring)
    ]


def _source(modules: Sequence[_Module]) -> str:
    described = []
    for library in dict.fromkeys(module.library for module in modules):
        name = _DISTRIBUTIONS.get(library, library)
        try:
            described.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            described.append(name)
    return f"docstrings of {', '.join(described)}"


def _split_modules() -> tuple[list[_Module], list[_Module]]:
    """Modules for training and testing; every library is in both unless it has one module."""
    train: list[_Module] = []
    test: list[_Module] = []
    met: set[str] = set()
    for library in LIBRARIES:
        modules = list(_modules(library, met))
        room = _TEST_SHARE * sum(module.num_characters for module in modules)
        tested = set()
        for module in sorted(modules, key=lambda module: module.hash):
            if module.num_characters <= room:
                room -= module.num_characters
                tested.add(module.name)
        if not tested and len(modules) > 1:
            tested = {min(modules, key=lambda module: module.num_characters).name}
        train += [module for module in modules if module.name not in tested]
        test += [module for module in modules if module.name in tested]
    if not train:
        raise SequenceError(
            f"none of {', '.join(LIBRARIES)} is installed to take docstrings of: {_INSTALL}"
        )
    return train, test


def _modules(library: str, met: set[str]) -> Iterator[_Module]:
    """Modules with docstrings that were not met before, sorted by file; none if not installed."""
    root = _folder(library)
    if root is None:
        return
    files = {
        file
        for part in LIBRARIES[library]
        for file in ([root / part] if part.endswith(".py") else (root / part).rglob("*.py"))
    }
    for file in sorted(files):
        parts = file.relative_to(root).with_suffix("").parts
        if _SKIPPED.intersection((*parts, file.name)) or not file.is_file():
            continue
        if file.stat().st_size > _MAX_BYTES:
            continue
        kept = []
        for docstring in module_docstrings(file.read_bytes()):
            if docstring not in met:
                met.add(docstring)
                kept.append(docstring)
        if kept:
            yield _Module(library, ".".join((library, *parts)), tuple(kept))


def _folder(library: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(library)
    except ValueError:
        return None
    locations = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(locations))) if locations else None


def module_docstrings(source: bytes) -> list[str]:
    """Docstrings of a module, its classes and functions, as plain text; none if it has errors.

    Args:
        source: content of a Python file. Docstrings that it attaches by ``add_docstr`` and
            ``add_newdoc`` count too.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    plain = (plain_text(docstring) for docstring in _docstrings(tree))
    return [docstring for docstring in plain if len(docstring) >= _FEWEST_CHARACTERS]


def _docstrings(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        docstring = ast.get_docstring(node)
        if docstring is not None:
            yield docstring
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Call):
            yield from _attached(child.value)
        elif isinstance(child, ast.stmt):
            yield from _docstrings(child)


def _attached(call: ast.Call) -> Iterator[str]:
    """Strings that a call attaches, with fields of templates left out."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if _ATTACH.fullmatch(name) is None:
        return
    for argument in call.args:
        for node in ast.walk(argument):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                template = re.sub(r"(?<!\{)\{\w*\}(?!\})", "", node.value)
                if " " in template:
                    yield inspect.cleandoc(template.replace("{{", "{").replace("}}", "}"))


def plain_text(docstring: str) -> str:
    """Printable ASCII of a docstring, without doctests and their output.

    Accents are dropped; other characters that are not ASCII become question marks.
    """
    lines = []
    in_doctest = False
    for line in docstring.translate(_TYPOGRAPHY).expandtabs().split("\n"):
        stripped = line.strip()
        # The output of a doctest ends at a blank line.
        in_doctest = stripped.startswith((">>>", "...")) or (in_doctest and bool(stripped))
        if not in_doctest:
            lines.append(line.rstrip())
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
    letters = (c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return "".join(c if c == "\n" or " " <= c <= "~" else "?" for c in letters)
