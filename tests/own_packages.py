"""A user's project with packages and modules of the names that the program's own have."""

import subprocess
import sys
from pathlib import Path


def require_both_importable(project: Path, order: str, root: Path, *, has_init: bool) -> None:
    """Import and use packages `data` and `scenes` of a project and the program in one process.

    Args:
        project: folder of the project, which is created.
        order: ``"ours first"`` or ``"theirs first"``.
        root: folder that has the program.
        has_init: whether the packages of the project have an ``__init__.py``.
    """
    for name in ("data", "scenes"):
        (project / name).mkdir(parents=True)
        for module in ("errors", "inside", "image_files", "reading", "open", "posed"):
            (project / name / f"{module}.py").write_text("value = 3")
        if has_init:
            (project / name / "__init__.py").write_text("name = 'mine'")
    ours, theirs = "from nerf_posenc_app import fit", "import data.errors, scenes.errors"
    imports = [ours, theirs] if order == "ours first" else [theirs, ours]
    options = "image='cat', size=8, encodings=['none'], steps=1, video=0, quiet=True"
    script = "; ".join(
        [*imports, f"fit({options})", "print(data.errors.value + scenes.errors.value)"]
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=project,
        env={"PYTHONPATH": f"{project}:{root}"},
    )
    assert done.stdout == "6\n", done.stderr
