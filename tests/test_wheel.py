"""The wheels: what they hold, what an installation changes, and what other distributions add."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.own_packages import require_both_importable
from tests.small import code_of_docs

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def run(*words: object, cwd: Path) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": "", "PYTHONSAFEPATH": "1", "MPLBACKEND": "agg"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(project: Path, folder: Path) -> Path:
    """The wheel of a project."""
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, project, cwd=folder)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


def stub(folder: Path, name: str, version: str) -> None:
    """A wheel that is empty but for its name and version."""
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        lines = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        file.writestr(f"{about}/METADATA", lines)
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        file.writestr(f"{about}/RECORD", "")


def environment(folder: Path) -> Path:
    """A new virtual environment; returns its folder of programs."""
    venv.create(folder, with_pip=True)
    return folder / "bin"


@pytest.mark.parametrize(
    ("project", "packages"),
    [
        (ROOT, ["nerf_posenc", "nerf_posenc_app"]),
        (
            ROOT / "more",
            [
                "nerf_posenc_attention",
                "nerf_posenc_audit",
                "nerf_posenc_kinds",
                "nerf_posenc_sequences",
            ],
        ),
    ],
    ids=["product", "companion"],
)
def test_a_wheel_holds_its_packages_and_nothing_else(
    project: Path, packages: list[str], tmp_path: Path
) -> None:
    file = built(project, tmp_path)
    with zipfile.ZipFile(file) as opened:
        names = opened.namelist()
    # Templates and stubs as well; nothing that a test or a compiler has left.
    ours = {
        path.relative_to(project).as_posix()
        for package in packages
        for path in (project / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    held = {name for name in names if ".dist-info/" not in name}
    if project == ROOT:
        scenes = (file for file in (ROOT / "scenes").iterdir() if file.is_file())
        ours |= {"train_fit.py", *(f"nerf_posenc_app/scenes/{file.name}" for file in scenes)}
    assert held == ours
    # Type checkers read the annotations of every package.
    assert {f"{package}/py.typed" for package in packages} <= held


@pytest.mark.parametrize("order", ["ours first", "theirs first"])
@pytest.mark.parametrize("has_init", [True, False])
def test_packages_of_the_users_project_are_left_alone(
    order: str, has_init: bool, wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(tmp_path / "site")
    require_both_importable(tmp_path / "project", order, tmp_path / "site", has_init=has_init)


def test_a_clone_that_is_installed_runs_its_own_files(tmp_path: Path) -> None:
    # Not a copy of the day of its installation.
    script = (
        "import train_fit as t, nerf_posenc_app as a, nerf_posenc as n; "
        "print(t.__file__, a.__file__, n.__file__)"
    )
    files = run(sys.executable, "-c", script, cwd=tmp_path).split()
    assert [Path(file).relative_to(ROOT).parts[0] for file in files] == [
        "train_fit.py",
        "nerf_posenc_app",
        "nerf_posenc",
    ]
    # And its other folders are no packages of the environment.
    script = (
        "from importlib.util import find_spec; "
        "others = ('tests', 'docs', 'examples', 'scenes', 'more'); "
        "print([name for name in others if find_spec(name)])"
    )
    assert run(sys.executable, "-c", script, cwd=tmp_path) == "[]\n"


def test_the_command_of_a_bare_installation_ends_with_one_line(wheel: Path, tmp_path: Path) -> None:
    programs = environment(tmp_path / "env")
    run(programs / "python", "-m", "pip", "install", "-q", "--no-deps", wheel, cwd=tmp_path)
    done = subprocess.run(
        [programs / "nerf-posenc", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1
    assert "needs imageio: pip install" in done.stderr


def test_an_installation_leaves_the_torch_and_the_numpy_that_are_there(
    wheel: Path, tmp_path: Path
) -> None:
    for name, version in {"torch": "2.4.1", "numpy": "1.26.0"}.items():
        stub(tmp_path, name, version)
    for name, version in {"torch": "2.15.0", "numpy": "2.5.0"}.items():
        stub(tmp_path, name, version)
    programs = environment(tmp_path / "env")
    pip = (
        programs / "python",
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--find-links",
        tmp_path,
    )
    run(*pip, "torch==2.4.1", "numpy==1.26.0", cwd=tmp_path)
    run(*pip, wheel, cwd=tmp_path)
    listed = run(programs / "python", "-m", "pip", "list", "--format", "freeze", cwd=tmp_path)
    assert {"torch==2.4.1", "numpy==1.26.0"} <= set(listed.split())
    # And the line of the README is this one, without the constraints of the clone.
    assert "\npip install .\n" in (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of programs of an environment with the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("env")
    programs = environment(folder)
    run(programs / "python", "-m", "pip", "install", "-q", "--no-deps", wheel, cwd=folder)
    # What it needs is that of this environment.
    (site,) = folder.glob("lib/*/site-packages")
    (site / "needs.pth").write_text(sysconfig.get_path("purelib"))
    return programs


def test_the_notebook_runs_with_the_wheel_alone(installed: Path, tmp_path: Path) -> None:
    # Its cells as a script, where no clone is.
    source = tmp_path / "tutorial.py"
    shutil.copy(ROOT / "docs" / "notebooks" / "tutorial.py", source)
    said = run(installed / "python", source, cwd=tmp_path)
    assert "equal to the bit: True" in said


def test_the_program_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    programs, here = installed, tmp_path
    few = ["--steps", "3", "--width", "8", "--depth", "1", "--size", "32", "--video", "0"]
    said = run(programs / "nerf-posenc", "fit", "--image", "cat", *few, "--out", "run", cwd=here)
    assert "wrote run/" in said
    run(programs / "nerf-posenc", "render", "run", "--scale", "2", cwd=here)
    assert list((here / "run" / "renders").iterdir())
    assert "usage: nerf-posenc" in run(programs / "nerf-posenc", "--help", cwd=here)
    script = (
        "from nerf_posenc_app import fit\n"
        "run = fit(image='cat', size=32, steps=3, width=8, depth=1, video=0, quiet=True)\n"
        "import nerf_posenc_app\n"
        "print(run.scores['fourier']['psnr_db'], nerf_posenc_app.__file__)\n"
    )
    said = run(programs / "python", "-c", script, cwd=here)
    assert "/site-packages/nerf_posenc_app/" in said


PLUGIN = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "stranger"
version = "1.0"
[project.entry-points."nerf_posenc.kinds"]
signal = "stranger.signal:SignalKind"
[project.entry-points."nerf_posenc.commands"]
count = "stranger.extras:count"
[tool.hatch.build.targets.wheel]
only-include = ["stranger"]
""",
    "stranger/__init__.py": "",
    "stranger/signal.py": code_of_docs("SignalKind"),
    "stranger/extras.py": """
def count(*, up_to: int = 3) -> int:
    '''Count.

    Args:
        up_to: The last number.
    '''
    print(*range(1, up_to + 1))
    return 1
""",
}


def test_a_kind_and_a_command_of_a_stranger_work_with_all_that_ours_get(
    installed: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    for name, text in PLUGIN.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    # An environment of its own, so that what is added here is not there for others.
    programs = environment(tmp_path / "env")
    (site,) = (tmp_path / "env").glob("lib/*/site-packages")
    others = next(installed.parent.glob("lib/*/site-packages"))
    (site / "needs.pth").write_text(f"{others}\n{sysconfig.get_path('purelib')}")
    run(programs / "python", "-m", "pip", "install", "-q", "--no-deps", project, cwd=tmp_path)
    program = [programs / "python", "-m", "train_fit"]
    np.save(tmp_path / "signal.npy", np.linspace(0, 1, 64))
    few = ["--signal", "signal.npy", "--width", "8", "--depth", "1", "--quiet"]
    run(*program, *few, "--out", "one", cwd=tmp_path)
    metrics = json.loads((tmp_path / "one" / "metrics.json").read_text())
    assert [fit["name"] for fit in metrics["fits"]] == ["none", "fourier"]
    assert metrics["data"]["kind"] == "signal"
    # Resumed: the fits are there, and the page is written again.
    (tmp_path / "one" / "metrics.json").unlink()
    run(*program, "--resume", "one", cwd=tmp_path)
    again = json.loads((tmp_path / "one" / "metrics.json").read_text())
    assert [f["psnr_db"] for f in again["fits"]] == [f["psnr_db"] for f in metrics["fits"]]
    run(*program, *few, "--seed", "1", "--out", "two", cwd=tmp_path)
    run(*program, "compare", "one", "two", "--out", "both.html", cwd=tmp_path)
    assert "two: fourier" in (tmp_path / "both.html").read_text()
    # Help lists the kind and the command.
    assert "--signal --help" in run(*program, "--help", cwd=tmp_path)
    done = subprocess.run(
        [str(word) for word in [*program, "count", "--up-to", "4"]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "1 2 3 4\n")
