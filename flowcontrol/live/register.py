"""Registration of a Python data source, so that several queries can start on it at once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

WRITTEN_BY_QUERIES = {
    "SPARK_LOCAL_DIRS": "",
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}
"""What each query puts into the environment of its source as it starts
(``PythonStreamingSourceRunner.init`` of Spark 4); values are Spark's own, written over."""

_registering = threading.Lock()


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source whose queries may start at the same time.

    All queries on a source share one ``java.util.HashMap`` with the environment of its worker,
    and each puts the same few entries into it when it starts, in a thread of its own and without
    a lock. Two that insert at once leave a map that cannot be read back: the first task then fails
    with ``java.io.OptionalDataException``. With the entries there from the beginning nothing is
    inserted any more, only written over.

    Parameters
    ----------
    spark : SparkSession
        Where the source is to be known.
    source : type
        Of the data source.
    """
    try:
        context = spark.sparkContext
    except Exception:  # Spark Connect has no context on this side: its server has
        spark.dataSource.register(source)
        return
    with _registering:
        before = context.environment
        # Another one in its place, and not more entries in this one: a running query whose batch
        # makes a Python function reads it in a thread of its own, entry by entry.
        context.environment = {**WRITTEN_BY_QUERIES, **before}
        try:
            spark.dataSource.register(source)
        finally:
            context.environment = before
