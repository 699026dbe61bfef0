"""The figures and the ledger of a link for SQL: a Spark data source, and a copy in a catalog."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_ledger import create_ledger, rows_since
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.monitoring.bottleneck import link_cause
from flowcontrol.link.monitoring.figures import (
    LinkSnapshot,
    ReceiverSnapshot,
    SenderSnapshot,
    named_in_view,
    view_columns,
)
from flowcontrol.link.monitoring.monitor import WINDOW_S, LinkMonitor
from flowcontrol.link.options import number, stored_options
from flowcontrol.records import LEDGER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


# --- The figures of a link for SQL: a Spark data source with a row per channel of a snapshot.
#
# The rows are those of :class:`~flowcontrol.link.monitoring.monitor.LinkMonitor`, taken on an
# executor each time a query reads them: SQL, the terminal and Prometheus show the same figures.


COLUMNS = {name: kind for name, (kind, _) in view_columns().items()}
"""Columns of the view and their SQL types."""

LONGEST_WINDOW_S = 3600.0
"""Most that rates and shares cover, seconds."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class FiguresSource(DataSource):
    """The data source ``flowcontrol_figures``.

    Options: ``link``, or the path given to ``load``: folder of the link; ``window_s``, what rates
    and shares cover (10); ``now``, up to when they go, Unix time in seconds (the present);
    ``storage_options``, JSON.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name by which a reader asks for it."""
        return "flowcontrol_figures"

    def schema(self) -> str:
        """Return the columns."""
        return ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader.

        Raises LinkError if the options name no link, or are not valid; or if other columns are
        asked for.
        """
        if [(field.name, field.dataType.simpleString()) for field in schema] != [*COLUMNS.items()]:
            raise LinkError("the figures of a link have their own columns: leave out schema(...)")
        return _FiguresReader(self.options)


class _FiguresReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        given = {key.lower(): value for key, value in options.items()}
        place = given.pop("link", "") or given.pop("path", "")
        if not place:
            raise LinkError("a link's path is missing: .option('link', ...) or .load(path)")
        wrong: list[str] = []
        stored = stored_options(given.pop("storage_options", "{}"), wrong)
        window = number("window_s", given.pop("window_s", str(WINDOW_S)), wrong)
        self._now = number("now", given.pop("now", None), wrong)
        if window is not None and not 1 <= window <= LONGEST_WINDOW_S:
            wrong.append(f"window_s is {window:g}: needs seconds, from 1 to {LONGEST_WINDOW_S:g}")
        if self._now is not None and not 0 < self._now < float("inf"):
            wrong.append(f"now is {self._now:g}: needs Unix time, seconds, above 0")
        wrong += [
            f"{key} is not an option: there are link, window_s, now and storage_options"
            for key in given
            if key != "path"
        ]
        if wrong:
            raise LinkError(f"the figures of {place} are refused: {'; '.join(wrong)}")
        self._storage = Storage(place, stored)
        self._window_s = WINDOW_S if window is None else window

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        monitor = LinkMonitor(self._storage, window_s=self._window_s)
        yield from rows_of(monitor.snapshot(self._now))


def rows_of(snapshot: LinkSnapshot) -> Iterator[tuple[Any, ...]]:
    """Yield a row with :data:`COLUMNS` for each channel of a link."""
    senders = {sender.name: sender for sender in snapshot.senders}
    readers = {(one.name, channel): one for one in snapshot.receivers for channel in one.channels}
    cause = link_cause(snapshot)
    word = None if cause is None else cause.cause
    for one in snapshot.channels:
        sender, reader = senders[one.sender], readers.get((one.receiver, one.channel))
        is_starting = reader is not None and reader.is_starting
        verdict = None if is_starting else one.backpressure_level.value
        read = (getattr(reader, name, None) for name in named_in_view(ReceiverSnapshot))
        written = (getattr(sender, name) for name in named_in_view(SenderSnapshot))
        yield *astuple(one), verdict, *read, *written, word


def create_view(
    spark: SparkSession,
    name: str,
    storage: Storage,
    *,
    window_s: float = WINDOW_S,
    now: float | None = None,
) -> None:
    """Create a temporary view of a link's figures.

    - ``name``: of the view; one of that name is replaced.
    - ``window_s``: what rates and shares cover, seconds.
    - ``now``: up to when rates, shares and ages go, Unix time, seconds; by default the time of the
      query.

    Raises LinkError if the name or the window is not valid.
    """
    from flowcontrol.spark.session import register_source

    if not _NAME.fullmatch(name):
        raise LinkError(
            f"the view is called {name!r}: needs letters, digits and '_', the first no digit"
        )
    options = {"window_s": repr(window_s)}
    if storage.options:
        options["storage_options"] = json.dumps(storage.options)
    if now is not None:
        options["now"] = repr(now)
    _FiguresReader({**options, "path": str(storage)})  # refuses what a query would, at once
    register_source(spark, FiguresSource)
    reader = spark.read.format(FiguresSource.name()).options(**options)
    reader.load(str(storage)).createOrReplaceTempView(name)


# --- A link's ledger in a catalog table, appended through delta-spark.
#
# A catalog may forbid what delta-rs does, write to a table behind its back. But a receiver decides
# in a process that Spark keeps for its source, without a session; and a commit of delta-spark takes
# 30 times as long as one of delta-rs. So the link's own ledger stays in its folder, and this is its
# second: whole, in order, each row once.


OWN = ("link_id", "member")
"""Columns before the ledger's own: the link, and the member that wrote the row."""


def publish_ledger(spark: SparkSession, storage: Storage, link_id: str, table: str) -> int:
    """Append the rows of a link's ledger that a table lacks.

    Only one process at a time may publish a link: it reads which rows the table has and appends
    the others, as an application transaction numbered by the ledger's version, without MERGE.

    - ``link_id``: the link's; several links may share a table.
    - ``table``: name of the table, ``catalog.schema.table`` or shorter; it is made if it is not
      there.

    Raises LinkError if the table is there and is no such ledger.
    """
    from pyspark.sql import functions as F

    create_ledger(storage)
    names = [*OWN, *LEDGER.names]
    last: dict[str, int] = {}
    is_there = spark.catalog.tableExists(table)
    if is_there:
        there = spark.table(table)
        if there.columns != names:
            raise LinkError(
                f"{table} has the columns {', '.join(there.columns)}; the ledger of a link has "
                f"{', '.join(names)}: choose another name"
            )
        newest = there.where(F.col("link_id") == link_id).groupBy("member").agg(F.max("batch_id"))
        last = {row[0]: row[1] for row in newest.collect()}
    version, found = rows_since(storage, last)
    if is_there and not found:
        return 0
    empty = _with_names(link_id, "", LEDGER.arrow_schema().empty_table())
    own = [_with_names(link_id, member, rows) for member, rows in found.items()]
    rows = pa.concat_tables([empty, *own])
    writer = spark.createDataFrame(rows).coalesce(1).write.format("delta").mode("append")
    if found:
        writer = writer.option("txnAppId", f"flowcontrol/{link_id}").option("txnVersion", version)
    writer.saveAsTable(table)
    return int(rows.num_rows)


def _with_names(link_id: str, member: str, rows: pa.Table) -> pa.Table:
    fixed = [pa.repeat(pa.scalar(value), len(rows)) for value in (link_id, member)]
    return pa.table([*fixed, *rows.columns], names=[*OWN, *rows.column_names])
