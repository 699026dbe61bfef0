"""What the live clock needs of a Spark session."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from flowcontrol.live.interrupts import holding_interrupts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        # Spark's workers else run whatever "python3" is on the PATH, which may lack this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.appName(name)
        for key, value in SETTINGS.items():
            builder = builder.config(key, value)
    with holding_interrupts():
        return builder.getOrCreate()
