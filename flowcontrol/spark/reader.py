"""The reader of both data sources, that of the live clock and that of a link."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from flowcontrol.spark.versions import has_read_limits

if TYPE_CHECKING or has_read_limits():
    from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
else:

    class SupportsTriggerAvailableNow:
        """Nothing: older Spark does not ask a source in Python."""


if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit


class CreditReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that credit limits, and not Spark; it holds nothing open."""

    def for_spark(self) -> DataSourceStreamReader:
        """Return the reader as the installed Spark calls it."""
        from flowcontrol.spark.older_reader import OlderReader

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
