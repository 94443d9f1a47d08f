"""Characters of a text that a Transformer fills in, without and with positions."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import train_fit
from nerf_posenc_app.kinds.sequence import (
    ACCURACY,
    BITS,
    MaskedTransformer,
    SequenceKind,
    SequenceOptions,
)
from nerf_posenc_app.options import UsageError
from nerf_posenc_app.runs.train import begin_fit
from nerf_posenc_app.values.names import FitName
from tests.fits import fitted, resolved
from tests.signals import resumed_to_the_bit
from tests.small import SMALL_SEQUENCE
from tests.texts import made_text

pytestmark = pytest.mark.usefixtures("own_folder")


def periodic(period: str = "abcdefgh", length: int = 4000) -> str:
    """A text whose every character follows from where it stands beside any other one."""
    return (period * length)[:length]


def opened(text: str, **options: Any) -> SequenceKind:
    """A kind whose data are this text."""
    Path("text.txt").write_text(text)
    return SequenceKind(SequenceOptions(sequence="text.txt", **options))


def test_a_guess_knows_how_often_each_character_occurs() -> None:
    # Of 3,600 characters to train, three quarters are "a", and of those to test, one half.
    kind = opened("aaab" * 900 + "ab" * 200, context=16)
    (guess,) = (compute() for compute in kind.references(resolved(kind)).values())
    tested = kind._tested(resolved(kind))
    share = float((tested == 0).double().mean())
    # One more of each, for characters that do not occur in training.
    chances = {0: 2701 / 3602, 1: 901 / 3602}
    bits = -share * math.log2(chances[0]) - (1 - share) * math.log2(chances[1])
    assert guess.scores[BITS.name] == pytest.approx(bits)
    assert guess.scores[ACCURACY.name] == pytest.approx(100 * share)
    assert kind.measures(resolved(kind))[1].count == len(tested)


def test_few_hidden_characters_are_no_evidence(metrics: dict[str, Any]) -> None:
    assert any("hidden characters only" in text for text in metrics["finding"]["qualifications"])


@pytest.fixture
def metrics() -> dict[str, Any]:
    """Metrics of a run in the folder ``run``."""
    Path("text.txt").write_text(made_text(600))
    assert train_fit.main([*SMALL_SEQUENCE, "--quiet", "--out", "run"]) == 0
    values: dict[str, Any] = json.loads(Path("run/metrics.json").read_text())
    return values


def test_positions_beat_none_where_order_matters() -> None:
    kind = opened(periodic(), context=16)
    options: dict[str, Any] = dict(context=16, width=32, depth=2, steps=150, batch_size=32)
    none, sinusoidal = (fitted(kind, name, **options) for name in ("none", "sinusoidal"))
    # A bag of characters shows which are missing, not where they stand.
    assert none.scores[ACCURACY.name] < 75
    assert sinusoidal.scores[ACCURACY.name] > 95
    assert sinusoidal.scores[BITS.name] < none.scores[BITS.name] - 0.5
    assert none.parameters == sinusoidal.parameters


def test_without_positions_the_order_of_the_characters_is_not_seen() -> None:
    symbols, order = torch.randint(0, 9, (2, 12)), torch.randperm(12)
    for has_positions in (False, True):
        generator = torch.Generator().manual_seed(0)
        model = MaskedTransformer(
            9, 12, width=16, depth=2, has_positions=has_positions, generator=generator
        )
        moved, expected = model(symbols[:, order]), model(symbols)[:, order]
        assert torch.allclose(moved, expected, atol=1e-5) != has_positions


def test_initial_weights_follow_from_the_seed_alone() -> None:
    kind = opened(made_text(600), context=16)
    config = resolved(kind, context=16, width=16, depth=1)
    (name, _) = kind.fit_names(config)
    models = []
    for state in (1, 2):
        torch.default_generator.manual_seed(state)
        models.append(kind.build(name, config, torch.Generator().manual_seed(0))[0])
    one, other = (model.state_dict() for model in models)
    assert [key for key in one if not torch.equal(one[key], other[key])] == []


def test_a_run_that_is_resumed_has_the_bits_of_one_that_was_not_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("text.txt").write_text(made_text(600))
    whole = resumed_to_the_bit(monkeypatch, SMALL_SEQUENCE, 4)
    assert [fit["name"] for fit in whole["fits"]] == ["none", "sinusoidal", "guess"]


def test_a_model_that_knows_nothing_needs_the_bits_of_a_uniform_choice() -> None:
    kind = opened(periodic(), context=16)
    fit = begin_fit(kind, FitName("none"), resolved(kind, context=16, width=16, depth=1))
    with torch.no_grad():
        for parameter in fit.model.parameters():
            parameter.zero_()
    scores = kind.evaluate(fit).scores
    # Eight characters, and the sign of a hidden one.
    assert scores[BITS.name] == pytest.approx(math.log2(9))


def test_the_table_has_bits_and_accuracy(metrics: dict[str, Any]) -> None:
    assert [measure["name"] for measure in metrics["measures"]] == [BITS.name, ACCURACY.name]
    for fit in metrics["fits"]:
        # Twelve letters, the space and the end of a line.
        assert 0 < fit[BITS.name] < 6
        assert 0 <= fit[ACCURACY.name] <= 100


def test_the_page_shows_what_was_filled_in_and_a_comparison_has_both_runs(
    metrics: dict[str, Any],
) -> None:
    page = Path("run/report.html").read_text()
    assert "Hidden characters, filled in" in page
    assert BITS.label in page
    arguments = [*SMALL_SEQUENCE, "--seed", "1", "--quiet", "--out", "other"]
    assert train_fit.main(arguments) == 0
    assert train_fit.main(["compare", "run", "other", "--out", "both.html"]) == 0
    compared = Path("both.html").read_text()
    for run in ("run", "other"):
        for encoding in ("none", "sinusoidal"):
            assert f"{run}: {encoding}" in compared


def test_hidden_characters_are_the_same_for_both_encodings() -> None:
    kind = opened(made_text(600), context=16)
    config = resolved(kind, context=16, width=16, depth=1, batch_size=8)
    batches = []
    for name in kind.fit_names(config):
        model, description = kind.build(name, config, torch.Generator().manual_seed(0))
        batches.append(kind.problem(model, description, config).draw_batch(3))
    (inputs, targets), (same_inputs, same_targets) = batches
    assert torch.equal(inputs, same_inputs)
    assert torch.equal(targets, same_targets)
    is_hidden = targets >= 0
    assert bool(is_hidden.any(-1).all())
    assert bool((inputs[is_hidden] == len(kind.alphabet)).all())


def test_the_last_tenth_is_for_testing() -> None:
    text = "a" * 900 + "b" * 100
    kind = opened(text)
    assert kind.train.tolist() == [0] * 900
    assert kind.test.tolist() == [1] * 100


def test_line_ends_of_windows_and_a_byte_order_mark_change_nothing() -> None:
    text = made_text(600)
    digest = opened(text).digest()
    Path("windows.txt").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert SequenceKind(SequenceOptions(sequence="windows.txt")).digest() == digest


def test_the_built_in_text_gives_way_to_a_file_of_its_name() -> None:
    built_in = SequenceKind(SequenceOptions())
    assert built_in.source == "Python's help topics"
    Path("topics").write_text(made_text(600))
    assert SequenceKind(SequenceOptions()).source == "topics"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"too short", "has 9 characters, and 320 are needed for --context 32"),
        (bytes(range(256)) * 40, "is not UTF-8 text (byte 129)"),
        (b"a\0" * 4000, "is a binary file"),
        (None, "there is no such file"),
    ],
    ids=["short", "Latin", "binary", "missing"],
)
def test_what_is_no_text_is_refused_in_one_line(
    content: bytes | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        Path("a.txt").write_bytes(content)
    assert train_fit.main(["--sequence", "a.txt", "--out", "run"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("train_fit.py: error: --sequence a.txt")
    assert message in error
    assert error.count("\n") == 1
    assert not Path("run").exists()


@pytest.mark.parametrize("encoding", ["fourier", "hash", "siren", "rotary"])
def test_other_encodings_are_refused(encoding: str) -> None:
    kind = opened(made_text(600))
    with pytest.raises(UsageError, match="--sequence takes none and sinusoidal, not"):
        kind.resolve(SequenceOptions(encodings=("none", encoding)))


def test_a_text_of_the_length_that_is_named_is_enough() -> None:
    message = "has 160 characters, and 170 are needed for --context 17"
    with pytest.raises(UsageError, match=message):
        opened(periodic(length=160), context=17)
    assert len(opened(periodic(length=170), context=17).test) == 17
