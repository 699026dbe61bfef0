"""A listener that writes the progress of streaming queries to a Delta table.

Spark waits for its listeners, so a callback only queues the event; a background thread reads the
links and writes, one commit every few seconds. Failures there are logged and never reach Spark.
"""

from __future__ import annotations

import atexit
import json
import logging
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from flowcontrol.errors import FlowControlError
from flowcontrol.ledger.commit import commit_options, create_table
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.monitoring.figures import ChannelSnapshot, LinkSnapshot
from flowcontrol.link.monitoring.monitor import LinkMonitor
from flowcontrol.link.monitoring.table import labels
from flowcontrol.records import QUERY_PROGRESS

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )


# --- Which links a query reads, derived from the offsets that it reports, and their backlog.
#
# Spark does not report what a Python source reads. A receiver's ledger holds the same offsets that
# Spark reports, so a match identifies the receiver. While several match, the next progress decides.


FRESH_S = 1.0
"""Age at which a snapshot is replaced, s: it bounds the cost of queries with many small batches."""


class _Link:
    """One link, and the newest snapshot of it."""

    def __init__(self, path: str, label: str) -> None:
        self.path, self.label = path, label
        self._monitor: LinkMonitor | None = None
        self._snapshot: LinkSnapshot | None = None

    def refresh(self, age_s: float) -> None:
        """Take a snapshot unless the last one is at most so old."""
        if self._snapshot is not None and time.time() - self._snapshot.at <= age_s:
            return
        try:
            self._monitor = self._monitor or LinkMonitor(self.path, self.label)
            self._snapshot = self._monitor.snapshot()
        except FlowControlError:  # not created yet, or deleted
            self._snapshot = None

    def members_at(self, cursors: Mapping[str, list[int]]) -> list[str]:
        """Return the receivers of which a recent micro-batch ended at these cursors."""
        if self._monitor is None or self._snapshot is None:
            return []
        return [member for member, ends in self._monitor.ends().items() if cursors in ends]

    def channels(self, member: str) -> list[ChannelSnapshot]:
        """Return the channels that a receiver reads."""
        if self._snapshot is None:
            return []
        readers = [one for one in self._snapshot.receivers if one.member == member]
        return [channel for one in readers for channel in self._snapshot.channels_of(one)]


_Reader = tuple[_Link, str]
"""A link, and the application id of one of its receivers."""


class LinkReads:
    """Finds the receiver behind each query.

    ``links``: their paths. One that does not exist yet is tried again with each progress.
    """

    def __init__(self, links: Sequence[str]) -> None:
        paths = list(links)
        self._links = [_Link(*pair) for pair in zip(paths, labels(paths), strict=True)]
        self._known: dict[tuple[str, int], set[_Reader]] = {}

    def backlog(self, run: str, offsets: Sequence[Any]) -> dict[str, Any]:
        """Return the columns ``links`` and ``backlog_...`` of a progress."""
        cursors = [
            (number, offset["cursors"])
            for number, offset in enumerate(offsets)
            if isinstance(offset, dict) and isinstance(offset.get("cursors"), dict)
        ]
        if not cursors or not self._links:
            return {}
        is_known = all(len(self._known.get((run, n), ())) == 1 for n, _ in cursors)
        for link in self._links:
            link.refresh(FRESH_S if is_known else 0.0)
        readers = [self._reader((run, number), own) for number, own in cursors]
        found = [reader for reader in readers if reader is not None]
        if not found:
            return {}
        own = [channel for link, member in found for channel in link.channels(member)]
        return {
            "links": ",".join(dict.fromkeys(link.label for link, _ in found)),
            "backlog_rows": sum(channel.backlog_rows for channel in own),
            "backlog_bytes": sum(channel.backlog_bytes for channel in own),
            "backlog_age_s": max((channel.age_s for channel in own), default=0.0),
        }

    def _reader(self, key: tuple[str, int], cursors: Mapping[str, list[int]]) -> _Reader | None:
        """Return the receiver that reported cursors, once only one candidate is left."""
        known = self._known.get(key, set())
        if len(known) == 1:
            return next(iter(known))
        if not any(any(own) for own in cursors.values()):
            return None  # at the start all receivers have the same cursors
        found = {(link, member) for link in self._links for member in link.members_at(cursors)}
        if found:
            self._known[key] = found = (found & known) or found
        return next(iter(found)) if len(found) == 1 else None


FLUSH_S = 10.0
"""Time between two commits, seconds: a commit costs some 20 ms, a file and a place in the log."""

MOST_ROWS = 10_000
"""Rows kept while the table cannot be written, and events while a snapshot hangs; then the oldest
rows and the newest events are dropped."""

Event = Callable[[], dict[str, Any]]
"""Makes the row of an event; called in the thread, which handles its errors."""

_log = logging.getLogger("flowcontrol.listener")


class LinkListener(StreamingQueryListener):
    """Writes each progress of each query of a session into a Delta table.

    It can be pickled, as Spark Connect wants it. Rows that were not written when the process is
    killed are lost; a normal end of Python writes them.

    - ``path``: folder of the table; columns: :data:`flowcontrol.records.QUERY_PROGRESS`.
    - ``links``: links whose backlog is noted beside the progress of the queries that read them.
      Which query reads which is found out by the offsets that it reports.
    - ``flush_s``: time between two commits, seconds.

    Examples
    --------
    >>> listener = LinkListener("/lake/metrics", ["/lake/links/orders"])  # doctest: +SKIP
    >>> spark.streams.addListener(listener)  # doctest: +SKIP
    """

    def __init__(
        self,
        path: str | Path,
        links: Sequence[str | Path] = (),
        *,
        flush_s: float = FLUSH_S,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.path, self.links, self.flush_s = str(path), [str(link) for link in links], flush_s
        self.storage_options = dict(storage_options or {})
        self._begin()

    def _begin(self) -> None:
        # An event, a flag to be set when all before it was written, or None to end.
        self._queue: queue.Queue[Event | threading.Event | None] = queue.Queue(MOST_ROWS)
        self._rows: deque[dict[str, Any]] = deque(maxlen=MOST_ROWS)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._names: dict[str, str] = {}
        self._table = ProgressTable(Storage(self.path, self.storage_options))
        self._reads = LinkReads(self.links)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the arguments, not the queued events."""
        names = ("path", "links", "flush_s", "storage_options")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Start empty in another process."""
        self.__dict__.update(state)
        self._begin()

    # ------------------------------------------------------------------ what Spark calls

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Record that a query has started."""
        self._enqueue(lambda: self._started(event))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Record the progress of a micro-batch."""
        self._enqueue(lambda: self._progress(event.progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: an idle trigger has no figures."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Record that a query has ended, and write without delay."""
        self._enqueue(lambda: self._terminated(event))
        self._enqueue(threading.Event())

    # ------------------------------------------------------------------ the queue

    def _enqueue(self, item: Event | threading.Event) -> None:
        """Queue an event for the thread; Spark waits for this."""
        try:
            self._start()
            self._queue.put_nowait(item)
        except Exception:
            _log.exception("an event of a query was lost")

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                name = "flowcontrol-listener"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
                atexit.register(self.close)

    def _run(self) -> None:
        due = time.monotonic() + self.flush_s
        while True:
            item = self._next(due)
            if callable(item):
                self._add(item)
            if not callable(item) or time.monotonic() >= due:
                self._write()
                due = time.monotonic() + self.flush_s
            if isinstance(item, threading.Event):
                item.set()
            elif item is None:
                return

    def _next(self, due: float) -> Event | threading.Event | None:
        """Return the next item; an unused flag when rows have waited long enough."""
        try:
            wait = max(0.0, due - time.monotonic()) if self._rows else None
            return self._queue.get(timeout=wait)
        except queue.Empty:
            return threading.Event()

    def _add(self, event: Event) -> None:
        try:
            self._rows.append(event())
        except Exception:
            _log.exception("an event of a query was lost")

    def _write(self) -> None:
        if not self._rows:
            return
        try:
            self._table.append(list(self._rows))
            self._rows.clear()
        except Exception as error:
            text = " ".join(str(error).split())
            _log.warning("%s: %d rows wait for the next try: %s", self.path, len(self._rows), text)
            _log.debug("the attempt that failed", exc_info=True)

    def flush(self) -> None:
        """Write all queued events; return after the attempt."""
        tried = threading.Event()
        with self._lock:
            if self._thread is None:
                return
            self._queue.put(tried)
        tried.wait()

    def close(self) -> None:
        """Write all queued events and end the thread; a later event starts another."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join()
            atexit.unregister(self.close)

    # ------------------------------------------------------------------ rows

    def _started(self, event: QueryStartedEvent) -> dict[str, Any]:
        name = self._names[str(event.runId)] = event.name or str(event.id)
        return _row("started", event, name)

    def _terminated(self, event: QueryTerminatedEvent) -> dict[str, Any]:
        name = self._names.pop(str(event.runId), str(event.id))
        return {**_row("terminated", event, name), "error": event.exception}

    def _progress(self, progress: StreamingQueryProgress) -> dict[str, Any]:
        times = progress.durationMs
        commits = [times[name] for name in ("walCommit", "commitOffsets") if name in times]
        offsets = [source.endOffset for source in progress.sources]
        written = progress.sink.numOutputRows
        return {
            "at": datetime.fromisoformat(progress.timestamp),
            "event": "progress",
            "query": progress.name or str(progress.id),
            "query_id": str(progress.id),
            "run_id": str(progress.runId),
            "batch_id": progress.batchId,
            "rows": progress.numInputRows,
            "rows_written": written if written is not None and written >= 0 else None,
            "rows_in_per_s": _finite(progress.inputRowsPerSecond),
            "rows_out_per_s": _finite(progress.processedRowsPerSecond),
            "batch_ms": _finite(times.get("triggerExecution")),
            "add_batch_ms": _finite(times.get("addBatch")),
            "latest_offset_ms": _finite(times.get("latestOffset")),
            "planning_ms": _finite(times.get("queryPlanning")),
            "commit_ms": float(sum(commits)) if commits else None,
            **self._reads.backlog(str(progress.runId), [_offset(text) for text in offsets]),
        }


def _row(kind: str, event: QueryStartedEvent | QueryTerminatedEvent, name: str) -> dict[str, Any]:
    return {
        "at": datetime.now(UTC),
        "event": kind,
        "query": name,
        "query_id": str(event.id),
        "run_id": str(event.runId),
    }


def _finite(value: float | None) -> float | None:
    """Return a finite number, else None."""
    return None if value is None or not math.isfinite(value) else float(value)


def _offset(text: str | None) -> Any:
    """Return a source's offset; None if it is not JSON."""
    try:
        return json.loads(text or "null")
    except ValueError:
        return None


COMPACT_EVERY = 100
"""Appends between two compactions: about a quarter of an hour of an append every 10 s."""

KEEP_HOURS = 24
"""How long files stay that were compacted: what reads the table meanwhile still finds them."""


class ProgressTable:
    """Rows on their way into the Delta table.

    ``storage``: the table; it is created with the first rows.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._appends = 0

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows in one commit, and compact the table now and then."""
        import pyarrow as pa
        from deltalake import write_deltalake

        table = self._table()
        write_deltalake(
            table,
            pa.Table.from_pylist([dict(row) for row in rows], QUERY_PROGRESS.arrow_schema()),
            mode="append",
        )
        self._appends += 1
        if self._appends % COMPACT_EVERY == 0:
            self._compact()

    def _table(self) -> DeltaTable:
        from deltalake import DeltaTable

        schema, meaning = QUERY_PROGRESS.arrow_schema(), QUERY_PROGRESS.meaning
        create_table(self.storage, schema, meaning, for_users=True)
        return DeltaTable(str(self.storage), storage_options=commit_options(self.storage) or None)

    def _compact(self) -> None:
        """Put small files together; another driver that does so at the same time may win."""
        from deltalake.exceptions import CommitFailedError

        table = self._table()
        try:
            table.optimize.compact()
        except CommitFailedError:
            return
        table.vacuum(retention_hours=KEEP_HOURS, dry_run=False, enforce_retention_duration=False)
