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

# Each module may import from the layers below its own, and within its own family.
LAYERS = (
    {"train_fit"},
    {"commands"},
    {"scenes"},
    {"nerf_posenc", "nerf_posenc.live"},
    {"nerf_posenc.picture_trials", "nerf_posenc.scene_trials"},
    {"nerf_posenc.filming", "nerf_posenc.sigma", "nerf_posenc.training"},
    {"nerf_posenc.radiance", "nerf_posenc.report", "nerf_posenc.stacks"},
    {
        "nerf_posenc.first_layer",
        "nerf_posenc.porting",
        "nerf_posenc.recipes",
        "nerf_posenc.rendering",
        "nerf_posenc.schemes",
    },
    {"nerf_posenc.fields", "nerf_posenc.views"},
    {
        "nerf_posenc.blobs",
        "nerf_posenc.directions",
        "nerf_posenc.fitting",
        "nerf_posenc.fourier",
        "nerf_posenc.gaussian",
        "nerf_posenc.grids",
        "nerf_posenc.learned",
        "nerf_posenc.networks",
        "nerf_posenc.planes",
        "nerf_posenc.rotary",
        "nerf_posenc.sequence",
        "nerf_posenc.spaces",
        "nerf_posenc.volume",
    },
    {
        "nerf_posenc.optimizers",
        "nerf_posenc.interpolation",
        "nerf_posenc.presets",
        "nerf_posenc.rays",
        "nerf_posenc.sinusoids",
    },
    {
        "nerf_posenc.bands",
        "nerf_posenc.layouts",
        "nerf_posenc.metrics",
        "nerf_posenc.orbit",
    },
    {"nerf_posenc._triton_linear"},
    {"nerf_posenc._triton", "nerf_posenc.checks", "nerf_posenc.devices", "nerf_posenc.widths"},
)

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


def family(module: str) -> str:
    """Name in ``LAYERS``: ``scenes``, ``commands``, ``train_fit`` or ``nerf_posenc.<module>``."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "nerf_posenc" else parts[0]


def layer(module: str) -> int:
    """Place in ``LAYERS``, 0 being the top."""
    return next(i for i, modules in enumerate(LAYERS) if family(module) in modules)


def sources() -> dict[str, Path]:
    """Module name of every file of ours."""
    files = [
        ROOT / "train_fit.py",
        *(f for p in ("commands", "scenes", "nerf_posenc") for f in ROOT.glob(f"{p}/**/*.py")),
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
        if name.split(".")[0] in ("train_fit", "commands", "scenes", "nerf_posenc")
    }


@pytest.mark.parametrize("module", sorted(sources()))
def test_imports_point_down(module: str) -> None:
    for imported in imports(sources()[module]):
        if family(imported) != family(module):
            assert layer(imported) > layer(module), f"{module} imports {imported}"


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
        if module.rpartition(".")[2] in ("sinusoids", "_triton", "bands", "networks"):
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
