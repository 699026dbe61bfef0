"""What queries need of a Spark session: its settings, and data sources that they may share."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from flowcontrol.live.interrupts import holding_interrupts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

SETTINGS = {
    # Delta, for users' SQL over the tables.
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Several queries share the session: with FIFO one stage's job would wait for another's.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "2",
    # Without Hadoop's native library the default manager spawns a process per checkpoint file.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.numRecentProgressUpdates": "4",
    "spark.ui.showConsoleProgress": "false",
}


LAUNCHERS = {"PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"}
"""Environment variables that are set if a launcher has chosen Spark's settings."""


def get_session(name: str) -> SparkSession:
    """Return the running session, or start one with :data:`SETTINGS`.

    Parameters
    ----------
    name : str
        Application name.

    Notes
    -----
    Where a launcher has chosen settings already (``spark-submit.sh``, spark-submit, a platform),
    they are kept. ``-Xss16m`` cannot be set on a running JVM; ``spark-submit.sh`` does it. Without
    it stopping a Python foreachBatch query in mid-batch overflows the JVM's stack in Spark 4.2.0.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if SparkSession.getActiveSession() is None and not LAUNCHERS & set(os.environ):
        builder = builder.appName(name)
        for key, value in SETTINGS.items():
            builder = builder.config(key, value)
    with holding_interrupts():
        return builder.getOrCreate()


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
