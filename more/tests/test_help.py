"""``--help`` of the kinds and commands of the companion."""

import inspect
import re
from dataclasses import fields

import pytest

from nerf_posenc_app.kinds import COMPANION, KINDS
from nerf_posenc_app.kinds.coordinates import suiting_encodings
from nerf_posenc_app.options import CommonOptions, option_names
from tests.app.test_help import _terminal as _terminal
from tests.app.test_help import printed


def test_the_help_of_the_program_names_the_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)
    for name in COMPANION:
        assert f"--{name}" in text


@pytest.mark.parametrize("name", COMPANION)
def test_the_help_of_a_kind_has_all_its_options_with_a_line_for_each(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, f"--{name}")
    for option in option_names(KINDS[name].Options):
        assert f"{option} " in text, option
    assert "None" not in text
    assert "  train_fit.py --" in text


@pytest.mark.parametrize("name", ["audio", "shape", "scan", "clip"])
def test_the_help_of_a_kind_names_its_encodings(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = re.findall(r"[\w-]+", printed(capsys, f"--{name}"))
    assert {*suiting_encodings()} <= {*words}


@pytest.mark.parametrize("command", ["identify", "mesh"])
def test_the_help_of_a_command_fits_a_terminal(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(printed(capsys, command).splitlines()) <= 45


def test_one_value_has_one_holder() -> None:
    common = {field.name for field in fields(CommonOptions)}
    for name in COMPANION:
        own = set(inspect.get_annotations(KINDS[name].Options))
        assert not own & common
