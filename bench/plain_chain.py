"""The same batches through plain Delta: one file a batch, read as a stream, appended again."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


def plain_chain(spark: SparkSession, folder: Path, batches: int, rows: int) -> list[float]:
    """Run ``readStream.format("delta")`` -> foreachBatch Delta append over so many batches.

    Returns
    -------
    list of float
        Seconds at which each batch ended.
    """
    from deltalake import write_deltalake

    source, sink = str(folder / "source"), str(folder / "sink")
    import numpy as np
    import pyarrow as pa

    for batch in range(batches):
        numbers = pa.array(np.arange(rows, dtype=np.int64) + batch * rows)
        write_deltalake(source, pa.table({"number": numbers}), mode="append")
    ended: list[float] = []

    def append(frame: DataFrame, batch_id: int) -> None:
        writer = frame.write.format("delta").mode("append")
        writer.option("txnAppId", "plain").option("txnVersion", batch_id).save(sink)
        ended.append(time.monotonic())

    query = (
        spark.readStream.format("delta")
        .option("maxFilesPerTrigger", 1)
        .load(source)
        .writeStream.foreachBatch(append)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return ended
