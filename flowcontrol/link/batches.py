"""The function that a sender's query hands its source batches to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from flowcontrol.errors import LinkError
from flowcontrol.link.arrow_batches import arrow_batches, mean_row_bytes
from flowcontrol.link.columns import CHANNEL, is_quoted, quoted
from flowcontrol.link.packing import RESULT, PackRows, packed_rows
from flowcontrol.link.source_batch import Checkpoint, checkpoint_of
from flowcontrol.link.stopping import is_stopped
from flowcontrol.link.tables import EXCHANGE, make_tables
from flowcontrol.live.crash_points import CrashPoint, crash_point

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from flowcontrol.ledger.storage import Storage
    from flowcontrol.link.sender import LinkSender
    from flowcontrol.link.settings import LinkSettings

QUERY_ID = "sql.streaming.queryId"
"""Spark's property with the identity of a query's checkpoint."""

RUN_ID = "spark.jobGroup.id"
"""Its property with the identity of one start of a query: the group of all of its jobs."""


class SenderBatch:
    """The foreachBatch function of a sender.

    Parameters
    ----------
    storage : Storage
        The link's folder.
    agree : callable
        Given the schema of the rows, creates the link or verifies that it carries them; returns
        its settings. It is pickled with this object.
    name : str
        The sender's.
    reset : bool
        Whether a new checkpoint may take the name over.

    Notes
    -----
    It can be pickled and holds no state but a cache: where foreachBatch runs away from the
    driver's script (Spark Connect) it opens the link there.
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

        Raises
        ------
        LinkError
            If the rows have other columns than the link, the name belongs to another checkpoint,
            or another process has taken it over.
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
            raise LinkError(
                f"{self.storage}: sender {self.name!r} was stopped before batch {batch_id} "
                "was written; it is run again at the next start"
            )
        source = None if self._checkpoint is None else self._checkpoint.digest(batch_id)
        if not sender.is_written(batch_id, source, lambda: rows.count()):
            files = packed_rows(self._pack(rows, sender))
            self._row_bytes = mean_row_bytes(files) or self._row_bytes
            sender.write(batch_id, files, source)
        if sender.settle(lambda: is_stopped(rows, query)):
            crash_point(self.name, batch_id, CrashPoint.BEFORE_RETURN)

    def _opened(self, rows: DataFrame) -> LinkSender:
        """Return the sender; the first batch of a start opens it."""
        start = _property(rows, QUERY_ID), _property(rows, RUN_ID)
        if self._sender is None or start != self._start:
            from flowcontrol.link.sender import LinkSender

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
        routed = rows.withColumn(CHANNEL, self._channel(rows, settings))
        if any(is_quoted(name) for name in rows.columns):
            # mapInArrow resolves columns by their names, without quotes.
            work.names = rows.columns
            plain = [f"column_{place}" for place in range(len(rows.columns))]
            routed = routed.toDF(*plain, CHANNEL)
        with arrow_batches(rows.sparkSession, self._row_bytes):
            found = routed.mapInArrow(work, StructType().add(RESULT, "string")).collect()
        return [row[RESULT] for row in found]

    def _channel(self, rows: DataFrame, settings: LinkSettings) -> Column:
        """Return the channel of a row: by the hash that Spark's own shuffle uses."""
        if settings.key is None:
            return (F.monotonically_increasing_id() % settings.channels).cast("int")
        return F.pmod(F.hash(*map(quoted, settings.key)), F.lit(settings.channels)).cast("int")


def _property(rows: DataFrame, name: str) -> str | None:
    """Return a property of the running query; None with Spark Connect, which hides them."""
    try:
        found = rows.sparkSession.sparkContext.getLocalProperty(name)
    except Exception:
        return None
    return None if found is None else str(found)
