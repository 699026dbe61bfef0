"""The keys that a sweep varies: paths, names, values."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from flowcontrol.records import Column, ColumnType
from flowcontrol.scenario.overrides import split_key
from flowcontrol.scenario.problems import key_path, show

_TM: Final = "taskmanager.network.memory."
_UNITS: Final = {
    "emit_rate": "records/s per subtask",
    "service_rate": "records/s per subtask",
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
    "execution.buffer-timeout.interval": "ms",
}
"""Unit of a bare number under each key; other keys have none."""


@dataclass(frozen=True)
class Varied:
    """One varied key.

    Attributes
    ----------
    path : tuple of str
        Its place in the scenario, from the top.
    values : tuple
        Its values, plain JSON, each once.
    column : str
        Its column in the results.
    label : str
        Short name: ``sink service_rate``, ``buffers-per-channel``.
    """

    path: tuple[str, ...]
    values: tuple[Any, ...]
    column: str
    label: str

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


def read_path(key: str, base: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the path of a varied key in its one form.

    Parameters
    ----------
    key : str
        As ``--set`` takes it.
    base : mapping
        The scenario file; a stage may be given by its position.

    Returns
    -------
    tuple of str
        ``("stages", "sink", "service_rate")``; an option's key is one part.

    Raises
    ------
    ValueError
        If it is no path.
    """
    first, *rest = split_key(key)
    stages = base.get("stages")
    if first == "stages" and rest and isinstance(stages, list):
        rest[0] = _stage_name(stages, rest[0])
    return first, *rest


def _stage_name(stages: Sequence[Any], key: str) -> str:
    """Return the name of the stage at a position; anything else stays as it is."""
    if key.isdecimal() and int(key) < len(stages) and isinstance(stages[int(key)], Mapping):
        return str(stages[int(key)].get("name", key))
    return key


def name_columns(paths: Sequence[tuple[str, ...]], reserved: Collection[str]) -> list[str]:
    """Return the name of each varied key's column: short, in plain letters, each once.

    Parameters
    ----------
    paths : sequence of tuple of str
        The varied keys.
    reserved : collection of str
        Names of other columns.

    Returns
    -------
    list of str
        ``sink_service_rate``, ``buffers_per_channel``; the whole path if the short name is taken,
        with a number if that is taken too.
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
    """Return the short name of a key: without its list, an option by its last part."""
    first, *rest = path
    if first == "options" and rest:
        return rest[0].rpartition(".")[2]
    if first == "stages":
        return " ".join(rest)
    return rest[-1] if rest else first


def _snake(parts: Sequence[str]) -> str:
    """Return parts as one word of letters, digits and underscores."""
    return re.sub(r"\W+", "_", "_".join(parts)).strip("_").lower()
