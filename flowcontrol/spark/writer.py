"""What a streaming sink in Python is derived from, and which of its two processes this is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from flowcontrol.spark.versions import has_arrow_sinks

if TYPE_CHECKING or has_arrow_sinks():
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as ArrowSink
else:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

    class ArrowSink(DataSourceStreamWriter, DataSourceArrowWriter):
        """Spark 4.0 gives record batches to any writer that is one of Arrow, streaming or not."""


__all__ = ["ArrowSink", "is_committing"]

COMMITTER = "pyspark.sql.worker.python_streaming_sink_runner"
"""Spark's module that commits a batch. It makes a writer anew, of which it calls nothing else."""


def is_committing() -> bool:
    """Whether this process makes writers to commit with, and not for tasks."""
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return COMMITTER in sys.modules or (main is not None and main.name == COMMITTER)
