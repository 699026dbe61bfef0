"""Replayed rows as the rules see them: how many, their keys, their stamps.

Row *i* of an input is record *i // n* of subtask *i mod n* (*n* subtasks). Which channel a record
goes to decides when a task blocks, so it is known beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy import typing as npt

from flowcontrol.arrays import Ints, pa
from flowcontrol.errors import Problem, RunError, ScenarioError
from flowcontrol.layout.graph import JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.layout.row_stamps import (
    ROWS,
    aggregated,
    dealt,
    key_columns,
    key_name,
    row_needs,
    stamp_rows,
    value_name,
)
from flowcontrol.layout.row_values import NO_COLUMNS, WindowColumns, key_texts, values_of
from flowcontrol.protocol.event_time import IDS
from flowcontrol.protocol.network.partitioners import channel_of_key, default_max_parallelism
from flowcontrol.protocol.windows.contents import BLOCK_BITS
from flowcontrol.scenario.inputs import read_rows
from flowcontrol.scenario.stage_models import Input

if TYPE_CHECKING:
    from flowcontrol.scenario import Edge


# --- Which key, and which value, each id of replayed rows stands for, at each window of a job.
#
# Ids of several sources follow one another, in the order of the stages. So the id of a stamp
# says from which source its record is, wherever it goes.


ONE_KEY: Final = "1"
"""Name of the key of rows that have none."""


NOTHING: Ints = np.zeros(0, np.int64)


LEAST_GUIDED = 100
"""Keys from which on a guide is worth its memory."""


@dataclass(frozen=True)
class LinkKeys:
    """The keys of the records of an edge into windows."""

    keys: int  # How many there are
    firsts: Ints  # First id of each key: that of its results; empty: all are alike
    # Channel of each key; empty: the edge does not route by key.
    owners: Ints = field(default_factory=lambda: NOTHING)
    # Key of each id, of replayed rows; empty: records are made.
    numbers: Ints = field(default_factory=lambda: NOTHING)

    @cached_property
    def guide(self) -> Ints:
        """The guide to ``firsts`` (:func:`flowcontrol.protocol.windows.contents.key_of`)."""
        if len(self.firsts) < LEAST_GUIDED or len(self.numbers) > 0:
            return NOTHING
        blocks = np.arange(0, IDS + 1, 1 << BLOCK_BITS)
        return np.searchsorted(self.firsts, blocks, side="right") - 1

    @property
    def routes(self) -> bool:
        """Whether the edge sends each record to the subtask of its key."""
        return len(self.owners) > 0


@dataclass(frozen=True)
class RowKeys:
    """Keys and values of the replayed rows of a job."""

    offsets: dict[str, int] = field(default_factory=dict)  # First id of each replaying source
    # By stage with a window: the texts of the keys of its records, in their order.
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # By edge into a window, as ``map->count``.
    edges: dict[str, LinkKeys] = field(default_factory=dict)
    # By stage with a window that aggregates columns.
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


def row_keys(job: Job, tables: Mapping[str, pa.Table]) -> RowKeys:
    """Return keys and values of the replayed rows of a job.

    ``tables``: by replaying source whose rows a window sees, or that have event times: its ids
    (:class:`flowcontrol.layout.row_stamps.StampedRows`).

    Raises ScenarioError if all sources together have more ids than a stamp can tell apart.
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
        found.edges[edge] = LinkKeys(len(names), firsts, numbers=own_numbers)
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


# --- What the rules must know of replayed rows: how many there are, where a key sends each, its
# stamp.


@dataclass(frozen=True)
class Replayed:
    """The replayed rows of a job, as far as the rules look at them."""

    # By stage and subtask of a replaying source: records that it has.
    limits: dict[tuple[str, int], int] = field(default_factory=dict)
    # By edge that a key routes, and its sender: subpartition of each record (shape (records,)).
    tables: dict[tuple[str, int], Ints] = field(default_factory=dict)
    # By stage and subtask of a source whose rows have event times, or are in windows: the stamp of
    # each record; its time is 0 where times are made (shape (records,)).
    stamps: dict[tuple[str, int], Ints] = field(default_factory=dict)
    keys: RowKeys = NO_KEYS  # Which key and value an id of these stands for


NO_ROWS = Replayed()
"""Of a job whose sources make their rows up."""


def read_columns(stage: str, source: Input, names: Sequence[str]) -> list[pa.RecordBatch]:
    """Read columns of an input whole.

    ``names``: the columns; none: the first one.

    Raises RunError if the input cannot be read.
    """
    try:
        return list(read_rows(source, names))
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        text = f"stage {stage}: its input {source.path} cannot be read: {reason}"
        raise RunError(text) from error


def routes_of_keys(keys: pa.ChunkedArray, width: int) -> Ints:
    """Return the subpartition of each row by its key.

    ``KeyGroupStreamPartitioner`` on the key's text. A missing key is the text ``null``; a moment
    is written in microseconds, whichever unit the input has it in.
    """
    return _coded(keys, width)[1]


def first_rows_of_keys(keys: pa.ChunkedArray, width: int) -> list[Ints]:
    """Return which of the rows that a subpartition is sent are the first with their key.

    Per subpartition, ascending: a place for each of its keys, among its rows in the order of the
    input (shape (keys,)).
    """
    codes, routes = _coded(keys, width)
    found = []
    for index in range(width):
        _, firsts = np.unique(codes[routes == index], return_index=True)
        found.append(np.sort(firsts).astype(np.int64))
    return found


def _coded(keys: pa.ChunkedArray, width: int) -> tuple[Ints, Ints]:
    """Return a number for each row's key, and its subpartition."""
    texts = pa.chunked_array([key_texts(chunk) for chunk in keys.chunks], pa.string())
    coded = texts.combine_chunks().dictionary_encode()
    groups = default_max_parallelism(width)
    names = [str(key) for key in coded.dictionary.to_pylist()]
    of_key = np.array([channel_of_key(name, width, groups) for name in names] or [0], np.int64)
    codes = np.asarray(coded.indices.to_numpy(zero_copy_only=False), np.int64)
    return codes, of_key[codes]


# --- Replayed rows on the virtual clock: no row moves, so only the columns that count are read


def read_replayed(job: Job) -> Replayed:
    """Read how many rows each replaying source has, where a key sends them, and their stamps.

    Of all its replaying sources; empty if there is none. Raises RunError if an input cannot be read
    or has no rows. Raises ScenarioError if a row has no event time or no number where one is
    wanted, or there are too many keys.
    """
    found, ids = Replayed(), dict[str, "pa.Table"]()
    for plan in job.stages:
        if plan.stage.input is not None:
            _read(job, plan, plan.stage.input, found, ids)
    keys = row_keys(job, ids)
    stamps = {
        (stage, index): own + keys.offsets[stage] for (stage, index), own in found.stamps.items()
    }
    return replace(found, stamps=stamps, keys=keys)


def _read(
    job: Job, plan: JobVertex, source: Input, found: Replayed, ids: dict[str, pa.Table]
) -> None:
    """Read the rows of a source; add what is to be known of them, and their ids."""
    keyed = [link for link in plan.outputs if link.edge.key is not None]
    names, needs = [str(link.edge.key) for link in keyed], row_needs(job, plan)
    wanted = dict.fromkeys((*names, *(() if needs is None else needs.columns)))
    batches = read_columns(plan.name, source, list(wanted))
    count, subtasks = sum(len(batch) for batch in batches), plan.stage.parallelism
    if count == 0:
        raise RunError(f"the input of stage {plan.name} holds no rows: {source.path}")
    for index in range(subtasks):
        found.limits[plan.name, index] = len(range(index, count, subtasks))
    if needs is not None:  # first, for it refuses rows that do not fit
        stamped = stamp_rows(needs, batches)
        ids[plan.name] = stamped.ids
        for index, own in enumerate(dealt(stamped.stamps, subtasks)):
            found.stamps[plan.name, index] = own
    for link, name in zip(keyed, names, strict=True):
        keys = pa.chunked_array([batch.column(name) for batch in batches])
        routes = routes_of_keys(keys, len(link.outgoing(0)))  # hash: all senders reach all
        for index, own in enumerate(dealt(routes, subtasks)):
            found.tables[link.name, index] = own
