"""Numbers and dates."""

import datetime
import functools
import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from nerf_posenc_sequences.data.numbers import make_numbers, number_words
from nerf_posenc_sequences.data.types import Pair, Pairs

UNIT_NAMES = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
"""
TEN_NAMES = "twenty thirty forty fifty sixty seventy eighty ninety"
UNITS = {name: number for number, name in enumerate(UNIT_NAMES.split())}
TENS = {name: 10 * number for number, name in enumerate(TEN_NAMES.split(), start=2)}
SCALES = {"thousand": 10**3, "million": 10**6}
IRREGULAR = {"first": 1, "second": 2, "third": 3, "fifth": 5, "eighth": 8, "ninth": 9}


@functools.cache
def small() -> Pairs:
    return make_numbers(3_000, 300, seed=4)


@functools.cache
def large() -> Pairs:
    return make_numbers(20_000, 1_000)


def value(words: tuple[str, ...]) -> int:
    """Left to right with an accumulator: a scale multiplies what was gathered since the last."""
    total = gathered = 0
    for word in words:
        if word in SCALES:
            total, gathered = total + gathered * SCALES[word], 0
        elif word == "hundred":
            gathered *= 100
        elif word != "and":
            gathered += (UNITS | TENS)[word]
    return total + gathered


def ordinal(words: tuple[str, ...]) -> int:
    """Day of the month, by the endings of ordinals."""
    *tens, last = words
    if last in IRREGULAR:
        day = IRREGULAR[last]
    elif last.endswith("ieth"):
        day = TENS[last[:-4] + "y"]
    else:
        stem = last.removesuffix("th")
        day = UNITS["twelve" if stem == "twelf" else stem]
    return day + sum(TENS[word] for word in tens)


def year(words: tuple[str, ...]) -> int:
    """Year in pairs of digits, in hundreds or as a number."""
    if {"hundred", "thousand"} & set(words):
        return value(words)
    return 100 * value(words[:1]) + value(tuple(word for word in words[1:] if word != "oh"))


def date(words: tuple[str, ...]) -> str:
    """ISO date: the month is the only month's name, the day what has an ordinal's ending."""
    months = [datetime.date(2000, month, 1).strftime("%B").lower() for month in range(1, 13)]
    rest = [word for word in words if word not in ("the", "of", "in", "day", "year")]
    month = next(word for word in rest if word in months)
    rest.remove(month)
    is_ordinal = [w in IRREGULAR or w.endswith("th") for w in rest]
    end = is_ordinal.index(True) + 1
    return (
        f"{year(tuple(rest[end:])):04}-{months.index(month) + 1:02}-{ordinal(tuple(rest[:end])):02}"
    )


def expected(source: tuple[str, ...]) -> str:
    kind, *symbols = source
    words = tuple(symbols)
    return str(value(words)) if kind == "digits:" else date(words)


def assert_exact(pairs: list[Pair]) -> None:
    for source, target in pairs:
        if source[0] == "words:":
            assert str(value(target)) == "".join(source[1:])
        else:
            assert expected(source) == "".join(target)
            assert all(len(symbol) == 1 for symbol in target)


def test_targets_are_exact() -> None:
    assert_exact([*small().train, *small().test, *small().longer])


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (10, "ten"),
        (42, "forty two"),
        (100, "one hundred"),
        (101, "one hundred and one"),
        (1_000, "one thousand"),
        (1_099, "one thousand and ninety nine"),
        (1_100, "one thousand one hundred"),
        (342_005, "three hundred and forty two thousand and five"),
        (3_000_000, "three million"),
        (3_000_020, "three million and twenty"),
        (3_001_000, "three million one thousand"),
        (101_000_101, "one hundred and one million one hundred and one"),
    ],
)
def test_numbers_are_written_as_in_english(number: int, words: str) -> None:
    assert " ".join(number_words(number)) == words


def test_words_of_different_numbers_differ() -> None:
    numbers = [*range(2_000), *range(0, 10**9, 999_983)]
    assert [value(number_words(number)) for number in numbers] == numbers


@pytest.mark.parametrize("number", [-1, 10**9])
def test_numbers_out_of_range_are_refused(number: int) -> None:
    with pytest.raises(ValueError, match="number must be in"):
        number_words(number)


def test_sizes_are_those_asked_for() -> None:
    assert (len(large().train), len(large().test), len(large().longer)) == (20_000, 1_000, 1_000)
    assert (len(small().train), len(small().test), len(small().longer)) == (3_000, 300, 1_000)
    assert large().joiner == " "


@pytest.mark.parametrize("make", [small, large])
def test_directions_are_a_third_each(make: Callable[[], Pairs]) -> None:
    pairs = make()
    for side in (pairs.train, pairs.test):
        counts = Counter(source[0] for source, _ in side)
        assert set(counts) == {"digits:", "words:", "date:"}
        assert max(counts.values()) - min(counts.values()) <= 1


def meaning(pair: Pair) -> str:
    """The number or the date, whatever the direction."""
    source, target = pair
    return "".join(source[1:] if source[0] == "words:" else target)


def test_what_is_tested_is_trained_in_no_direction_and_no_phrasing() -> None:
    trained = {meaning(pair) for pair in large().train}
    assert trained.isdisjoint(meaning(pair) for pair in large().test)
    assert trained.isdisjoint(meaning(pair) for pair in large().longer)
    assert len({meaning(pair) for pair in large().test}) == len(large().test)


def test_all_symbols_are_met_in_training() -> None:
    trained = {symbol for pair in small().train for side in pair for symbol in side}
    later = {s for pair in (*large().test, *large().longer) for side in pair for s in side}
    assert later <= trained


def digits(pairs: list[Pair]) -> list[str]:
    return [meaning(pair) for pair in pairs if pair[0][0] != "date:"]


def test_training_numbers_are_uniform_over_their_lengths() -> None:
    counts = Counter(len(number) for number in digits(list(large().train)) if len(number) < 7)
    share = sum(counts.values()) / 6
    # Six standard deviations of a binomial count.
    assert all(abs(counts[length] - share) < 6 * (share * 5 / 6) ** 0.5 for length in range(1, 7))


def test_million_is_trained_in_round_numbers_only() -> None:
    millions = {number for number in digits(list(large().train)) if len(number) > 6}
    assert millions == {f"{count}000000" for count in range(1, 10)}
    assert all(len(number) <= 6 for number in digits(list(large().test)))


def test_longer_numbers_have_seven_to_nine_digits_and_are_not_round() -> None:
    numbers = digits(list(large().longer))
    assert len(numbers) == len(set(numbers)) == 1_000
    counts = Counter(map(len, numbers))
    assert set(counts) == {7, 8, 9}
    assert min(counts.values()) > 300
    assert not any(number.endswith("000000") for number in numbers)


def test_most_numbers_of_every_length_stay_in_training() -> None:
    tested = digits(list(make_numbers(10, 8_000).test))
    for length, group in itertools.groupby(sorted(tested, key=len), key=len):
        assert 2 <= length <= 6
        assert len(list(group)) <= 9 * 10 ** (length - 2)


def test_dates_have_several_phrasings() -> None:
    shapes: Counter[tuple[bool, ...]] = Counter()
    for source, _ in small().train:
        if source[0] == "date:":
            shapes["of" in source, source[1] == "the", "day" in source, "year" in source] += 1
    assert len(shapes) >= 6


def test_same_seed_gives_the_same_pairs_and_another_seed_others() -> None:
    assert make_numbers(200, 20, seed=1) == make_numbers(200, 20, seed=1)
    assert make_numbers(200, 20, seed=1).test != make_numbers(200, 20, seed=2).test


@pytest.mark.parametrize(("num_train", "num_test"), [(0, 10), (10, 0), (10, 100_001)])
def test_sizes_out_of_range_are_refused(num_train: int, num_test: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        make_numbers(num_train, num_test)
