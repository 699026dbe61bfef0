"""The keys that a sweep varies: paths, names, and values as the command line lists them.

``1,2,4`` is a list of YAML values; ``1000:10000:50`` is a range of 50 points from 1000 to 10000,
both included. The two may be mixed: ``0,100:400:4``. Points between the ends are rounded to a
ten-thousandth of the step, or finer: 1000, 1183.67, 1367.35 ...
"""

import json
import math
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import yaml

from flowcontrol.records import Column, ColumnType
from flowcontrol.scenario.fields import exact
from flowcontrol.scenario.option_table import OPTIONS
from flowcontrol.scenario.problems import key_path, show
from flowcontrol.scenario.syntax import read_yaml_value

_TM: Final = "taskmanager.network.memory."
_UNITS: Final = {
    "emit_rate": "records/s per subtask",
    "arrival_rate": "records/s per subtask",
    "service_rate": "records/s per subtask",
    "total_rate": "records/s",
    "total_arrival_rate": "records/s",
    "record_bytes": "bytes",
    "parallelism": "subtasks",
    "selectivity": "records out per record in",
    "duration_s": "s",
    "sample_interval_s": "s",
    "round_ms": "ms",
    "network_latency_ms": "ms",
    "bandwidth_bytes_per_s": "bytes/s",
    "serialization_bytes_per_s": "bytes/s",
    "task_managers": "task managers",
    "slots": "slots",
    "taskmanager.memory.segment-size": "bytes",
    "taskmanager.network.numberOfBuffers": "buffers",
    f"{_TM}buffers-per-channel": "buffers",
    f"{_TM}floating-buffers-per-gate": "buffers",
    f"{_TM}max-buffers-per-channel": "buffers",
    f"{_TM}max-overdraft-buffers-per-gate": "buffers",
    "upload_bytes_per_s": "bytes/s",
    "restore_bytes_per_s": "bytes/s",
    **{key: "ms" for key, option in OPTIONS.items() if option.kind == "duration"},
}
"""Unit of a bare number under each key; other keys have none."""


@dataclass(frozen=True)
class Varied:
    """One varied key."""

    path: tuple[str, ...]  # Its place in the scenario, from the top
    values: tuple[Any, ...]  # Its values, plain JSON, each once
    column: str  # Its column in the results
    label: str  # Short name: ``sink service_rate``, ``buffers-per-channel``

    @property
    def key(self) -> str:
        """The path as the command line takes it."""
        return key_path(self.path)

    @cached_property
    def is_numeric(self) -> bool:
        """Whether every value is a number."""
        return all(_is_number(value) for value in self.values)

    @property
    def unit(self) -> str:
        """Unit of the numbers; empty for texts, which carry their own."""
        return _UNITS.get(self.path[-1], "") if self.is_numeric else ""

    @property
    def title(self) -> str:
        """Label with its unit, for an axis."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def typed(self, value: Any) -> Any:
        """Return a value as its column holds it."""
        if self._type == "string":
            return value if isinstance(value, str) else show_value(value)
        return float(value) if self._type == "float64" else value

    def result_column(self) -> Column:
        """Return the declaration of its column."""
        return Column(self.column, self._type, self.unit, f"Varied: {self.key}.")

    @cached_property
    def _type(self) -> ColumnType:
        if not self.is_numeric:
            return "string"
        return "int64" if all(isinstance(value, int) for value in self.values) else "float64"


def show_value(value: Any) -> str:
    """Return a value as text for tables and axes."""
    return value if isinstance(value, str) else show(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def name_columns(paths: Sequence[tuple[str, ...]], reserved: Collection[str]) -> list[str]:
    """Return the name of each varied key's column: short, in plain letters, each once.

    Returns ``sink_service_rate``, ``buffers_per_channel``; the whole path if the short name is
    taken, with a number if that is taken too.
    """
    short = [_snake([label_of(path)]) for path in paths]
    names: list[str] = []
    for path, name in zip(paths, short, strict=True):
        whole = _snake(path)
        chosen = whole if name in reserved or short.count(name) > 1 else name
        number = 1
        while chosen in reserved or chosen in names:
            number += 1
            chosen = f"{whole}_{number}"
        names.append(chosen)
    return names


def label_of(path: tuple[str, ...]) -> str:
    """Return the short name of a key: without its list, an option by its last part.

    One that ends in a plain word, as many do (``enabled``, ``interval``), has the part before, too.
    """
    first, *rest = path
    if first == "options" and rest:
        *_, before, last = ("", *rest[0].split("."))
        is_word = last.isalpha() and last.islower()
        return f"{before} {last}".strip() if is_word else last
    if first == "stages":
        return " ".join(rest)
    return rest[-1] if rest else first


def _snake(parts: Sequence[str]) -> str:
    """Return parts as one word of letters, digits and underscores."""
    return re.sub(r"\W+", "_", "_".join(parts)).strip("_").lower()


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

    Raises ValueError if there is no key, or nothing after it.
    """
    key, equals, values = text.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise ValueError(f"{show(text)} is not of the form KEY=VALUES")
    return key.strip(), values


def read_values(text: str) -> tuple[Any, ...]:
    """Return the values that a text lists.

    ``text``: YAML values with commas between them; a range is ``START:STOP:COUNT``.

    In their order. The points of a range are whole numbers if all of them are. Raises ValueError if
    the text is not a list, a range has fewer than two points, or a value is repeated.

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
        what = "is not a list of values with commas between them"
        raise ValueError(f"{show(text)} {what}") from error
    values: list[Any] = []
    for item in items:
        is_range = isinstance(item, str) and _LIKE_A_RANGE.fullmatch(item)
        values += _points(item) if is_range else [item]
    return plain_values(values)


def plain_values(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return values as plain JSON, each once.

    Raises ValueError if there are none or too many, or one is not finite, not JSON, or repeated.
    """
    if not isinstance(values, Iterable) or isinstance(values, Mapping):
        raise ValueError(f"{show(values)} is not a list of values")
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
        raise ValueError(f"{show(value)} is not a value that a scenario file can state") from error


def _points(text: str) -> list[int] | list[float]:
    """Return the points of a range."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{show(text)} is not a range: write START:STOP:COUNT, COUNT points with both ends "
            "included, such as 1000:10000:50"
        )
    start, stop = (exact(read_yaml_value(end)) for end in match.group(1, 2))
    count = int(match[3])
    if start is None or stop is None or max(abs(start), abs(stop)) > sys.float_info.max:
        raise ValueError(
            f"{show(text)}: an end is beyond {sys.float_info.max:.2g}: state a nearer one"
        )
    if not 2 <= count <= MAX_POINTS:
        raise ValueError(f"{show(text)}: a range has 2 to {MAX_POINTS:,} points, not {count}")
    step = (stop - start) / (count - 1)
    if float(step) == 0:
        raise ValueError(f"{show(text)}: both ends are {match[1]}: state the value alone")
    decimals = max(0, _STEP_DIGITS - math.floor(math.log10(abs(step))))
    inner = [round(start + index * step, decimals) for index in range(1, count - 1)]
    points = [start, *inner, stop]
    if all(point.denominator == 1 for point in points):
        return [int(point) for point in points]
    return [float(point) for point in points]
