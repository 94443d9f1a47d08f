"""What the pages of the systems say, held against the record of their runs."""

import itertools
import math
import re

import pytest

from docs.make_results import RECORDS, measured, read, value_of

CELLS = {
    (cell["table"], cell["row"], cell["column"]): cell for path in RECORDS for cell in read(path)
}

# Table, column, and rows of which each is better than the next by more than chance.
ORDERS = [
    ("transformer", "translated exactly", ["sinusoidal", "none"]),
    ("transformer", "translated exactly", ["learned", "none"]),
    ("transformer", "translated exactly", ["rotary", "none"]),
    ("convs2s", "translated exactly", ["both", "encoder", "decoder"]),
    ("bert", "bits per masked word", ["position", "none", "a guess"]),
    ("bert", "next part right", ["segment", "none", "a guess"]),
    ("bert", "next part right", ["position and segment", "position"]),
    (
        "memn2n-stories",
        "error, mean of six tasks",
        [
            "ages of memories, positions of words",
            "ages of memories",
            "no order of memories or words",
            "a guess",
        ],
    ),
    (
        "memory-network-stories",
        "error, mean of six tasks",
        ["write times and position weights", "write times", "no write times", "a guess"],
    ),
    ("indexing", "right", ["PoPE", "rotary"]),
    ("self-attentive", "accuracy", ["none", "a guess"]),
    ("penalty", "likeness of two rows", ["`--penalty 0.3`", "`--penalty 0`"]),
    ("topics-masked", "bits per character", ["rotary", "sinusoidal", "none", "guess"]),
]
FALLING = ("bits", "error", "likeness")


def score(table: str, row: str, column: str) -> tuple[float, float]:
    """Mean of a cell, and its standard error over seeds; of one seed that is 0."""
    found = re.fullmatch(
        r"([\d.]+)%?(?: ± ([\d.]+) \((\d+)\))?", CELLS[table, row, column]["value"]
    )
    assert found is not None
    return float(found[1]), float(found[2] or 0) / math.sqrt(int(found[3] or 1))


@pytest.mark.parametrize(("table", "column", "rows"), ORDERS)
def test_what_a_page_calls_better_is_better_by_more_than_chance(
    table: str, column: str, rows: list[str]
) -> None:
    sign = -1 if column.startswith(FALLING) else 1
    scores = [score(table, row, column) for row in rows]
    for (better, its_error), (worse, other_error) in itertools.pairwise(scores):
        assert sign * (better - worse) > 2 * math.hypot(its_error, other_error)


def test_what_a_page_calls_alike_is_within_chance() -> None:
    for encoding in ("sinusoidal", "learned"):
        scores = [score("self-attentive", row, "accuracy") for row in (encoding, "none")]
        (one, its_error), (other, other_error) = scores
        assert abs(one - other) < 2 * math.hypot(its_error, other_error)


def test_what_is_compared_leaves_room() -> None:
    # At a ceiling nothing can be told apart, which the page of the Transformer says.
    assert score("transformer", "none", "translated exactly")[0] < 95
    assert score("convs2s", "decoder", "translated exactly")[0] < 95


@pytest.mark.slow
def test_the_record_is_what_the_program_gives() -> None:
    cell = CELLS["penalty", "`--penalty 0.3`", "likeness of two rows"]
    metrics = measured(cell["command"], None)
    found = value_of([metrics], cell["fit"], cell["measure"]).partition(" ")[0]
    assert float(found) == pytest.approx(float(cell["value"].partition(" ")[0]), abs=0.05)
