"""The reader of both data sources, that of the live clock and that of a link."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from flowcontrol.errors import LinkError
from flowcontrol.spark.versions import has_read_limits

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit


if TYPE_CHECKING or has_read_limits():
    from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
else:

    class SupportsTriggerAvailableNow:
        """Nothing: older Spark does not ask a source in Python."""


class CreditReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that credit limits, and not Spark; it holds nothing open."""

    def for_spark(self) -> DataSourceStreamReader:
        """Return the reader as the installed Spark calls it."""
        return self if has_read_limits() else OlderReader(self)

    @abstractmethod
    def next_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        """Return where the batch ends that begins at ``start``; ``start`` if there is nothing."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return no limit of Spark's: credit is the limit."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next batch ends; credit is the limit."""
        return self.next_offset(start)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: buffers are recycled when a batch ends, and senders trim."""

    def stop(self) -> None:
        """Do nothing: nothing is held open."""


# --- The reader where Spark does not say where a batch begins: 4.0 and 4.1.
#
# There ``latestOffset()`` has no arguments, and credit needs the start. Spark says it otherwise:
# after a restart it asks first for the partitions between the last offset and itself
# (``AcceptsLatestSeenOffset``), a new checkpoint is one for which it did not, and from then on a
# batch begins where the one before ended.
#
# An ``availableNow`` query reads one batch: Spark runs it as ``once``. Where Spark is told to wrap
# its source instead (``spark.sql.streaming.triggerAvailableNowWrapper.enabled``), it does not say
# where a used checkpoint is: that is refused.


Offset = dict[str, Any]


class OlderReader(DataSourceStreamReader):
    """A reader for Spark 4.0 and 4.1."""

    def __init__(self, reader: CreditReader) -> None:
        self._reader = reader
        self._first: Offset | None = None
        self._begin: Offset | None = None
        self._end: Offset | None = None

    def initialOffset(self) -> Offset:
        """Return where a new checkpoint begins; Spark asks after :meth:`latestOffset`."""
        if self._first is None:
            self._first = self._reader.initialOffset()
        return self._first

    def latestOffset(self) -> Offset:  # type: ignore[override]  # without arguments until 4.2
        """Return where the next batch ends; where it begins if there is nothing for a while."""
        begin = self.initialOffset() if self._end is None else self._end
        end = self._reader.next_offset(begin)
        self._begin, self._end = begin, end
        return end

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return what the tasks of the batch between two offsets read.

        Raises LinkError if the batch was decided from another start: Spark has wrapped this source.
        """
        decided = end == self._end and self._begin is not None
        if decided and start not in (self._begin, end):
            raise LinkError(
                "Spark has not told the source where the query is. Nothing was read. With "
                "spark.sql.streaming.triggerAvailableNowWrapper.enabled an availableNow query on a "
                "used checkpoint needs Spark 4.2: unset that, or start it with another trigger"
            )
        if not decided:  # said after a restart, or a batch that runs again
            self._begin, self._end = None, end
        return [] if start == end else self._reader.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        yield from self._reader.read(partition)
