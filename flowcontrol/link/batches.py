"""What a sender's query does with a source batch: the function for its foreachBatch."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from flowcontrol.errors import FlowControlError, StoppedError
from flowcontrol.link.checkpoint import Checkpoint
from flowcontrol.link.event_time import check_event_column
from flowcontrol.link.folder import EXCHANGE, make_tables
from flowcontrol.link.packing import RESULT, PackRows, packed_rows
from flowcontrol.link.schema import CHANNEL, is_quoted, quoted, types_of
from flowcontrol.spark.crash_points import CrashPoint, crash_point

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from flowcontrol.ledger.link_index import PackedRows
    from flowcontrol.ledger.storage import Storage
    from flowcontrol.link.sender import LinkSender
    from flowcontrol.link.settings import LinkSettings


# --- What is printed when a function that Spark calls back fails.
#
# py4j prints the whole traceback of such a function (``clientserver._call_proxy``) before Spark has
# decided anything. Errors of this package name place, value and remedy, and Spark raises them again
# with the query: of them a line is enough, and of a stop, after which the batch runs again, none.


LOGGERS = ("py4j.clientserver", "py4j.java_gateway")
"""py4j's loggers, of pinned threads and of its older gateway."""

_log = logging.getLogger("flowcontrol.link")


class _OneLine(logging.Filter):
    """Replaces the traceback of an error of this package by its text."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is printed."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, FlowControlError):
            return True
        if isinstance(error, StoppedError):
            _log.debug("%s", error)
            return False
        record.msg, record.args = f"a batch of a link failed: {error}", ()
        record.exc_info = record.exc_text = None
        return True


_FILTER = _OneLine()


def shorten_tracebacks() -> None:
    """Have py4j print one line of an error of this package; of another all of it, as before."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)  # once: the same object again adds nothing


QUERY_ID = "sql.streaming.queryId"
"""Spark's property with the identity of a query's checkpoint."""

RUN_ID = "spark.jobGroup.id"
"""Its property with the identity of one start of a query: the group of all of its jobs."""


class SenderBatch:
    """The foreachBatch function of a sender.

    It can be pickled and holds no state but a cache: where foreachBatch runs away from the
    driver's script (Spark Connect) it opens the link there.

    - ``agree``: given the schema of the rows, creates the link or verifies that it carries them;
      returns its settings. It is pickled with this object.
    - ``reset``: whether a new checkpoint may take the name over.
    """

    def __init__(
        self,
        storage: Storage,
        agree: Callable[[StructType], LinkSettings],
        name: str,
        *,
        reset: bool,
    ) -> None:
        self.storage, self.name, self.reset = storage, name, reset
        self._agree = agree
        self._sender: LinkSender | None = None
        self._start: tuple[str | None, str | None] = (None, None)
        self._checkpoint: Checkpoint | None = None
        self._row_bytes: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what says which sender this is."""
        return {**self.__dict__, "_sender": None, "_row_bytes": None, "_checkpoint": None}

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write a source batch into the link and wait until it is released.

        Raises LinkError if the rows have other columns than the link, the name belongs to another
        checkpoint, or another process has taken it over.
        """
        try:
            self._send(rows, batch_id)
        except BaseException:
            self._sender = None  # its state may be ahead of what was committed
            self._row_bytes = None  # larger rows may be the cause
            raise

    def _send(self, rows: DataFrame, batch_id: int) -> None:
        """Release what an earlier start has left, write the batch, wait."""
        sender = self._opened(rows)
        query = sender.query
        if not sender.settle(lambda: is_stopped(rows, query)):
            # Returning would let Spark commit a batch whose rows are not in the link.
            raise StoppedError(
                f"{self.storage}: sender {self.name!r} was stopped before batch {batch_id} "
                "was written; it is run again at the next start"
            )
        source = None if self._checkpoint is None else self._checkpoint.digest(batch_id)
        if not sender.is_written(batch_id, source, lambda: rows.count()):
            if not sender.widen(lambda: is_stopped(rows, query)):
                raise StoppedError(
                    f"{self.storage}: sender {self.name!r} was stopped before batch {batch_id}, "
                    "when it waited to take more channels over; it is run again at the next start"
                )
            files = packed_rows(self._pack(rows, sender))
            self._row_bytes = mean_row_bytes(files) or self._row_bytes
            sender.write(batch_id, files, source)
        if sender.settle(lambda: is_stopped(rows, query)):
            crash_point(self.name, batch_id, CrashPoint.BEFORE_RETURN)

    def _opened(self, rows: DataFrame) -> LinkSender:
        """Return the sender; the first batch of a start opens it."""
        start = local_property(rows, QUERY_ID), local_property(rows, RUN_ID)
        if self._sender is None or start != self._start:
            from flowcontrol.link.sender import LinkSender

            shorten_tracebacks()
            settings = self._agree(rows.schema)
            make_tables(self.storage, settings)
            query = start[0] or f"sender {self.name}"
            names = rows.schema.fieldNames()
            self._sender = LinkSender(
                self.storage, settings, self.name, query, reset=self.reset, columns=names
            )
            self._start, self._checkpoint = start, checkpoint_of(rows, query)
        return self._sender

    def _pack(self, rows: DataFrame, sender: LinkSender) -> list[str]:
        """Have executors write the rows; return their reports."""
        settings = sender.settings
        work = PackRows(self.storage.child(EXCHANGE), sender.index, settings.buffer_bytes)
        if settings.event_time_column is not None:  # perhaps since the last batch
            work.event_time_column = settings.event_time_column
            check_event_column(str(self.storage), work.event_time_column, types_of(rows.schema))
        routed, channel = rows, list[str]()
        if settings.key is None:
            work.channels = sender.channels
        else:
            keys = F.hash(*map(quoted, settings.key))
            channel = [CHANNEL]  # by the hash that Spark's own shuffle uses
            routed = rows.withColumn(CHANNEL, F.pmod(keys, F.lit(sender.channels)).cast("int"))
        if any(is_quoted(name) for name in rows.columns):
            # mapInArrow resolves columns by their names, without quotes.
            work.names = rows.columns
            plain = [f"column_{place}" for place in range(len(rows.columns))]
            routed = routed.toDF(*plain, *channel)
        with arrow_batches(rows.sparkSession, self._row_bytes):
            found = routed.mapInArrow(work, StructType().add(RESULT, "string")).collect()
        return [row[RESULT] for row in found]


def local_property(rows: DataFrame, name: str) -> str | None:
    """Return a property of the running query; None with Spark Connect, which hides them."""
    try:
        found = rows.sparkSession.sparkContext.getLocalProperty(name)
    except Exception:
        return None
    return None if found is None else str(found)


BATCH_BYTES = 256 << 10
"""Size of an Arrow batch, about: 2,500 rows of 100 bytes cost a fifth less CPU than 10,000."""

MOST_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
MOST_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
SPARKS_MOST_ROWS = 10_000
"""Spark's own limit of rows, where the session has set none."""

NO_LIMIT = (1 << 31) - 1
"""The value of ``maxBytesPerBatch`` at which Spark does not measure."""


def mean_row_bytes(files: Sequence[PackedRows]) -> float | None:
    """Return the mean size of the rows of a source batch, bytes; ``None`` if it has none."""
    pieces = [piece for file in files for _, own in file.channels for piece in own]
    rows = sum(count for count, _ in pieces)
    return sum(nbytes for _, nbytes in pieces) / rows if rows else None


@contextmanager
def arrow_batches(session: SparkSession, row_bytes: float | None) -> Iterator[None]:
    """Have Spark fill Arrow batches by number of rows, so that it need not measure them.

    Spark 4.2 asks after every row how large the batch has become, and Arrow adds up all of its
    buffers each time: 41 % of the JVM's CPU time of a sender with rows of 100 bytes.

    - ``session``: that of the source batch; its settings are as before afterwards.
    - ``row_bytes``: mean size of the rows of the source batch before this one. ``None`` leaves
      Spark's settings alone: it measures, so rows of any size are safe.
    """
    if row_bytes is None:
        yield
        return
    before = {name: session.conf.get(name, None) for name in (MOST_ROWS, MOST_BYTES)}
    most = int(before[MOST_ROWS] or SPARKS_MOST_ROWS)
    own = max(1, round(BATCH_BYTES / row_bytes))
    session.conf.set(MOST_ROWS, str(min(most, own) if most > 0 else own))
    session.conf.set(MOST_BYTES, str(NO_LIMIT))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)


# --- Whether a query was stopped.
#
# Spark answers in private classes, which another version may have changed. Then the public list of
# active queries is asked, and the log says so once.


def running_query(rows: DataFrame, query: str) -> Any:
    """Return the query that runs a batch, as the JVM has it; None if it runs no more.

    The session of a batch is a clone whose own manager knows no query: what all sessions of an
    application share is asked.
    """
    session: Any = rows.sparkSession
    active = session._jsparkSession.sharedState().activeStreamingQueries()
    return active.get(session._jvm.java.util.UUID.fromString(query))


def checkpoint_of(rows: DataFrame, query: str) -> Checkpoint | None:
    """Return the checkpoint of the query that runs a batch.

    Returns None where Spark does not say: with Spark Connect.
    """
    try:
        return Checkpoint(
            str(running_query(rows, query).resolvedCheckpointRoot()), rows.sparkSession
        )
    except Exception as error:  # py4j's, or an attribute that Spark Connect has not
        _log.info(
            "the checkpoint of query %s is not known here (%s): a batch that runs again is "
            "recognised by its number and its count of rows",
            query,
            type(error).__name__,
        )
        return None


_warned: set[str] = set()
_listed: set[str] = set()


def is_stopped(rows: DataFrame, query: str) -> bool:
    """Whether the query was asked to stop while its batch runs.

    Spark Connect does not say; it ends the process instead.
    """
    try:
        found = running_query(rows, query)
        return found is None or not found.isActive()
    except Exception as error:
        if ".connect." in type(rows).__module__:
            return False
        text = " ".join(str(error).split())[:200]
        _warn_once(
            "private",
            f"Spark's private list of running queries cannot be read ({type(error).__name__}: "
            f"{text}): the public one of the default session is used instead",
        )
        return _has_ended(query)


def _has_ended(query: str) -> bool:
    """Whether the query is no more in the public list of active queries, where it was before."""
    from pyspark.sql import SparkSession

    try:
        active = {str(found.id) for found in SparkSession.builder.getOrCreate().streams.active}
    except Exception as error:
        _warn_once(
            "public",
            f"the list of active queries cannot be read either ({type(error).__name__}): a sender "
            "that waits for buffers does not see stop(); end the process instead",
        )
        return False
    if query in active:
        _listed.add(query)
        return False
    if query not in _listed:
        _warn_once(
            "unlisted",
            f"query {query} is not in the default session's list of active queries: while it waits "
            "for buffers it does not see stop(); start it from the default session",
        )
    return query in _listed


def _warn_once(what: str, text: str) -> None:
    if what not in _warned:
        _warned.add(what)
        _log.warning("%s", text)
