"""``--help``: short, complete, and with defaults that are the real ones."""

import itertools
import re
from dataclasses import fields

import pytest
import torch
from app.help import HELP
from app.sequence_options import SequenceOptions

import train_fit
from app import config
from app.commands.compare import CompareOptions
from app.commands.export import ExportOptions
from app.commands.render import RenderOptions
from app.options import Options, parse
from docs import make_options
from nerf_posenc.radiance.recipes import FieldOptions
from nerf_posenc.training.recipes import ENCODINGS


def described(option: str) -> str:
    """What the help says of an option, on one line."""
    lines = HELP.splitlines()
    first = next(i for i, line in enumerate(lines) if f" {option} " in f"{line} ")
    rest = itertools.takewhile(lambda line: line.startswith(" " * 24), lines[first + 1 :])
    return " ".join([lines[first].split(option, 1)[1], *map(str.strip, rest)])


def default(option: str) -> str:
    """What stands in the last parentheses of an option's line."""
    shown: str = re.findall(r"\(([^()]*)\)", described(option))[-1]
    return shown


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_fits_a_terminal(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train_fit.main(["--image", "x.png", flag]) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) < 60
    assert max(map(len, printed.splitlines())) <= 80


@pytest.mark.parametrize(
    ("command", "kind"),
    [("compare", CompareOptions), ("render", RenderOptions), ("export", ExportOptions)],
)
def test_the_help_of_a_command_fits_a_terminal_and_names_its_options(
    command: str, kind: type, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train_fit.main([command, "--help"]) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) <= 24
    assert max(map(len, printed.splitlines())) <= 80
    options = {field.name for field in fields(kind)} - {"run", "runs"}
    named = {name.replace("-", "_") for name in re.findall(r"--([a-z][a-z-]*)", printed)}
    assert named == options


def test_help_and_the_page_name_every_option() -> None:
    names = [*vars(Options()), *vars(SequenceOptions()), "resume", "version", "help"]
    names.remove("sequences")
    for name in names:
        assert f"--{name.replace('_', '-')} " in HELP.replace("\n", " "), name
    for option in re.findall(r"--([a-z][a-z-]*)", HELP):
        assert option.replace("-", "_") in names, option
    assert make_options.PAGE.read_text(encoding="utf-8") == make_options.page(), (
        "run python -m docs.make_options"
    )


@pytest.mark.parametrize(
    "name",
    [
        *("test_views", "background", "network", "field", "tying", "beam", "optimizer", "seed"),
        *("seeds", "stack", "save_every", "video", "turntable", "device", "precision"),
        "max_pixels",
    ],
)
def test_a_default_that_help_shows_is_that_of_the_option(name: str) -> None:
    values = {**vars(Options()), **vars(SequenceOptions())}
    shown = default(f"--{name.replace('_', '-')}")
    value = values[name]
    if isinstance(value, int | float):
        assert float(shown) == value
    else:
        assert shown == value


def test_defaults_that_depend_on_the_run_are_those_that_it_resolves() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    image, scene = Options(image="cat"), Options(scene="spheres")
    trainings = [config.resolve(o, 500, d).training for d in (cpu, gpu) for o in (image, scene)]
    steps, batches = [t.steps for t in trainings], [t.batch_size for t in trainings]
    assert default("--steps") == "image {}, scene {}; GPU {}, {}".format(*steps)
    assert default("--batch-size") == "{}, {}; GPU {}, {}".format(*batches)
    assert default("--bands") == str(config.resolve(image, 500, cpu).model.bands)
    assert tuple(default("--encodings").split()) == parse([]).fitted
    layers = [ENCODINGS[name].layers for name in ("fourier", "hash")] + [FieldOptions().layers]
    assert default("--width N --depth") == "{} x {}; hash {} x {}; scene {} x {}".format(
        *(number for pair in layers for number in pair)
    )
