"""Numbers and dates in words and in digits: pairs with an exact answer.

The first symbol of a source says what is wanted: ``digits:`` of a number in words, ``words:`` of
a number in digits, or the ``date:`` as year, month and day in digits.
"""

import datetime
import random
from collections import Counter
from collections.abc import Callable, Container
from functools import partial

from nerf_posenc_sequences.data.types import Pair, Pairs, Words

MAX_TEST = 100_000
"""Most test pairs, so that nine in ten numbers of every length are left for training."""

_NAMES = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
"""
_TEN_NAMES = "- - twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINAL_NAMES = """
- first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth
fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth
"""
_MONTH_NAMES = """
january february march april may june july august september october november december
"""
_ONES, _TENS, _ORDINALS, _MONTHS = (
    tuple(names.split()) for names in (_NAMES, _TEN_NAMES, _ORDINAL_NAMES, _MONTH_NAMES)
)
_FIRST_DAY = datetime.date(1500, 1, 1).toordinal()
_LAST_DAY = datetime.date(2099, 12, 31).toordinal()
_NUM_LONGER = 1_000
_MILLIONS_SHARE = 0.01


def make_numbers(num_train: int = 100_000, num_test: int = 2_000, seed: int = 0) -> Pairs:
    """Pairs of numbers and dates, a third each to digits, to words and to dates.

    Numbers of training and test are below a million, uniform over their number of digits. Those
    of ``longer`` have 7 to 9 digits. So that ``million`` is known, one in a hundred training
    numbers is one million, two million, up to nine million; no other training number has more
    than 6 digits. A number or date of a test pair is in no training pair, in either direction or
    any phrasing. At most a tenth of the numbers of a length is for testing, and no single digit.

    Args:
        num_train: training pairs, at least 1.
        num_test: test pairs, in [1, ``MAX_TEST``].
        seed: random seed of the random numbers.

    Raises:
        ValueError: If a size is out of range.
    """
    if num_train < 1:
        raise ValueError(f"num_train must be at least 1, got {num_train}")
    if not 1 <= num_test <= MAX_TEST:
        raise ValueError(f"num_test must be in [1, {MAX_TEST}], got {num_test}")
    rng = random.Random(seed)
    numbers, days = _held_out(num_test, rng)
    test = [_pair(kind, number, rng) for kind, number in (*numbers, *days)]
    rng.shuffle(test)
    tested_numbers = {number for _, number in numbers}
    tested_days = {day for _, day in days}
    train = []
    for kind in _kinds(num_train):
        if kind == "date:":
            value = _draw(partial(rng.randint, _FIRST_DAY, _LAST_DAY), tested_days)
        elif rng.random() < _MILLIONS_SHARE:
            value = rng.randint(1, 9) * 1_000_000
        else:
            value = _draw(partial(_number, rng.randint(1, 6), rng), tested_numbers)
        train.append(_pair(kind, value, rng))
    rng.shuffle(train)
    return Pairs(
        name="numbers",
        source=f"generated numbers and dates, seed {seed}",
        train=train,
        test=test,
        longer=_longer(rng),
        joiner=" ",
    )


def _kinds(count: int) -> list[str]:
    return [("digits:", "words:", "date:")[index % 3] for index in range(count)]


def _draw(sample: Callable[[], int], taken: Container[int]) -> int:
    """First sample that is not taken."""
    while (value := sample()) in taken:
        pass
    return value


def _number(length: int, rng: random.Random) -> int:
    """Uniform over the numbers of so many digits; zero is one of one digit."""
    return rng.randint(10 ** (length - 1) if length > 1 else 0, 10**length - 1)


def _held_out(
    num_test: int, rng: random.Random
) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Different numbers and days for testing, each with its kind of pair."""
    per_length: Counter[int] = Counter()
    numbers: dict[int, str] = {}
    days: dict[int, str] = {}
    for kind in _kinds(num_test):
        if kind == "date:":
            days[_draw(partial(rng.randint, _FIRST_DAY, _LAST_DAY), days)] = kind
            continue
        # Without every single digit in training, the word for zero would be unknown.
        lengths = [length for length in range(2, 7) if per_length[length] < 9 * 10 ** (length - 2)]
        length = rng.choice(lengths)
        per_length[length] += 1
        numbers[_draw(partial(_number, length, rng), numbers)] = kind
    return ([(kind, n) for n, kind in numbers.items()], [(kind, day) for day, kind in days.items()])


def _longer(rng: random.Random) -> list[Pair]:
    numbers: set[int] = set()
    pairs = []
    for index in range(_NUM_LONGER):
        while (value := _number(7 + index % 3, rng)) in numbers or value % 1_000_000 == 0:
            pass
        numbers.add(value)
        pairs.append(_pair(("digits:", "words:")[index % 2], value, rng))
    return pairs


def _pair(kind: str, value: int, rng: random.Random) -> Pair:
    if kind == "digits:":
        return (kind, *number_words(value)), tuple(str(value))
    if kind == "words:":
        return (kind, *str(value)), number_words(value)
    date = datetime.date.fromordinal(value)
    return (kind, *_date_words(date, rng)), tuple(date.isoformat())


def number_words(number: int) -> Words:
    """English words for a number, such as three hundred and forty two thousand and five.

    Args:
        number: number to write, in [0, 999,999,999].

    Raises:
        ValueError: If the number is out of range.
    """
    if not 0 <= number < 10**9:
        raise ValueError(f"number must be in [0, 999999999], got {number}")
    words: list[str] = []
    for size, name in ((1_000_000, "million"), (1_000, "thousand")):
        count, number = divmod(number, size)
        if count:
            words += [*_below_thousand(count), name]
    if number or not words:
        words += [*(("and",) if words and number < 100 else ()), *_below_thousand(number)]
    return tuple(words)


def _below_thousand(number: int) -> Words:
    hundreds, rest = divmod(number, 100)
    if not hundreds:
        return _below_hundred(rest)
    words = (_ONES[hundreds], "hundred")
    return (*words, "and", *_below_hundred(rest)) if rest else words


def _below_hundred(number: int) -> Words:
    if number < 20:
        return (_ONES[number],)
    tens, ones = divmod(number, 10)
    return (_TENS[tens], _ONES[ones]) if ones else (_TENS[tens],)


def _date_words(date: datetime.date, rng: random.Random) -> Words:
    """Date in one of several phrasings."""
    day, month = _ordinal_words(date.day), _MONTHS[date.month - 1]
    start = rng.choice(
        (
            ("the", *day, "of", month),
            ("the", *day, "day", "of", month),
            (month, "the", *day),
            (month, *day),
        )
    )
    between = rng.choice(((), (), ("in", "the", "year")))
    return (*start, *between, *_year_words(date.year, rng))


def _ordinal_words(day: int) -> Words:
    if day <= 20:
        return (_ORDINALS[day],)
    return ("thirtieth",) if day == 30 else (_TENS[day // 10], _ORDINALS[day % 10])


def _year_words(year: int, rng: random.Random) -> Words:
    century, rest = divmod(year, 100)
    if century == 20 and (rest == 0 or rng.random() < 0.5):
        return number_words(year)
    start = _below_hundred(century)
    if rest == 0:
        return (*start, "hundred")
    if century < 20 and rng.random() < 0.2:
        return (*start, "hundred", "and", *_below_hundred(rest))
    return (*start, *(("oh",) if rest < 10 else ()), *_below_hundred(rest))
