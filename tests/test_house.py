"""Rules of the house that a machine can hold."""

import ast
import subprocess
import sys
from pathlib import Path

import jaxtyping
import pytest
import torch

import nerf_posenc

ROOT = Path(__file__).parent.parent

# From each part of the house to the parts that it may import.
LIBRARY = {"core", "encoders", "positional", "networks", "metrics", "training", "radiance"}
MAY_IMPORT: dict[str, set[str]] = {
    "train_fit": {"app", "scenes", *LIBRARY},
    "app": {"scenes", *LIBRARY},
    "scenes": LIBRARY,
    "nerf_posenc": {"core", "encoders", "positional"},
    "radiance": {"training", "encoders", "metrics", "networks", "core"},
    "training": {"networks", "encoders", "core"},
    "encoders": {"core"},
    "positional": {"core"},
    "networks": {"core"},
    "metrics": set(),
    "core": {"training"},
}

PUBLIC = [
    "DenseGridEncoder",
    "FourierEncoder",
    "FourierLinear",
    "GRID_PRESETS",
    "GaussianEncoder",
    "GridSinusoidalEncoder",
    "HashGridEncoder",
    "LAYOUTS",
    "LearnedFourierEncoder",
    "LearnedPositionEncoder",
    "MemN2NPositionEncoder",
    "OneBlobEncoder",
    "PRESETS",
    "RotaryEncoder",
    "SinCos",
    "SinusoidalEncoder",
    "SphericalHarmonicsEncoder",
    "TemporalEncoder",
    "TriPlaneEncoder",
    "TriangleWaveEncoder",
    "alibi_bias",
    "alibi_slopes",
    "coarse_to_fine_weight",
    "column_labels",
    "column_order",
    "contract",
    "geometric_bands",
    "icosahedron_basis",
    "linear_bands",
    "normalize",
    "ntk_bands",
    "octave_bands",
    "port_linear",
    "ratio_bands",
    "sincos",
    "yarn_bands",
    "yarn_scale",
]


def part(module: str) -> str:
    """Name in ``MAY_IMPORT``."""
    top, *rest = module.split(".")
    return rest[0] if top == "nerf_posenc" and rest else top


def sources() -> dict[str, Path]:
    """Module name of every file of ours."""
    files = [
        ROOT / "train_fit.py",
        *(f for p in ("app", "scenes", "nerf_posenc") for f in ROOT.glob(f"{p}/**/*.py")),
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
        if name.split(".")[0] in ("train_fit", "app", "scenes", "nerf_posenc")
    }


@pytest.mark.parametrize("module", sorted(sources()))
def test_imports_point_one_way(module: str) -> None:
    for imported in imports(sources()[module]):
        if part(imported) not in (part(module), "nerf_posenc"):
            assert part(imported) in MAY_IMPORT[part(module)], f"{module} imports {imported}"


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
        if module.rpartition(".")[2] in ("sinusoids", "sincos", "bands", "mlp"):
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
