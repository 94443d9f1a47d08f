"""House rules that a machine can check."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import jaxtyping
import pytest
import torch

import nerf_posenc

ROOT = Path(__file__).parent.parent

# From each part of the house to the parts that it may import.
LIBRARY = {
    "core",
    "encoders",
    "positional",
    "identification",
    "networks",
    "images",
    "interpolation",
    "metrics",
    "training",
}
MAY_IMPORT: dict[str, set[str]] = {
    "train_fit": {"app", "scenes", "sequences"},
    "app": {"nerf_posenc", "fits", "radiance", "analysis", *LIBRARY},
    "scenes": {"radiance", "images"},
    "sequences": {"nerf_posenc", "training", "positional"},
    "nerf_posenc": {"core", "encoders", "positional", "identification"},
    "identification": {"core", "encoders", "positional"},
    "analysis": LIBRARY - {"positional", "identification"},
    "fits": {"radiance", "training", "core"},
    "radiance": LIBRARY - {"positional", "identification"},
    "training": {"networks", "encoders", "core", "images"},
    "encoders": {"core"},
    "positional": {"core"},
    "networks": {"core", "images"},
    "metrics": {"images"},
    "images": set(),
    "interpolation": {"images"},
    "core": set(),
}
MAX_MODULE_LINES = 300
MAX_BODY_LINES = 50

PUBLIC = [
    "CameraTransforms",
    "DenseGridEncoder",
    "FireBias",
    "FourierEncoder",
    "FourierLinear",
    "FourierSeriesRotaryEncoder",
    "GRID_PRESETS",
    "GaussianEncoder",
    "GridSinusoidalEncoder",
    "HashGridEncoder",
    "IntegratedDirectionalEncoder",
    "KPlanesEncoder",
    "KerpleBias",
    "LAYOUTS",
    "LearnedFourierEncoder",
    "LearnedGridEncoder",
    "LearnedPositionEncoder",
    "LogCPBBias",
    "Match",
    "MemN2NPositionEncoder",
    "MixedRotaryEncoder",
    "OneBlobEncoder",
    "PRESETS",
    "PRoPEEncoder",
    "Port",
    "ROTARY_PRESETS",
    "RotaryEncoder",
    "SinCos",
    "SinusoidalEncoder",
    "Sphere2VecEncoder",
    "SphericalHarmonicsEncoder",
    "T5RelativeBias",
    "TemporalEncoder",
    "Time2VecEncoder",
    "TriPlaneEncoder",
    "TriangleWaveEncoder",
    "VectorMatrixEncoder",
    "XPosEncoder",
    "alibi_bias",
    "alibi_slopes",
    "augmented_positions",
    "coarse_to_fine_weight",
    "column_labels",
    "column_order",
    "contract",
    "contract_gaussian",
    "directions_from_degrees",
    "dynamic_ntk_bands",
    "equal_earth",
    "geometric_bands",
    "grid_positions",
    "icosahedron_basis",
    "identify",
    "linear_bands",
    "llama3_bands",
    "longrope_bands",
    "longrope_scale",
    "mrope_axes",
    "normalize",
    "ntk_bands",
    "octave_bands",
    "p_rope_bands",
    "patch_centers",
    "period_bands",
    "plucker_rays",
    "port_linear",
    "port_module",
    "port_rotary",
    "ratio_bands",
    "sincos",
    "transformed_by_camera",
    "uncontract",
    "yarn_bands",
    "yarn_scale",
]


def part(module: str) -> str:
    """Name in ``MAY_IMPORT``."""
    top, *rest = module.split(".")
    return rest[0] if top == "nerf_posenc" and rest else top


@functools.cache
def sources() -> dict[str, Path]:
    """Module name of every file of the library, the program and the scenes."""
    files = [
        ROOT / "train_fit.py",
        *(
            f
            for p in ("app", "scenes", "sequences", "nerf_posenc")
            for f in ROOT.glob(f"{p}/**/*.py")
        ),
    ]
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for file in files
    }


def imports(file: Path) -> set[str]:
    """Modules of ours that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            module = node.module or ""
            names = {f"{module}.{alias.name}" for alias in node.names}
            found |= {name if name in sources() else module for name in names}
    return {
        name
        for name in found
        if name.split(".")[0] in ("train_fit", "app", "scenes", "sequences", "nerf_posenc")
    }


@pytest.mark.parametrize("module", sorted(sources()))
def test_imports_point_one_way(module: str) -> None:
    for imported in imports(sources()[module]):
        if part(imported) != part(module):
            assert part(imported) in MAY_IMPORT[part(module)], f"{module} imports {imported}"


@pytest.mark.parametrize("module", sorted(sources()))
def test_modules_and_functions_are_short(module: str) -> None:
    if ".kernels." in module:
        pytest.skip("a Triton kernel is one function with its launch code")
    text = sources()[module].read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_MODULE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            has_docstring = ast.get_docstring(node) is not None
            body = node.body[1:] if has_docstring else node.body
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            assert lines <= MAX_BODY_LINES, f"{node.name} has {lines} lines"


def test_no_function_sets_the_seed_of_all_of_torch() -> None:
    for module, file in sources().items():
        text = file.read_text(encoding="utf-8")
        assert "torch.manual_seed" not in text, f"{module} seeds torch's own generator"
        handles = "signal.signal" in text
        assert not handles or module in ("app.cli", "train_fit"), f"{module} handles signals"


def test_the_public_surface_is_the_promised_one() -> None:
    exported = {
        name
        for name, value in vars(nerf_posenc).items()
        if not name.startswith("_") and not isinstance(value, type(sys))
    }
    assert sorted(exported) == PUBLIC


def test_sines_are_computed_in_the_core_alone() -> None:
    for module, file in sources().items():
        # A network's own activation is a sine too, but of no coordinate.
        if module.rpartition(".")[2] in ("_evaluate", "sincos", "bands", "activations", "implicit"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            # A learning-rate schedule may take its one cosine from math.
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) != "math":
                assert node.attr not in ("sin", "cos", "sin_", "cos_"), f"{module} takes a sine"


def test_wrong_shapes_are_refused_by_the_run_time_checks() -> None:
    # The canary: if this passes no error, the checks that all other tests run under are off.
    with pytest.raises(jaxtyping.TypeCheckError):
        nerf_posenc.sincos(torch.zeros(4, 3), torch.zeros(4, 3, dtype=torch.long))


def test_importing_an_encoder_needs_torch_and_numpy_alone() -> None:
    script = (
        "import sys, torch\n"
        "before = {name.split('.')[0] for name in sys.modules}\n"
        "from nerf_posenc import FourierEncoder, SinusoidalEncoder\n"
        "FourierEncoder(2)(torch.rand(3, 2)); SinusoidalEncoder(4).table(3)\n"
        "new = {name.split('.')[0] for name in sys.modules} - before\n"
        "print(*sorted(new - set(sys.stdlib_module_names)))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(finished.stdout.split()) <= {"jaxtyping", "nerf_posenc", "numpy", "wadler_lindig"}


@pytest.mark.slow
def test_every_module_of_the_wheel_imports_with_torch_numpy_and_jaxtyping_alone() -> None:
    # All other packages are hidden, as in an environment where the wheel is installed alone.
    script = """
import importlib, importlib.abc, pkgutil, sys
import jaxtyping, numpy, torch
import torch.optim.swa_utils, torch.func
torch.optim.Adam([torch.zeros(1)])

HIDDEN = {
    "triton", "skimage", "imageio", "PIL", "matplotlib", "tqdm", "tyro", "jinja2", "tifffile",
    "png", "sacrebleu", "viser", "pycolmap", "scipy", "beartype", "app", "scenes", "sequences",
}

class Hide(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"hidden: {name}", name=name)

for name in [name for name in sys.modules if name.split(".")[0] in HIDDEN]:
    del sys.modules[name]
sys.meta_path.insert(0, Hide())
import nerf_posenc
names = [m.name for m in pkgutil.walk_packages(nerf_posenc.__path__, "nerf_posenc.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""
    finished = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert int(finished.stdout) == sum(m.startswith("nerf_posenc.") for m in sources())
