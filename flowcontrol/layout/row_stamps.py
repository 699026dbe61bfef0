"""Stamps of replayed rows: when each happened, and which of the different rows it is.

Rows that windows cannot tell apart are one: those of the same keys, with the same values in the
columns that are aggregated. Each of these has a number, its id; whoever knows the table of ids
knows key and values of a record by its stamp alone. Ids follow the order of the keys' texts, then
of the values, so they depend on which rows there are and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flowcontrol.arrays import Ints, pa, pc
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.layout import row_values as c
from flowcontrol.protocol.event_time import ID_BITS, IDS, LAST_TIME

if TYPE_CHECKING:
    from flowcontrol.layout.graph import JobVertex
    from flowcontrol.layout.job import Job
    from flowcontrol.scenario import Edge, Scenario


Convert = Callable[["pa.Array"], "pa.Array | None"]

ROWS = "rows"
"""Column of a table of ids: how many rows have each."""


@dataclass(frozen=True)
class RowNeeds:
    """What the stamps of a source's rows are made of."""

    place: str  # Of the source in the scenario, as ``stages[0]``
    file: str  # Name of its input
    time: str | None  # Column with the event times; None: they are made
    keys: tuple[str, ...]  # Columns with the keys of windows
    values: tuple[str, ...]  # Columns that windows aggregate

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, each once."""
        times = () if self.time is None else (self.time,)
        return tuple(dict.fromkeys((*times, *self.keys, *self.values)))

    def refused(self, key: str, text: str) -> ScenarioError:
        """Return the refusal of something in the rows."""
        return ScenarioError([Problem(f"{self.place}.{key}", text)], self.file)


@dataclass(frozen=True)
class StampedRows:
    """The rows of a source, as far as event time and windows look at them."""

    # Of each row: its time, ms, above its id; the time is 0 where times are made (shape (rows,)).
    stamps: Ints
    # A row for each id, in order: columns ``key:NAME`` with texts, ``value:NAME``, and ``rows``.
    ids: pa.Table


def key_name(column: str) -> str:
    """Return the name of a key column in a table of ids."""
    return f"key:{column}"


def value_name(column: str) -> str:
    """Return the name of an aggregated column in a table of ids."""
    return f"value:{column}"


def row_needs(job: Job, plan: JobVertex) -> RowNeeds | None:
    """Return what the stamps of a source's rows are made of; None: of nothing in the rows."""
    scenario, stage = job.scenario, plan.stage
    if stage.input is None:
        return None
    times = stage.event_time
    keys, values = list[str](), list[str]()
    below = {stage.name, *scenario.downstream(stage.name)}
    windows = [one for one in scenario.stages if one.name in below and one.window is not None]
    for one in windows:
        for edge in scenario.inputs(one.name):
            keys += filter(None, [key_columns(scenario, edge).get(stage.name)])
        values += aggregated(scenario, one.name)
    if not windows and (times is None or times.column is None):
        return None
    return RowNeeds(
        f"stages[{scenario.stages.index(stage)}]",
        Path(stage.input.path).name,
        None if times is None else times.column,
        tuple(dict.fromkeys(keys)),
        tuple(dict.fromkeys(values)),
    )


def aggregated(scenario: Scenario, stage: str) -> list[str]:
    """Return the columns that the window of a stage aggregates, each once."""
    window = scenario.window_of(stage)
    columns = [] if window is None else [one.column for one in window.aggregations]
    return list(dict.fromkeys(column for column in columns if column is not None))


def key_columns(scenario: Scenario, edge: Edge) -> dict[str, str | None]:
    """Return the column with the key of each record of an edge, by the source that replays it.

    That of the edge, else of the input; the results of a window have the keys of that window. None:
    all have one key.
    """
    sender = scenario.stage(edge.sender)
    if sender.input is not None:
        return {sender.name: edge.key or sender.input.key}
    found: dict[str, str | None] = {}
    for above in scenario.inputs(edge.sender):
        found |= key_columns(scenario, above)
    is_result = sender.window is not None
    return found if edge.key is None or is_result else dict.fromkeys(found, edge.key)


class RowStamper:
    """Gives the rows of a source their stamps."""

    def __init__(self, needs: RowNeeds) -> None:
        self._needs = needs
        self._count = 0
        self._times: list[Ints] = []
        self._columns: dict[str, list[pa.Array]] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the next rows.

        Raises ScenarioError if one of them has no event time or one that no stamp can hold, a key
        without a text, or a value that is not a number.
        """
        needs = self._needs
        if needs.time is not None:
            place = "event_time.column"
            moments = self._converted(batch, needs.time, c.as_moments, place, "timestamp")
            self._times.append(self._times_of(moments, place, needs.time))
        for name in needs.keys:
            texts = self._texts_of(batch.column(name), name).dictionary_encode()
            self._columns.setdefault(key_name(name), []).append(texts)
        for name in needs.values:
            values = self._converted(batch, name, c.as_numbers, "input", "number")
            self._columns.setdefault(value_name(name), []).append(values)
        self._count += len(batch)

    def finish(self) -> StampedRows:
        """Return the stamps, when all rows have come.

        Raises ScenarioError if there are more different rows than ids.
        """
        columns = {
            name: pa.chunked_array(parts).unify_dictionaries().combine_chunks()
            for name, parts in self._columns.items()
        }
        ids, table = _identified(columns, self._count)
        if len(table) > IDS:
            raise self._needs.refused("input", self._too_many(len(table)))
        times = np.concatenate(self._times) if self._times else np.zeros(self._count, np.int64)
        return StampedRows((times << ID_BITS) | ids, table)

    def _converted(
        self, batch: pa.RecordBatch, name: str, convert: Convert, place: str, wanted: str
    ) -> pa.Array:
        """Return a column of a batch as what it should hold."""
        column = batch.column(name)
        found = convert(column)
        if found is None:
            row = c.first_misfit(column, convert)
            text = f"{name!r} of {self._needs.file} is {column[row].as_py()!r} in row"
            why = f"which {_why_misfit(column[row].as_py(), wanted)}"
            text = f"{text} {self._number(row)}, {why}: mend the row, leave it out,"
            raise self._needs.refused(place, f"{text} or name another column")
        return found

    def _texts_of(self, keys: pa.Array, name: str) -> pa.Array:
        """Return the keys of rows as texts."""
        try:
            return c.key_texts(keys)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            text = f"{name!r} of {self._needs.file} is not a key: values of its type, {keys.type},"
            text = f"{text} have no text to be grouped by: name another column as the key"
            raise self._needs.refused("input", text) from error

    def _times_of(self, moments: pa.Array, place: str, name: str) -> Ints:
        """Return the event times of rows, ms."""
        row = c.first_null(moments)
        if row is not None:
            text = f"{name!r} of {self._needs.file} has no value in row {self._number(row)}, and"
            text = f"{text} such a record has no event time: leave these rows out of the input, or"
            raise self._needs.refused(place, f"{text} name another column")
        found = c.milliseconds(moments)
        beyond = np.flatnonzero((found > LAST_TIME) | (found < -LAST_TIME - 1))
        if len(beyond) > 0:
            row = int(beyond[0])
            text = f"{name!r} of {self._needs.file} is {_shown(moments, row)} in row"
            text = f"{text} {self._number(row)}:"
            text = f"{text} event times lie between the years 1830 and 2109: mend the row, or leave"
            raise self._needs.refused(place, f"{text} it out")
        return found

    def _number(self, row: int) -> str:
        """Return the number of a row of this batch in the whole input, from 1."""
        return f"{self._count + row + 1:,}"

    def _too_many(self, count: int) -> str:
        needs = self._needs
        what = ", ".join(map(repr, dict.fromkeys((*needs.keys, *needs.values))))
        text = f"{needs.file} has {count:,} different rows of {what}, at most {IDS:,} are possible:"
        if needs.values:
            return f"{text} aggregate fewer columns, or a rounded one"
        return f"{text} name a key with fewer values"


def _shown(moments: pa.Array, row: int) -> str:
    """Return a moment as text, however far away it is."""
    return str(moments.slice(row, 1).cast(pa.string())[0].as_py())


def _identified(columns: dict[str, pa.Array], count: int) -> tuple[Ints, pa.Table]:
    """Return the id of each row, and the table of ids."""
    codes: Ints = np.zeros(count, np.int64)
    for column in columns.values():
        ranks, width = _ranks(column)
        _, codes = np.unique(codes * width + ranks, return_inverse=True)
        codes = codes.reshape(-1).astype(np.int64)
    _, firsts, counts = np.unique(codes, return_index=True, return_counts=True)
    table = {name: column.take(pa.array(firsts)) for name, column in columns.items()}
    for name, column in table.items():
        if pa.types.is_dictionary(column.type):
            table[name] = column.dictionary_decode()
    return codes, pa.table({**table, ROWS: counts})


def _ranks(column: pa.Array) -> tuple[Ints, int]:
    """Return the place of each value among the different ones in their order, and how many."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode(null_encoding="encode")
    order = pc.sort_indices(column.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[column.indices.to_numpy()], max(1, len(order))


def dealt(rows: Ints, subtasks: int) -> Iterator[Ints]:
    """Yield the rows of each subtask: row *i* is of subtask *i mod n*."""
    return (rows[index::subtasks] for index in range(subtasks))


def stamp_rows(needs: RowNeeds, batches: Sequence[pa.RecordBatch]) -> StampedRows:
    """Return the stamps of rows that are all there; see :class:`RowStamper`."""
    stamper = RowStamper(needs)
    for batch in batches:
        stamper.add(batch)
    return stamper.finish()


def _why_misfit(value: Any, wanted: str) -> str:
    """Return why a value is not what a column should hold."""
    if isinstance(value, int):
        return f"a window cannot add up: whole numbers lie between {c.LEAST:,} and {c.MOST:,}"
    return f"is not a {'finite ' * isinstance(value, float)}{wanted}"
