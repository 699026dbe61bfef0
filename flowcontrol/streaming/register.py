"""Registration of a Python data source, so that several queries can start on it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

__all__ = ["register_source"]

WRITTEN_BY_QUERIES = {
    "SPARK_LOCAL_DIRS": "",
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}
"""What each query puts into the environment of its source as it starts
(``PythonStreamingSourceRunner.init`` of Spark 4); values are Spark's own, written over."""


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
        environment = spark.sparkContext.environment
    except Exception:  # Spark Connect has no context on this side: its server has
        spark.dataSource.register(source)
        return
    added = {key: value for key, value in WRITTEN_BY_QUERIES.items() if key not in environment}
    environment.update(added)
    try:
        spark.dataSource.register(source)
    finally:
        for key in added:
            environment.pop(key, None)
