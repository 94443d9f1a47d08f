"""Rules of the code that a machine can check; docs/architecture.md explains them."""

import ast
import functools
import graphlib
import re
import subprocess
import sys
from pathlib import Path

import jaxtyping
import pytest
import torch

import nerf_posenc
from nerf_posenc.core import sincos

ROOT = Path(__file__).parent.parent
PRODUCT = ("nerf_posenc_app", "nerf_posenc")
COMPANION = (
    "nerf_posenc_kinds",
    "nerf_posenc_sequences",
    "nerf_posenc_audit",
    "nerf_posenc_attention",
)
PACKAGES = (*PRODUCT, *COMPANION)
# Modules with sines of no coordinate: bands of spherical harmonics, responses of filters,
# activations of networks.
OTHER_SINES = {f"core.{name}" for name in ("sinusoids", "speed", "bands", "filters")} | {
    f"networks.{name}" for name in ("activations", "implicit")
}


@functools.cache
def may_import() -> dict[str, set[str]]:
    """From each part of the code to those it may import: the table of docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("| code in | may import |")[2].partition("\n\n")[0]
    rows = [row.split("|")[1:3] for row in table.splitlines()[2:]]
    return {
        name: set(re.findall(r"`([^`]+)`", allowed))
        for parts, allowed in rows
        for name in re.findall(r"`([^`]+)`", parts)
    }


@functools.cache
def allowed(name: str) -> set[str]:
    """Parts that a part of the code may import; a part of the program also what the program may."""
    program = may_import()["nerf_posenc_app"] if name.startswith("nerf_posenc_app.") else set()
    return (may_import()[name] | program) - {name}


def part(module: str) -> str:
    """Name in the table: a package of the library, one beside it, or a module with its own row."""
    top, *rest = module.split(".")
    if top == "nerf_posenc" and rest:
        top, *rest = rest
    own = ".".join([top, *rest[:1]])
    return own if own in may_import() else top


@functools.cache
def sources() -> dict[str, Path]:
    """Module name of every file of the product and of its companion."""
    found = {"train_fit": ROOT / "train_fit.py"}
    for root, packages in ((ROOT, PRODUCT), (ROOT / "more", COMPANION)):
        for file in (file for package in packages for file in root.glob(f"{package}/**/*.py")):
            name = ".".join(file.relative_to(root).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = file
    return found


@functools.cache
def tree(module: str) -> ast.Module:
    """Syntax tree of a module."""
    return ast.parse(sources()[module].read_text(encoding="utf-8"))


@functools.cache
def imports(module: str) -> frozenset[str]:
    """Modules of ours that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            name = node.module or ""
            names = {f"{name}.{alias.name}" for alias in node.names}
            found |= {n if n in sources() else name for n in names}
    return frozenset(name for name in found if name.split(".")[0] in ("train_fit", *PACKAGES))


def test_imports_point_one_way() -> None:
    for module in sources():
        for imported in imports(module):
            if part(imported) not in (part(module), "lazy"):
                assert part(imported) in allowed(part(module)), f"{module} imports {imported}"


def test_no_part_imports_one_above_it() -> None:
    graphlib.TopologicalSorter({name: allowed(name) for name in may_import()}).prepare()


def test_no_modules_import_each_other() -> None:
    graphlib.TopologicalSorter({module: imports(module) for module in sources()}).prepare()


def test_the_companion_uses_public_names_of_the_product() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition("## Public modules of the program")[2].partition("\n## ")[0]
    public = {f"nerf_posenc_app.{name}" for name in re.findall(r"^\| `([\w.]+)`", section, re.M)}
    assert public
    for module in sources():
        if module.split(".")[0] not in COMPANION:
            continue
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PRODUCT:
                names = [alias.name for alias in node.names]
                assert not any(name.startswith("_") for name in names), f"{module}: {names}"
                used = node.module or ""
                is_private = used.startswith("nerf_posenc_app") and used not in public
                is_data = used.startswith("nerf_posenc_app.data.")
                assert is_data or not is_private, f"{module} uses {used}"


def test_no_function_sets_the_seed_of_all_of_torch() -> None:
    for module, file in sources().items():
        text = file.read_text(encoding="utf-8")
        assert "torch.manual_seed" not in text, f"{module} seeds torch's own generator"
        handles = "signal.signal" in text
        assert not handles or module == "nerf_posenc_app.runs.signals", f"{module} handles signals"


def test_every_exported_name_is_documented() -> None:
    exported = set(nerf_posenc.__all__)
    pages = [p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "api").glob("*.md")]
    assert exported <= set(re.findall(r"^::: nerf_posenc\.(\w+)$", "\n".join(pages), re.MULTILINE))


def test_sines_are_computed_in_the_core_alone() -> None:
    for module in sources():
        if module.removeprefix("nerf_posenc.") in OTHER_SINES:
            continue
        for node in ast.walk(tree(module)):
            # A learning-rate schedule may take its one cosine from math.
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) != "math":
                assert node.attr not in ("sin", "cos", "sin_", "cos_"), f"{module} takes a sine"


def test_wrong_shapes_are_refused_by_the_run_time_checks(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--jaxtyping-packages"):
        pytest.skip("shapes and types are checked in CI; see .ci/run")
    with pytest.raises(jaxtyping.TypeCheckError):
        sincos(torch.zeros(4, 3), torch.zeros(4, 3, dtype=torch.long))


def alone(script: str) -> str:
    """What a script prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_one_encoder_loads_no_other() -> None:
    script = (
        "import sys; from nerf_posenc import FourierEncoder; "
        "print(*(name for name in sys.modules if name.startswith('nerf_posenc')))"
    )
    loaded = alone(script).split()
    others = {name for name in loaded if name.startswith("nerf_posenc.encoders.")}
    assert others == {"nerf_posenc.encoders.fourier"}
    assert not any(name.startswith(("nerf_posenc_attention", "nerf_posenc.tr")) for name in loaded)


def test_an_image_loads_no_other_kind(tmp_path: Path) -> None:
    arguments = ["--image", "cat", "--size", "8", "--steps", "1", "--quiet", "--video", "0"]
    script = (
        "import sys, train_fit\n"
        f"assert train_fit.main({[*arguments, '--out', str(tmp_path / 'run')]!r}) == 0\n"
        "print(*sys.modules)"
    )
    loaded = alone(script).split()
    assert not [name for name in loaded if name.split(".")[0] in COMPANION]
    others = ("nerf_posenc_app.kinds.scene", "nerf_posenc_app.kinds.sequence", "nerf_posenc.rad")
    assert not [name for name in loaded if name.startswith(others)]


@pytest.mark.slow
def test_every_module_of_the_library_imports_with_torch_and_numpy_alone() -> None:
    # All other packages are hidden, as in an environment where the library is installed alone.
    script = """
import importlib, importlib.abc, pkgutil, sys
import numpy, torch
import torch.optim.swa_utils, torch.func
torch.optim.Adam([torch.zeros(1)])

HIDDEN = {
    "skimage", "imageio", "PIL", "matplotlib", "tqdm", "jinja2", "tifffile", "jaxtyping",
    "imagecodecs", "sacrebleu", "pycolmap", "scipy", "beartype", "safetensors",
    "nerf_posenc_app", "scenes", "nerf_posenc_audit",
}

class Hide(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"hidden: {name}", name=name)

for name in [name for name in sys.modules if name.split(".")[0] in HIDDEN]:
    del sys.modules[name]
sys.meta_path.insert(0, Hide())
import nerf_posenc
for name in nerf_posenc.__all__:
    getattr(nerf_posenc, name)
names = [m.name for m in pkgutil.walk_packages(nerf_posenc.__path__, "nerf_posenc.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""
    assert int(alone(script)) == sum(m.startswith("nerf_posenc.") for m in sources())


def test_actions_are_named_by_their_commits() -> None:
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        for used in re.findall(r"uses: (\S+)", file.read_text(encoding="utf-8")):
            assert re.fullmatch(r"\./.*|[\w/.-]+@[0-9a-f]{40}", used), f"{file.name}: {used}"
