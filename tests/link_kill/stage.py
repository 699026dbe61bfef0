"""One of the three processes: ``stage.py FOLDER source|middle|sink``, until SIGTERM or a kill."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import rows
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flowcontrol import Link
from flowcontrol.live.queries import NOT_STARTED
from flowcontrol.spark.crash_points import crash_point

SETTINGS: dict[str, Any] = {
    "key": "key",
    "channels": 4,
    "exclusive_buffers": 1,
    "floating_buffers": 2,
    "buffer_bytes": "8 KiB",
}
"""Of both links: so little that somebody waits all the time."""

PATIENCE_S = 1800.0
"""How long a receiver waits for a link whose sender is being killed."""

SPARK = {
    "spark.master": "local[1]",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    # A kill may hit Spark while it writes offsets/0: it then refuses what it left behind.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""Little: what does not serve the test costs it time."""


class TableSink:
    """Writes each micro-batch into a Delta table once, by its number.

    Parameters
    ----------
    path : Path
        The table.
    delay_s : float
        How much longer a batch takes than it must: the sink is what the others wait for.
    """

    def __init__(self, path: Path, delay_s: float) -> None:
        self.path, self.delay_s = path, delay_s

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write the rows with the batch's number and their place in it."""
        import pyarrow as pa
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

        table = batch.toArrow()
        table = table.append_column("batch", pa.array([batch_id] * len(table), pa.int64()))
        table = table.append_column("place", pa.array(range(len(table)), pa.int64()))
        crash_point("table", batch_id, "before-table")
        last = None
        if DeltaTable.is_deltatable(str(self.path)):
            last = DeltaTable(str(self.path)).transaction_version("sink")
        if last is None or last < batch_id:
            once = CommitProperties(app_transactions=[Transaction("sink", batch_id)])
            write_deltalake(str(self.path), table, mode="append", commit_properties=once)
        crash_point("table", batch_id, "after-table")
        time.sleep(self.delay_s)


def begin(spark: SparkSession, folder: Path, stage: str) -> Any:
    """Return the writer of a stage's query."""
    if stage == "source":
        source = spark.readStream.schema(rows.DDL).option("maxFilesPerTrigger", 1)
        found = source.parquet(str(folder / "input"))
        return found.writeStream.foreachBatch(link(folder, "a").sender("source"))
    if stage == "middle":
        found = link(folder, "a").receive(spark, name="map", wait_s=PATIENCE_S)
        mapped = found.withColumn("doubled", 2 * F.col("number"))
        # The channel, as the link's documentation says that it is chosen.
        mapped = mapped.withColumn("channel", F.pmod(F.hash("key"), F.lit(SETTINGS["channels"])))
        return mapped.writeStream.foreachBatch(link(folder, "b").sender("middle"))
    # By its name alone: Spark finds the source by itself, in a session that nothing prepared.
    reader = spark.readStream.format("flowcontrol").options(name="sink", wait_s=str(PATIENCE_S))
    found = reader.load(str(folder / "link-b"))
    return found.writeStream.foreachBatch(TableSink(folder / "table", 0.1))


def link(folder: Path, name: str) -> Link:
    """Return one of the two links; whoever comes first makes it."""
    return Link(folder / f"link-{name}", **SETTINGS)


def main() -> None:
    """Run the query until it fails or is asked to end."""
    folder, stage = Path(sys.argv[1]), sys.argv[2]
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    builder = SparkSession.builder.appName(stage)
    for name, value in SPARK.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    writer = begin(spark, folder, stage)
    writer = writer.option("checkpointLocation", str(folder / f"checkpoint-{stage}"))
    query = writer.start()
    while not asked.is_set():
        try:
            query.awaitTermination(0.3)
        except StreamingQueryException as error:
            if NOT_STARTED not in str(error):
                raise
            query = writer.start()  # the machine is busy: Spark gives its reader 10 s to start
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
