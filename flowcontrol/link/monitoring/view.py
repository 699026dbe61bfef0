"""The figures of a link for SQL: a Spark data source with a row per channel of a snapshot.

The rows are those of :class:`~flowcontrol.link.monitoring.monitor.LinkMonitor`, taken on an
executor each time a query reads them: SQL, the terminal and Prometheus show the same figures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from flowcontrol.errors import LinkError
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.monitoring.causes import link_cause
from flowcontrol.link.monitoring.figures import (
    LinkSnapshot,
    ReceiverSnapshot,
    SenderSnapshot,
    named_in_view,
    view_columns,
)
from flowcontrol.link.monitoring.monitor import WINDOW_S, LinkMonitor
from flowcontrol.link.options import number, stored_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

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
