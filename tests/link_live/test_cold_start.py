"""A pipeline that starts with a backlog: ten million rows in the long form."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from flowcontrol import Link
from flowcontrol.ledger.link_ledger import member_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 10_000_000 if "FLOWCONTROL_LONG" in os.environ else 1_500_000
ROW_BYTES = 16


class Sums:
    """A sink that keeps the number and the sum of the rows of each batch."""

    def __init__(self) -> None:
        self.batches: dict[int, tuple[int, int]] = {}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Take a batch."""
        [row] = frame.agg(F.count(F.lit(1)), F.coalesce(F.sum("id"), F.lit(0))).collect()
        self.batches[batch_id] = (row[0], row[1])


def test_millions_of_rows_that_wait_arrive_in_batches_that_fit_the_buffers(
    spark: SparkSession, tmp_path: Path, until: Callable[..., None]
) -> None:
    """All of them once, in many batches, though the source hands them out as one."""
    files = tmp_path / "in"
    spark.range(0, ROWS, 1, 4).withColumn("key", F.col("id") % 97).write.parquet(str(files))
    rows: Any = spark.readStream.schema("id long, key long").parquet(str(files))
    link = Link(tmp_path / "link", key="key", channels=8, exclusive_buffers=2, floating_buffers=8,
                buffer_bytes="512 KiB", schema=rows.schema)  # fmt: skip
    sink = Sums()
    down = link.receive(spark).writeStream.foreachBatch(sink)
    up = rows.writeStream.foreachBatch(link.sender("backlog"))
    queries = [
        work.option("checkpointLocation", str(tmp_path / name)).start()
        for work, name in ((down, "b"), (up, "a"))
    ]
    try:
        until(lambda: sum(count for count, _ in sink.batches.values()) >= ROWS, *queries)
    finally:
        for query in queries:
            query.stop()

    assert sum(count for count, _ in sink.batches.values()) == ROWS
    assert sum(total for _, total in sink.batches.values()) == ROWS * (ROWS - 1) // 2
    size = link.settings.pool_size
    assert max(count for count, _ in sink.batches.values()) * ROW_BYTES <= size * (512 << 10)
    assert len([count for count, _ in sink.batches.values() if count]) >= ROWS * ROW_BYTES // (
        size * (512 << 10)
    )
    ledger = member_rows(link.storage.child("ledger")).to_pylist()
    senders = [row for row in ledger if row["side"] == "sender"]
    assert max(row["pool_used"] for row in senders) == size  # it was full, and never more
    assert {row["batch_id"] for row in senders}
