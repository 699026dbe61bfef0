"""The reader of both data sources, that of the live clock and that of a link."""

from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)


class CreditReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that credit limits, and not Spark; it holds nothing open."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return no limit of Spark's: credit is the limit."""
        return ReadAllAvailable()

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: buffers are recycled when a batch ends, and senders trim."""

    def stop(self) -> None:
        """Do nothing: nothing is held open."""
