"""Which key, and which value, each id of replayed rows stands for, at each window of a job.

Ids of several sources follow one another, in the order of the stages. So the id of a stamp says
from which source its record is, wherever it goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import numpy.typing as npt

from flowcontrol.arrays import Ints, pa
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.job.row_stamps import ROWS, aggregated, key_columns, key_name, value_name
from flowcontrol.job.row_values import NO_COLUMNS, WindowColumns, values_of
from flowcontrol.protocol.event_time.stamps import IDS

if TYPE_CHECKING:
    from flowcontrol.job.job import Job
    from flowcontrol.protocol.rows import Row
    from flowcontrol.scenario import Edge


ONE_KEY: Final = "1"
"""Name of the key of rows that have none."""


@dataclass(frozen=True)
class IdKeys:
    """The keys of the records of an edge into a window.

    Attributes
    ----------
    numbers : ndarray of int64, shape (ids,)
        Number of the key of each id, from 0.
    firsts : ndarray of int64, shape (keys,)
        The first id of each key of the window: that of its results.
    """

    numbers: Ints
    firsts: Ints


@dataclass(frozen=True)
class RowKeys:
    """Keys and values of the replayed rows of a job.

    Attributes
    ----------
    offsets : dict of str to int
        First id of each replaying source.
    names : dict of str to tuple of str
        By stage with a window: the texts of the keys of its records, in their order.
    edges : dict of str to IdKeys
        By edge into a window, as ``map->count``.
    columns : dict of str to WindowColumns
        By stage with a window that aggregates columns.
    """

    offsets: dict[str, int] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    edges: dict[str, IdKeys] = field(default_factory=dict)
    columns: dict[str, WindowColumns] = field(default_factory=dict)

    @property
    def further(self) -> int:
        """How many columns a window aggregates beside the first, at most."""
        return max((own.further for own in self.columns.values()), default=0)

    def columns_of(self, stage: str) -> WindowColumns:
        """Return the columns that the window of a stage aggregates."""
        return self.columns.get(stage, NO_COLUMNS)


NO_KEYS: Final = RowKeys()
"""Of a job whose windows have no replayed rows."""


def row_of(values: Ints | None) -> Row:
    """Return numbers as a row of plain integers, without a copy; empty: there are none."""
    return cast("Row", (np.zeros(0, np.int64) if values is None else values).data)


def row_keys(job: Job, tables: Mapping[str, pa.Table]) -> RowKeys:
    """Return keys and values of the replayed rows of a job.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    tables : mapping of str to pyarrow.Table
        By replaying source whose rows a window sees, or that have event times: its ids
        (:class:`flowcontrol.job.row_stamps.StampedRows`).

    Raises
    ------
    ScenarioError
        If all sources together have more ids than a stamp can tell apart.
    """
    offsets, total = dict[str, int](), 0
    for plan in job.stages:
        if plan.name in tables:
            offsets[plan.name] = total
            total += len(tables[plan.name])
    if total > IDS:
        text = f"{', '.join(offsets)} have {total:,} different rows together, at most {IDS:,} are"
        text = f"{text} possible: name keys with fewer values, or aggregate fewer columns"
        raise ScenarioError([Problem("stages", text)], job.scenario.name)
    found = RowKeys(offsets)
    for stage in job.scenario.stages:
        window = job.scenario.window_of(stage.name)
        if window is not None and window.keys is None:
            _add_window(found, job, stage.name, tables, total)
    return found


def _add_window(
    found: RowKeys, job: Job, stage: str, tables: Mapping[str, pa.Table], total: int
) -> None:
    edges = job.scenario.inputs(stage)
    texts = {f"{edge.sender}->{stage}": _texts(job, edge, tables) for edge in edges}
    # Another source may have a column of the same name, of other values or of another type.
    tables = {source: tables[source] for own in texts.values() for source in own}
    named = {text for own in texts.values() for each in own.values() for text in np.unique(each)}
    names = np.array(sorted(named) or [ONE_KEY], object)
    found.names[stage] = tuple(names)
    firsts = np.full(len(names), total, np.int64)
    numbers = dict[str, Ints]()
    for edge, own in texts.items():
        numbers[edge] = np.zeros(total, np.int64)
        for source, each in own.items():
            at, codes = found.offsets[source], np.searchsorted(names, each).astype(np.int64)
            numbers[edge][at : at + len(each)] = codes
            np.minimum.at(firsts, codes, at + np.arange(len(each)))
    for edge, own_numbers in numbers.items():
        found.edges[edge] = IdKeys(own_numbers, firsts)
    columns = aggregated(job.scenario, stage)
    if columns:
        by_name = {name: values_of(_columns(found, name, tables), total) for name in columns}
        found.columns[stage] = WindowColumns(by_name)


def _texts(
    job: Job, edge: Edge, tables: Mapping[str, pa.Table]
) -> dict[str, npt.NDArray[np.object_]]:
    """Return the text of the key of each id that comes over an edge, by its source."""
    found = dict[str, npt.NDArray[np.object_]]()
    for source, column in key_columns(job.scenario, edge).items():
        table = tables[source]
        if column is None:
            found[source] = np.full(len(table), ONE_KEY, object)
        else:
            found[source] = np.array(table.column(key_name(column)).to_pylist(), object)
    return found


def _columns(
    found: RowKeys, column: str, tables: Mapping[str, pa.Table]
) -> list[tuple[int, pa.ChunkedArray, Ints]]:
    """Return first id, values and numbers of rows of each source that has an aggregated column."""
    name = value_name(column)
    return [
        (found.offsets[source], table.column(name), table.column(ROWS).to_numpy())
        for source, table in tables.items()
        if name in table.column_names
    ]
