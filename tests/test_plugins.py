"""Tables that other distributions add rows to."""

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import train_fit
from nerf_posenc_app import fit, plugins
from nerf_posenc_app.commands import COMMANDS
from nerf_posenc_app.kinds import COMPANION, KINDS
from nerf_posenc_app.plugins import PluginError, PluginTable, how_to_install


def points(*named: tuple[str, str]) -> Any:
    """A function that gives entry points of these names and values."""
    return lambda group: [EntryPoint(name, value, group) for name, value in named]


def test_entry_points_are_rows_that_are_imported_when_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = points(("root", "math:sqrt"), ("lost", "math:no_such_name"))
    monkeypatch.setattr(plugins, "entry_points", found)
    table: PluginTable[Any] = PluginTable("group", {"two": 2})
    assert list(table) == ["two", "lost", "root"]
    assert table["root"](9.0) == 3.0
    with pytest.raises(PluginError, match=r"lost \(math:no_such_name\) cannot be used"):
        table["lost"]
    with pytest.raises(KeyError):
        table["none"]


def test_a_name_of_this_project_cannot_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "entry_points", points(("two", "math:pi")))
    table: PluginTable[Any] = PluginTable("group", {"two": 2})
    assert table["two"] == 2
    with pytest.warns(UserWarning, match=r"two = math:pi \(group\) is not used"):
        assert len(table) == 1


@pytest.mark.parametrize("table", [KINDS, COMMANDS], ids=lambda t: t.group)
def test_a_row_of_another_type_is_refused(
    table: PluginTable[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(table._values, "wrong", EntryPoint("wrong", "math:pi", table.group))
    with pytest.raises(PluginError, match=r"wrong \(math:pi\) cannot be used: .* not 3.14"):
        table["wrong"]


@pytest.mark.parametrize(
    "text",
    ["raise ValueError('bad\x1b[31m')", "import sys; sys.exit(3)", "1 +", "class Kind: pass"],
)
def test_a_broken_distribution_breaks_nothing_but_itself(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken_kind.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    # Named like an option of the program, which stays what it is.
    for name in ("ramp", "out"):
        point = EntryPoint(name, "broken_kind:Kind", "nerf_posenc.kinds")
        monkeypatch.setitem(KINDS._values, name, point)
    assert train_fit.main(["--help"]) == 0
    assert "ramp (broken_kind:Kind) cannot be used" in capsys.readouterr().out
    assert train_fit.main(["--image", "cat", "--bandz", "3"]) == 2
    assert "did you mean --bands" in capsys.readouterr().err
    assert train_fit.main(["--ramp", "8"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("train_fit.py: error: ramp (broken_kind:Kind) cannot be used")
    assert "\x1b" not in error
    few = ["--size", "8", "--steps", "1", "--width", "8", "--depth", "1", "--quiet"]
    assert train_fit.main(["--image", "cat", *few, "--out", str(tmp_path / "run")]) == 0


def test_rows_are_added_and_removed_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "entry_points", points())
    table: PluginTable[int] = PluginTable("group", {"two": 2})
    table["three"] = 3
    assert dict(table) == {"two": 2, "three": 3}
    del table["two"]
    assert "two" not in table


def test_a_kind_of_the_companion_says_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in COMPANION:
        if name in KINDS:
            monkeypatch.delitem(KINDS, name)
    assert train_fit.main(["--photos", "folder"]) == 2
    assert "--photos is a kind of data of nerf-posenc-more" in capsys.readouterr().err
    assert train_fit.main(["--audio", "phrase"]) == 2
    error = capsys.readouterr().err
    assert error == (
        "train_fit.py: error: --audio is a kind of data of nerf-posenc-more: "
        f"{how_to_install(companion=True)}\n"
    )
    assert "pip install ./more" in error
    for name in ("identify", "mesh"):
        if name in COMMANDS:
            monkeypatch.delitem(COMMANDS, name)
    assert train_fit.main(["identify", "file.npz"]) == 2
    assert "identify is a command of nerf-posenc-more: pip install" in capsys.readouterr().err
    with pytest.raises(ValueError, match="audio is a kind of data of nerf-posenc-more"):
        fit(audio="phrase")
