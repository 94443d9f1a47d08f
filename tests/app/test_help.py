"""``--help``: short, complete, and printed from the options themselves."""

import dataclasses
import inspect
import itertools
import re
from pathlib import Path

import pytest

import train_fit
from nerf_posenc_app.kinds import KINDS
from nerf_posenc_app.kinds.coordinates import suiting_encodings
from nerf_posenc_app.options import CommonOptions, option_names

OWN_KINDS = ("image", "scene", "sequence")
OWN_COMMANDS = ("compare", "render", "export")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert train_fit.main([*arguments, "--help"]) == 0
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_help_fits_a_terminal_and_names_the_kinds_and_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(capsys)
    assert len(text.splitlines()) <= 50 + len(KINDS) - len(OWN_KINDS)
    assert max(map(len, text.splitlines())) <= 80
    for word in (*(f"--{name}" for name in KINDS), *OWN_COMMANDS, "--resume"):
        assert word in text


@pytest.mark.parametrize("name", OWN_KINDS)
def test_the_help_of_a_kind_has_all_its_options_with_a_line_for_each(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, f"--{name}")
    for option in option_names(KINDS[name].Options):
        assert f"{option} " in text, option
    assert "None" not in text
    assert "  train_fit.py --" in text


def test_help_begins_with_the_data_and_ends_with_folder_and_screen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(capsys, "--image")
    options = re.findall(r"^  (--[\w-]+)", text, flags=re.M)
    assert options[0] == "--image"
    assert text.index("\ntraining:") < text.index("  --steps")
    last = text[text.index("\nrun folder and screen:") :]
    assert re.findall(r"^  (--[\w-]+)", last, flags=re.M)[:2] == ["--video", "--out"]
    assert not {*"{}"} & {*text}
    # Text that goes on in a further line fills the one before it.
    lines = [line.rstrip() for line in text.splitlines() if line.startswith(" " * 10)]
    for line, following in itertools.pairwise(lines):
        if not line.endswith((".", ")")):
            assert len(line) + 1 + len(following.split()[0]) > 79, line


def test_the_help_of_images_names_their_encodings(capsys: pytest.CaptureFixture[str]) -> None:
    words = re.findall(r"[\w-]+", printed(capsys, "--image"))
    assert {*suiting_encodings()} <= {*words}


def test_the_program_without_a_word_prints_its_help_and_fits_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert train_fit.main([]) == 0
    assert "--image --help" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", OWN_COMMANDS)
def test_the_help_of_a_command_fits_a_terminal(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, command)
    assert len(text.splitlines()) <= 45
    assert "--out" in text


def test_one_value_has_one_holder() -> None:
    common = {field.name for field in dataclasses.fields(CommonOptions)}
    for kind in (KINDS[name] for name in OWN_KINDS):
        own = set(inspect.get_annotations(kind.Options))
        assert not own & common
