"""The wheel: what it holds, what an installation of it changes, and the program in it."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT, cwd=folder)
    (file,) = folder.glob("*.whl")
    return file


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


def test_all_packages_of_the_wheel_lie_in_one_folder(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    about = f"{wheel.name.split('-py3')[0]}.dist-info"
    assert {name.split("/")[0] for name in names} == {"nerf_posenc", "train_fit.py", about}
    # Templates and styles as well; nothing that a test or a compiler has left.
    ours = {
        path.relative_to(ROOT).as_posix()
        for package in ("app", "scenes", "sequences")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    held = {n.split("_program/")[1] for n in names if "_program/" in n}
    assert held == ours


def test_a_clone_that_is_installed_runs_its_own_files(tmp_path: Path) -> None:
    # Not a copy of the day of its installation.
    script = (
        "import train_fit as t, app, nerf_posenc as n; print(t.__file__, app.__file__, n.__file__)"
    )
    files = run(sys.executable, "-c", script, cwd=tmp_path).split()
    assert [Path(file).relative_to(ROOT).parts[0] for file in files] == [
        "train_fit.py",
        "app",
        "nerf_posenc",
    ]


def test_an_installation_leaves_the_torch_and_the_numpy_that_are_there(
    wheel: Path, tmp_path: Path
) -> None:
    for name, version in {"torch": "2.4.1", "numpy": "1.26.0", "jaxtyping": "0.3.0"}.items():
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
    assert {"torch==2.4.1", "numpy==1.26.0", "jaxtyping==0.3.0"} <= set(listed.split())
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
        "from train_fit import fit\n"
        "run = fit(image='cat', size=32, steps=3, width=8, depth=1, video=0, quiet=True)\n"
        "import app, scenes, sequences\n"
        "print(run.scores['fourier']['psnr_db'], app.__file__, scenes.__file__)\n"
    )
    said = run(programs / "python", "-c", script, cwd=here)
    assert said.count("/site-packages/nerf_posenc/_program/") == 2
