"""Rows of the table of a library."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Row:
    """One class or function of a library.

    Attributes:
        name: its full name, with the type of the layers or the scaling where it has several.
        answer: name of the encoding that the class computes, or the reason why it is not known.
        status: ``named``, ``unnamed`` (waves of no known series), ``not asked``, ``not built``, or
            ``refused`` (it raises at a scaling).
        errors: largest errors of cosines and sines, by condition and position.
    """

    name: str
    answer: str
    status: str
    errors: dict[str, dict[int, float | str]] = dataclasses.field(default_factory=dict)

    def error(self, condition: str, end: int) -> float | None:
        """The largest error under a condition, if there is one.

        Args:
            condition: name of the condition.
            end: last position of the range.
        """
        value = self.errors.get(condition, {}).get(end)
        return value if isinstance(value, float) else None


def brief(error: BaseException) -> str:
    """Name and first line of an error.

    Args:
        error: the error.
    """
    text = printable(error)
    return f"{type(error).__name__}: {text[:100]}" if text else type(error).__name__


def printable(error: BaseException) -> str:
    """First line of an error, without characters that steer a terminal.

    Args:
        error: the error.
    """
    lines = str(error).strip().splitlines()
    return "".join(one if one.isprintable() else "?" for one in lines[0]) if lines else ""
