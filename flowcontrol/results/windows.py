"""The result table of the results of windows, read from the logs of the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from flowcontrol.arrays import Ints, pa
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import NO_KEYS, RowKeys
from flowcontrol.layout.row_values import NO_COLUMNS, WindowColumns, WindowValues, sums_within
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.part_fields import KernelResult
from flowcontrol.protocol.windows.firing import FURTHER
from flowcontrol.records import RESULTS_OF_WINDOWS, Column, Table
from flowcontrol.scenario.key_distribution import key_names as names_on_edges
from flowcontrol.state.declared import columns
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME
from flowcontrol.trace.round_state import Result

if TYPE_CHECKING:
    from flowcontrol.scenario.windows import Aggregation, WindowPlan


EMITTED = "emitted_s"
"""Column of the table that results on their way do not have."""


def table_name(stage: str) -> str:
    """Return the name of the table of a stage's results: its folder below that of the run.

    The same as that of a sink's rows on the live clock.
    """
    return f"output/{stage}"


def late_name(table: str) -> str:
    """Return the name of the table of the rows that are late for the windows of a stage."""
    return f"{table}_late"


def window_stages(job: Job) -> list[str]:
    """Return the stages that have a window."""
    return [stage.name for stage in job.scenario.stages if stage.window is not None]


class Aggregated(NamedTuple):
    """The aggregates of a column of some windows, in its units."""

    valued: Ints  # Records that have a value (shape (results,))
    sum: Ints  # sum, min, max: of these values; 0 where there are none (shape (results,))
    min: Ints
    max: Ints
    # How often the sum has left 64 bits: the whole is ``sum + wraps * 2**64`` (shape (results,)).
    wraps: Ints


def further_columns(rows: Ints) -> list[Aggregated]:
    """Return the aggregates of columns that stand one behind the other.

    ``rows`` (shape (5 * columns, results)): of each column what an :class:`Aggregated` has, in that
    order.
    """
    each = len(Aggregated._fields)
    return [Aggregated(*rows[at : at + each]) for at in range(0, len(rows), each)]


def declared(window: WindowPlan, aggregated: WindowColumns = NO_COLUMNS) -> Table:
    """Return the columns of a window's results: its aggregates stand before the time.

    ``aggregated``: what it aggregates besides the number of records.
    """
    *before, emitted = RESULTS_OF_WINDOWS.columns
    own = [_column(one, aggregated) for one in window.aggregations]
    return replace(RESULTS_OF_WINDOWS, columns=(*before, *own, emitted))


def result_schema(window: WindowPlan, aggregated: WindowColumns = NO_COLUMNS) -> pa.Schema:
    """Return the columns of results as a stage sends them on; as :func:`declared`."""
    schema = declared(window, aggregated).arrow_schema()
    return schema.remove(schema.get_field_index(EMITTED))


def _column(one: Aggregation, aggregated: WindowColumns) -> Column:
    if one.column is None:
        return Column(one.name, "int64", "records", "Aggregate count of the window.")
    text = f"Aggregate {one.function} of the column {one.column}; null without a value."
    values = aggregated.by_name.get(one.column)
    is_long = one.function != "avg" and (values is None or values.is_whole)
    return Column(one.name, "int64" if is_long else "float64", "", text, nullable=True)


def key_names(job: Job, stage: str, rows: RowKeys = NO_KEYS) -> Sequence[str]:
    """Return the names of the keys of a stage's records, by number.

    The texts of those that rows bring; those that the edges into it name, together; else, as of a
    ``key_distribution``, 1, 2, 3 ...

    ``rows``: which keys replayed rows have; by default there are none.
    """
    if stage in rows.names:
        return rows.names[stage]
    named = names_on_edges(job.scenario.inputs(stage))
    if named:
        return named
    window = job.scenario.window_of(stage)
    keys = 1 if window is None or window.keys is None else window.keys
    return [str(rank) for rank in range(1, keys + 1)]


def window_table(
    job: Job,
    stage: str,
    starts: Ints,
    ends: Ints,
    keys: Ints,
    counts: Ints,
    rounds: Ints,
    *,
    values: Sequence[Aggregated] = (),
    rows: RowKeys = NO_KEYS,
) -> pa.Table:
    """Return the results of a window stage, in the order in which they were put out.

    - ``starts``, ``ends`` (shape (results,)): of the windows, ms; the second is behind the last
      millisecond.
    - ``keys``, ``counts`` (shape (results,)): number of the key, and records in the window.
    - ``rounds`` (shape (results,)): in which it was put out.
    - ``values``: what became of the values of the columns that the window aggregates, in their
      order; more are not looked at.
    - ``rows``: which keys and values replayed rows have; by default there are none.
    """
    window = job.scenario.window_of(stage)
    assert window is not None
    names, aggregated = np.array(key_names(job, stage, rows), object), rows.columns_of(stage)
    by_name = dict(zip(aggregated.by_name, values, strict=False))
    columns = {
        "window_start": pa.array(starts / 1000, mask=starts == MIN_TIME),
        "window_end": pa.array(ends / 1000, mask=ends == MAX_TIME),
        "key": names[keys],
        "emitted_s": (rounds + 1) * (job.round_us / 1e6),
    }
    for one in window.aggregations:
        columns[one.name] = counts
        if one.column is not None:
            own = aggregated.by_name[one.column]
            columns[one.name] = _aggregate(one.function, by_name[one.column], own)
    schema = declared(window, aggregated).arrow_schema()
    return pa.table([pa.array(columns[one.name], one.type) for one in schema], schema)


def _aggregate(function: str, values: Aggregated, own: WindowValues) -> pa.Array:
    """Return an aggregate of a column; null where no record has a value."""
    if function == "avg":
        found = own.means(values.sum, values.wraps, values.valued)
    elif function == "sum":
        found = own.numbers(sums_within(values.sum, values.wraps))
    else:
        found = own.numbers(getattr(values, function))
    return pa.array(found, mask=values.valued == 0)


class WindowResults:
    """Collects what windows put out."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._parts: list[Any] = []

    def drain(self) -> None:
        """Empty the log, keeping what it says."""
        head = self._memory.head
        if head.results_count > 0:
            self._parts.append(self._memory.results[: head.results_count].copy())
            head.results_count = 0

    def take(self) -> Any:
        """Return all results since they were taken before, in order, as a structured array."""
        self.drain()
        found, self._parts = np.concatenate([self._memory.results[:0], *self._parts]), []
        return found

    def tables(self, job: Job, rows: RowKeys = NO_KEYS) -> dict[str, pa.Table]:
        """Return the results since they were taken before as tables, one a stage with windows.

        ``rows``: which keys and values replayed rows have; by default there are none.
        """
        stages, found = window_stages(job), dict[str, "pa.Table"]()
        if not stages:
            return found
        log = self.take()
        for stage in stages:
            first, count = self._memory.places.tasks[stage], job.stage(stage).stage.parallelism
            own = log[(log["task"] >= first) & (log["task"] < first + count)]
            named = (own[name] for name in ("start", "end", "key", "count", "round"))
            of_first = Aggregated(*(own[name] for name in Aggregated._fields))
            values = (of_first, *further_columns(own[FURTHER].T))
            found[table_name(stage)] = window_table(job, stage, *named, values=values, rows=rows)
        return found


def results_by_task(found: Any) -> dict[int, tuple[Result, ...]]:
    """Return results by number of the task, with room for the columns of any."""
    own: dict[int, list[Result]] = {}
    rows = found[list(columns(KernelResult))].tolist()
    for (task, *values), further in zip(rows, found[FURTHER].tolist(), strict=True):
        own.setdefault(task, []).append(Result(*values)._replace(further=tuple(further)))
    return {task: tuple(results) for task, results in own.items()}
