"""What a sequence's report shows, to JSON and back, trusting nothing that is read."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from nerf_posenc.training.system import Curve, Evaluation, HeatMap, Passage, Token

_MOST_ITEMS = 100_000
_MOST_TEXT = 1000
_MARKS = ("given", "right", "wrong")


def evaluation_as_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return curves, passages and maps as plain containers."""
    return {
        "curves": [
            {
                "title": curve.title,
                "x_label": curve.x_label,
                "y_label": curve.y_label,
                "xs": list(curve.xs),
                "ys": list(curve.ys),
                "log_x": curve.log_x,
            }
            for curve in evaluation.curves
        ],
        "passages": [
            {
                "title": passage.title,
                "tokens": [[token.text, token.mark, token.truth] for token in passage.tokens],
            }
            for passage in evaluation.passages
        ],
        "maps": [
            {
                "title": heat_map.title,
                "values": [[round(v, 4) for v in row] for row in heat_map.values.tolist()],
                "rows": list(heat_map.rows),
                "columns": list(heat_map.columns),
            }
            for heat_map in evaluation.maps
        ],
    }


def evaluation_from_json(entry: Mapping[str, Any], scores: Mapping[str, float]) -> Evaluation:
    """Read an evaluation back.

    Raises:
        ValueError: If a value is missing or of another type.
    """
    try:
        return Evaluation(
            scores=scores,
            curves=[_curve(each) for each in _list(entry["curves"])],
            passages=[_passage(each) for each in _list(entry["passages"])],
            maps=[_map(each) for each in _list(entry["maps"])],
        )
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"the evaluation of a fit is damaged ({error})") from None


def _curve(entry: Any) -> Curve:
    xs, ys = _numbers(entry["xs"]), _numbers(entry["ys"])
    if len(xs) != len(ys) or not all(map(math.isfinite, xs)):
        raise ValueError("a curve needs finite x and as many y")
    return Curve(
        _text(entry["title"]),
        _text(entry["x_label"]),
        _text(entry["y_label"]),
        xs,
        ys,
        log_x=entry["log_x"] is True,
    )


def _passage(entry: Any) -> Passage:
    tokens = []
    for text, mark, truth in _list(entry["tokens"]):
        if mark not in _MARKS:
            raise ValueError(f"a token is marked {mark!r:.80}; known are {', '.join(_MARKS)}")
        tokens.append(Token(_text(text), mark, None if truth is None else _text(truth)))
    return Passage(_text(entry["title"]), tokens)


def _map(entry: Any) -> HeatMap:
    rows, columns = ([_text(each) for each in _list(entry[side])] for side in ("rows", "columns"))
    values = [_numbers(row) for row in _list(entry["values"])]
    if len(values) != len(rows) or any(len(row) != len(columns) for row in values):
        raise ValueError("a map needs one value for each row and column")
    table = torch.tensor(values).reshape(len(rows), len(columns))
    return HeatMap(_text(entry["title"]), table.clamp(0, 1).nan_to_num(), rows, columns)


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list) or len(value) > _MOST_ITEMS:
        raise ValueError(f"expected a list of at most {_MOST_ITEMS:,} items")
    return value


def _numbers(value: Any) -> list[float]:
    numbers = []
    for each in _list(value):
        # Infinite numbers are written as strings, and NaN as null.
        if each is None or each in ("inf", "-inf"):
            numbers.append(math.nan if each is None else float(each))
        elif isinstance(each, bool) or not isinstance(each, int | float):
            raise ValueError(f"expected a number; got {each!r:.80}")
        else:
            numbers.append(float(each))
    return numbers


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise ValueError(f"expected a text of at most {_MOST_TEXT} characters")
    return value
