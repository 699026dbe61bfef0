"""Values of a varied key on the command line: a list of values and ranges.

``1,2,4`` is a list of YAML values; ``1000:10000:50`` is a range of 50 points from 1000 to 10000,
both included. The two may be mixed: ``0,100:400:4``. Points between the ends are rounded to a
ten-thousandth of the step, or finer: 1000, 1183.67, 1367.35 ...
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

import yaml

from flowcontrol.scenario.problems import show
from flowcontrol.scenario.yaml_file import read_yaml_value

MAX_POINTS: Final = 1_000_000
"""Most values of one key, and most variants of a sweep: each is checked and kept in memory."""

_EXACT: Final = 2.0**53
"""Below it every whole double is an exact integer."""

_STEP_DIGITS: Final = 4
"""Digits behind the first one of a range's step that its points are rounded to: 1183.67 reads
better on an axis than 1183.673469387755."""

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"\s*({_NUMBER}):({_NUMBER}):(\d+)\s*")
_LIKE_A_RANGE = re.compile(rf"\s*{_NUMBER}:{_NUMBER}(?::.*)?")


def split_assignment(text: str) -> tuple[str, str]:
    """Return key and values of ``KEY=VALUES``.

    Raises
    ------
    ValueError
        If there is no key, or nothing after it.
    """
    key, equals, values = text.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise ValueError(f"{show(text)} is not of the form KEY=VALUES")
    return key.strip(), values


def read_values(text: str) -> tuple[Any, ...]:
    """Return the values that a text lists.

    Parameters
    ----------
    text : str
        YAML values with commas between them; a range is ``START:STOP:COUNT``.

    Returns
    -------
    tuple
        In their order. The points of a range are whole numbers if all of them are.

    Raises
    ------
    ValueError
        If the text is not a list, a range has fewer than two points, or a value is repeated.

    Examples
    --------
    >>> read_values("1,2,4")
    (1, 2, 4)
    >>> read_values("10:40:4, 4kb")
    (10, 20, 30, 40, '4kb')
    """
    try:
        items = read_yaml_value(f"[{text}]")
    except yaml.YAMLError as error:
        raise ValueError(f"{show(text)} is no list of values with commas between them") from error
    values: list[Any] = []
    for item in items:
        is_range = isinstance(item, str) and _LIKE_A_RANGE.fullmatch(item)
        values += _points(item) if is_range else [item]
    return plain_values(values)


def plain_values(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return values as plain JSON, each once.

    Parameters
    ----------
    values : iterable
        Numbers (of numpy too), texts, or other values of a scenario file.

    Returns
    -------
    tuple
        The values as JSON has them.

    Raises
    ------
    ValueError
        If there are none or too many, or one is not finite, not JSON, or repeated.
    """
    if not isinstance(values, Iterable) or isinstance(values, Mapping):
        raise ValueError(f"{show(values)} is no list of values")
    plain: list[Any] = []
    seen: set[str] = set()
    for value in values:
        value = value.item() if hasattr(value, "item") else value
        text = _json(value)
        if text in seen:
            raise ValueError(f"{show(value)} is repeated: state each value once")
        seen.add(text)
        plain.append(json.loads(text))
        if len(plain) > MAX_POINTS:
            raise ValueError(f"more than {MAX_POINTS:,} values: state fewer")
    if not plain:
        raise ValueError("no value: state at least one")
    return tuple(plain)


def _json(value: Any) -> str:
    """Return JSON that is equal for equal numbers."""
    if isinstance(value, float) and abs(value) < _EXACT and value.is_integer():
        value = int(value)
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{show(value)} is no value that a scenario file can state") from error


def _points(text: str) -> list[int] | list[float]:
    """Return the points of a range."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{show(text)} is no range: write START:STOP:COUNT, COUNT points with both ends "
            "included, such as 1000:10000:50"
        )
    start, stop, count = Fraction(match[1]), Fraction(match[2]), int(match[3])
    if not 2 <= count <= MAX_POINTS:
        raise ValueError(f"{show(text)}: a range has 2 to {MAX_POINTS:,} points, not {count}")
    if start == stop:
        raise ValueError(f"{show(text)}: both ends are {match[1]}: state the value alone")
    step = (stop - start) / (count - 1)
    decimals = max(0, _STEP_DIGITS - math.floor(math.log10(abs(step))))
    inner = [round(start + index * step, decimals) for index in range(1, count - 1)]
    points = [start, *inner, stop]
    if all(point.denominator == 1 for point in points):
        return [int(point) for point in points]
    return [float(point) for point in points]
