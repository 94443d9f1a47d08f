"""Files are written and run, and lines printed, in a few places that guard it."""

import ast
import errno
from pathlib import Path

import pytest

from nerf_posenc.training.checkpoints import replacing
from tests.test_structure import sources, tree

PARTIAL = "writes to a hidden folder or file, which `replacing` or `publishing` gives it"
COPY = "keeps captures, which are locked and renamed when they are whole"

# What may be called where, with the reason where it is not the door itself.
DOORS: dict[frozenset[str], dict[str, str]] = {
    frozenset(
        {"write_text", "write_bytes", "mkdir", "rename", "touch", "rmtree", "unlink", "imwrite"}
        | {"symlink_to", "makedirs", "tofile"}
    ): {
        "nerf_posenc.training.checkpoints": "the door: files are whole or not there",
        "nerf_posenc_app.runs.folder": "the door of run folders",
        **dict.fromkeys(
            [
                *(f"nerf_posenc_app.report.{name}" for name in ("charts", "figures", "outputs")),
                *(f"nerf_posenc_app.report.{name}" for name in ("page", "tiles", "video")),
                "nerf_posenc_app.runs.saved",
                "nerf_posenc_kinds.audio",
                "nerf_posenc_kinds.sound_report",
                "nerf_posenc_app.data.reading.hdr",
            ],
            PARTIAL,
        ),
        **dict.fromkeys(
            [f"nerf_posenc_app.commands.{name}" for name in ("comparison", "export", "render")],
            "creates the folder that was asked for, and encodes in memory",
        ),
        "nerf_posenc_app.data.posed.colmap_reader": "copies a model into a temporary folder",
        "nerf_posenc_kinds.data.captures": COPY,
        "nerf_posenc_kinds.data.room": COPY,
        "nerf_posenc_kinds.photos": COPY,
    },
    frozenset({"exec_module", "exec", "eval_code", "load_module", "run_path"}): {
        "nerf_posenc_app.data.shipped": "the door: files that the user names, and those that ship"
    },
    frozenset({"print"}): {
        "nerf_posenc_app.terminal": "the door: controls are replaced",
        "nerf_posenc_app.command_line": "the help",
        "nerf_posenc_audit.commands": "names of encodings",
        "nerf_posenc_audit.__main__": "names of an installed library's classes",
    },
}


def called(module: str) -> set[str]:
    """Names of the functions and methods that a module calls."""
    calls = [node.func for node in ast.walk(tree(module)) if isinstance(node, ast.Call)]
    found = {each.attr for each in calls if isinstance(each, ast.Attribute)}
    own = {
        name.name
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OWN
        for name in node.names
    }
    return found | {each.id for each in calls if isinstance(each, ast.Name)} - own


OWN = {name.split(".")[0] for name in sources()}


@pytest.mark.parametrize("names", DOORS, ids=lambda names: min(names))
def test_files_and_the_terminal_are_reached_by_their_doors(names: frozenset[str]) -> None:
    found = {module for module in sources() if called(module) & names}
    assert found == set(DOORS[names])


def full(path: Path) -> None:
    path.write_text("half")
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_new_output_is_whole_or_not_there(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.write_text("kept")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a.csv").symlink_to(private)
    with pytest.raises(OSError, match="No space"), replacing(tmp_path / "out/a.csv") as partial:
        full(partial)
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["a.csv"]
    with replacing(tmp_path / "out/a.csv") as partial:
        partial.write_text("whole")
    assert private.read_text() == "kept"
    assert (tmp_path / "out/a.csv").read_text() == "whole"
    with pytest.raises(FileExistsError), replacing(tmp_path / "out/a.csv", is_new=True) as partial:
        partial.write_text("other")
    assert (tmp_path / "out/a.csv").read_text() == "whole"
